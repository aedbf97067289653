# SPDX-License-Identifier: Apache-2.0
"""NCCL's example plug-ins, built from its source as it is, each with a job of two ranks whose data is checked.

That a plug-in was loaded is no proof that it worked: each is judged by what it wrote or what it made NCCL choose.
"""

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from launch import NEEDS_MPIRUN, mpirun
from programs.conftest import HERE, Compile, Published

from lagom.plan import read_plan

pytestmark = NEEDS_MPIRUN
COUNT = 65536
# Of job.py, by NCCL's names.
COLLECTIVES = Counter(["AllReduce", "AllReduce", "AllGather", "Broadcast", "ReduceScatter", "Reduce"])

Job = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def job(published: Published, tmp_path: Path) -> Job:
    """Runs job.py on two ranks, whose data must be right. They keep their communicator until ``until`` is true."""

    def run_job(more: Mapping[str, str], until: Callable[[], bool] | None = None) -> subprocess.CompletedProcess[str]:
        settings = {"NCCL_DEBUG": "INFO", **published.environment(), **more}
        words = [sys.executable, str(HERE / "job.py")]
        if until is not None:
            words.append(str(tmp_path / "end"))
            threading.Thread(target=end_when, args=(until, tmp_path / "end"), daemon=True).start()
        done = mpirun(2, words, settings)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        assert sorted(re.findall(r"rank \d: \d right", done.stdout)) == ["rank 0: 6 right", "rank 1: 6 right"]
        return done

    return run_job


def end_when(until: Callable[[], bool], file: Path, limit_s: float = 60) -> None:
    """Makes the file that ends job.py, after the limit too: the test then says what is missing."""
    limit = time.monotonic() + limit_s
    while not until() and time.monotonic() < limit:
        time.sleep(0.05)
    file.touch()


@pytest.fixture(scope="session")
def plugin(compiled: Compile, published: Published, nccl_source: Path) -> Callable[..., Path]:
    """plugin("net/example", "plugin.c") is the library."""

    def build(folder: str, *names: str, more: tuple[str, ...] = (), wrapped: tuple[str, ...] = ()) -> Path:
        top = nccl_source / "plugins" / folder
        compiler = "gcc" if names[0].endswith(".c") else "g++"
        includes = [f"-I{top}", f"-I{top / 'nccl'}", *(f"-I{nccl_source / 'plugins' / name}" for name in more)]
        options = ["-fPIC", "-shared", "-O1", "-w", *includes, *published.compile_options()]
        # The profilers call CUDA; nothing says that a program has its symbols in the global scope.
        libraries = [
            f"-L{published.folder}",
            "-lcudart",
            "-lpthread",
            "-ldl",
            *(f"-Wl,--wrap={one}" for one in wrapped),
        ]
        library = f"libnccl-{folder.replace('/', '-')}-{Path(names[0]).stem}.so"
        return compiled(library, [top / name for name in names], [*options, *libraries], compiler)

    return build


def chosen(log: str) -> set[tuple[str, int, str, str, int]]:
    """(collective, bytes, algorithm, protocol, channels) of what NCCL says that it runs."""
    found = re.findall(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}", log)
    return {
        (name, int(size), algorithm, protocol, int(high) - int(low) + 1)
        for name, size, algorithm, protocol, low, high in found
    }


def test_profiler(job: Job, plugin: Callable[..., Path], tmp_path: Path) -> None:
    library = plugin("profiler/example", "plugin.cc", "print_event.cc", "profiler_plugin_ce.cc")
    job(
        {
            "NCCL_PROFILER_PLUGIN": str(library),
            "NCCL_PROFILE_EVENT_MASK": "4095",
            "NCCL_PROFILE_DUMP_FILE": str(tmp_path / "trace"),
        }
    )
    traces = sorted(tmp_path.glob("trace*"))
    assert len(traces) == 2
    comms = set()
    for trace in traces:
        text = trace.read_text().rstrip()
        # What ends the list is an empty object, after a comma; the plug-in's own choice.
        events = json.loads(text)

        def of(category: str, half: str, events: list[dict[str, Any]] = events) -> list[dict[str, Any]]:
            return [one for one in events if (one.get("cat"), one.get("ph")) == (category, half)]

        for half in "be":  # begin and end
            assert Counter(event["name"] for event in of("COLL_API", half)) == COLLECTIVES
            # NCCL has no such event for broadcasts that its scheduler merges into one all-gather.
            assert Counter(event["name"] for event in of("COLL", half)) == COLLECTIVES - Counter(["Broadcast"])
        ran = of("COLL", "b")
        arguments = [event["args"] for event in ran]
        assert {(event["name"], event["args"]["Count"], event["args"]["Datatype"]) for event in ran} == {
            ("AllReduce", COUNT, "ncclFloat32"),
            ("AllReduce", COUNT // 64, "ncclFloat32"),
            ("AllGather", 4 * COUNT, "ncclInt8"),  # NCCL moves bytes
            ("ReduceScatter", COUNT // 2, "ncclFloat32"),
            ("Reduce", COUNT, "ncclFloat32"),
        }
        assert len({one["Rank"] for one in arguments}) == 1
        assert {one["Algorithm"] for one in arguments} <= {"RING", "TREE"}
        comms |= {one["CommHash"] for one in arguments}
        # Device times, in nanoseconds since the process began. This plug-in hears only the ends of channel 0: it takes
        # the number of the channel for a part of the event's type.
        channels = [event["args"] for event in of("GPU", "b")]
        assert all(0 < one["StartGpuClk"] < 10**12 for one in channels)
        whole = [(one["StartGpuClk"], one["StopGpuClk"]) for one in channels if one["Channel"] == 0]
        assert len(whole) == len(ran)
        assert all(start < stop for start, stop in whole)
        assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(whole))
    assert len(comms) == 1


def test_inspector(job: Job, plugin: Callable[..., Path], published: Published, tmp_path: Path) -> None:
    version = tmp_path / "version.cc"  # NCCL's Makefile writes this file; it names a git commit
    version.write_text('extern "C" { const char* get_git_version_info() { return "test"; } }\n')
    names = [f"inspector{part}.cc" for part in ("", "_prom", "_plugin", "_cudawrap")]
    ours = (str(version), str(HERE / "inspector_adapter.cc"))
    library = plugin("profiler/inspector", *names, "json.cc", *ours, wrapped=("pthread_create", "nanosleep"))
    logs = tmp_path / "logs"
    logs.mkdir()  # where both ranks try to, one fails and writes nothing
    settings = {
        "NCCL_PROFILER_PLUGIN": str(library),
        "NCCL_INSPECTOR_ENABLE": "1",
        "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "500",
        "NCCL_INSPECTOR_DUMP_DIR": str(logs),
    }
    # What its thread has not written by the end is lost.
    job(settings, until=lambda: sum("\n" in file.read_text() for file in logs.rglob("*.log")) == 2)
    files = [file for file in logs.rglob("*") if file.is_file()]
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert lines, files
    assert {line["header"]["rank"] for line in lines} == {0, 1}
    assert {line["header"]["n_ranks"] for line in lines} == {2}
    assert len({line["header"]["id"] for line in lines}) == 1
    for rank in (0, 1):
        performance = [line["coll_perf"] for line in lines if line["header"]["rank"] == rank]
        assert {one["coll"] for one in performance} <= set(COLLECTIVES)
        assert performance
        assert all(one["coll_exec_time_us"] > 0 for one in performance)


TUNED = """
allreduce,0,100000,tree,ll,3,-1,-1,-1,-1
allreduce,100001,4294967295,ring,ll128,2,1,2
allgather,0,4294967295,ring,simple,2,-1,-1
broadcast,0,4294967295,ring,ll,1,-1,-1
""".lstrip()


@pytest.fixture
def adapter(plugin: Callable[..., Path]) -> Path:
    """See tuner_adapter.c: two of NCCL's examples misread the table that NCCL gives them."""
    return plugin("tuner/example", str(HERE / "tuner_adapter.c"))


def test_tuner(job: Job, plugin: Callable[..., Path], adapter: Path, tmp_path: Path) -> None:
    """One file, which both are able to read, makes NCCL's example tuner and a plan choose the same."""
    file = tmp_path / "tuner.csv"
    file.write_text(TUNED)
    assert len(read_plan(file).rules) == 4
    common = {"NCCL_DEBUG_SUBSYS": "TUNING,INIT", "HOSTCUDA_MACHINE": "a100x8"}
    tuner = {"ADAPTED_TUNER": str(plugin("tuner/example", "plugin.c")), "NCCL_TUNER_CONFIG_FILE": str(file)}
    done = job({**common, **tuner, "NCCL_TUNER_PLUGIN": str(adapter)})
    assert done.stdout.count("TUNER/ExamplePlugin: Loaded 4 tuning configurations") == 2
    expected = {
        ("AllReduce", 4 * COUNT // 64, "TREE", "LL"),
        ("AllReduce", 4 * COUNT, "RING", "LL128"),
        ("AllGather", 4 * COUNT, "RING", "SIMPLE"),
        ("Broadcast", 4 * COUNT, "RING", "LL"),
    }
    assert expected <= {choice[:4] for choice in chosen(done.stdout)}
    planned = job({**common, "LAGOM_PLAN": str(file), "LAGOM_REQUIRE": "1"})
    assert expected <= {choice[:4] for choice in chosen(planned.stdout)}


def test_basic_tuner(job: Job, plugin: Callable[..., Path]) -> None:
    """It wants ring and Simple on one channel, whatever the call."""
    common = {"NCCL_DEBUG_SUBSYS": "TUNING,INIT"}
    done = job({**common, "NCCL_TUNER_PLUGIN": str(plugin("tuner/basic", "plugin.c"))})
    assert {choice[2:] for choice in chosen(done.stdout)} == {("RING", "SIMPLE", 1)}
    plain = job(common)
    assert {choice[2:] for choice in chosen(plain.stdout)} != {("RING", "SIMPLE", 1)}


def test_mixed(job: Job, plugin: Callable[..., Path], adapter: Path) -> None:
    """Network and tuner in one: it has no network device, and its tuner wants ring and Simple on one channel."""
    library = plugin("mixed/example", "plugin.c", more=("net/example/nccl", "tuner/example/nccl"))
    settings = {"NCCL_NET_PLUGIN": str(library), "ADAPTED_TUNER": str(library), "NCCL_TUNER_PLUGIN": str(adapter)}
    done = job({"NCCL_DEBUG_SUBSYS": "TUNING,INIT,NET", **settings})
    assert {choice[2:] for choice in chosen(done.stdout)} == {("RING", "SIMPLE", 1)}
    assert "Failed to initialize NET plugin Plugin" in done.stdout


def test_net(job: Job, plugin: Callable[..., Path]) -> None:
    """It says that it has no device, so NCCL puts it aside and takes its own."""
    library = plugin("net/example", "plugin.c")
    done = job({"NCCL_NET_PLUGIN": str(library), "NCCL_DEBUG_SUBSYS": "INIT,NET"})
    assert "Successfully loaded external network plugin" in done.stdout
    assert "Failed to initialize NET plugin Plugin" in done.stdout
    assert re.search(r"Assigned NET plugin Socket to comm|Using network Socket", done.stdout)


def test_env(job: Job, plugin: Callable[..., Path]) -> None:
    """It answers from the environment, so that a setting works through it."""
    library = plugin("env/example", "plugin.c")
    done = job({"NCCL_ENV_PLUGIN": str(library), "NCCL_DEBUG_SUBSYS": "INIT,TUNING,ENV", "NCCL_PROTO": "LL"})
    assert "Successfully loaded external env plugin" in done.stdout
    assert {choice[3] for choice in chosen(done.stdout)} == {"LL"}
