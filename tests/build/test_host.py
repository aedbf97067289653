# SPDX-License-Identifier: Apache-2.0
"""The host build as a process: identity, interruption, two at once, and finding what is already there."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lagom.build import cache, cli, fetch, flavour, functions, host, rooms, tools
from lagom.build.errors import BuildError

ONE = ("AllGather RING SIMPLE",)
DUMP = Path(__file__).parents[1] / "nccl_dump"


@pytest.fixture
def source() -> Path:
    """Pristine NCCL from the cache that the tests share."""
    return fetch.pristine()


@pytest.fixture
def own_cache(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAGOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def command(source: Path, *targets: str) -> list[str]:
    """`lagom build` of some targets, one step at a time."""
    options = ["--source", str(source), "--functions", ONE[0], "--jobs", "1"]
    return [sys.executable, "-m", "lagom.build", "build", *options, "--target", *targets]


def objects(own_cache: Path) -> dict[Path, int]:
    # Only where objects lie: the staging folder beside them vanishes while one looks.
    return {path: path.stat().st_mtime_ns for path in (own_cache / "build").glob("*/objects/**/*.o")}


def test_interrupted_and_continued(own_cache: Path, source: Path) -> None:
    with subprocess.Popen(
        command(source, "host-objects"), start_new_session=True, stdout=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 240
        while len(objects(own_cache)) < 3 and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    made = objects(own_cache)
    assert len(made) >= 3
    assert not list((own_cache / "lib").glob("*/build.json"))

    # The last one may be half written; what was finished before it must not be compiled again.
    by_age = sorted(made, key=lambda path: made[path])
    work = own_cache / "build" / "host"
    targets = [path.relative_to(work).as_posix() for path in by_age]
    done = subprocess.run(command(source, *targets), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert work == Path(done.stdout.splitlines()[-1])
    after = objects(own_cache)
    assert [after[path] for path in by_age[:-2]] == [made[path] for path in by_age[:-2]]
    assert not list(work.glob("stage-*"))


def test_a_second_build_waits(own_cache: Path, source: Path) -> None:
    work = own_cache / "build" / "host"
    with (
        cache.lock(work),
        subprocess.Popen(command(source, "objects/door.o"), stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr
        assert process.stderr.readline() == f"waiting for another process that works in {work}\n"
        assert process.poll() is None
        assert not (work / "objects" / "door.o").exists()
        process.kill()  # leaving the block waits for it, with the lock still held
    done = subprocess.run(command(source, "objects/door.o"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "waiting" not in done.stderr
    assert (work / "objects" / "door.o").is_file()


def test_a_step_that_fails_is_named(own_cache: Path, source: Path) -> None:
    done = subprocess.run(command(source, "objects/none.o"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "the build stopped (ninja status 1)" in done.stderr


def finished(own_cache: Path, build: host.HostBuild, key: str, names: tuple[str, ...]) -> Path:
    folder = own_cache / "lib" / key
    folder.mkdir(parents=True)
    (folder / "build.json").write_text(json.dumps({"base_key": build.base_key, "functions": names}))
    return folder


def test_a_build_that_holds_more_is_taken(own_cache: Path, source: Path) -> None:
    build = host.HostBuild(flavour.Request(source, functions=ONE))
    assert build.find() is None
    finished(own_cache, build, "other", ("AllGather RING LL",))
    assert build.find() is None
    more = finished(own_cache, build, "more", functions.select("AllGather RING *"))
    assert build.find() == more
    assert build.run() == more
    assert cache.current("host").resolve() == more
    exact = finished(own_cache, build, build.key, ONE)
    assert build.find() == exact


def test_links_hold_in_a_cache_that_is_a_link_itself(tmp_path: Path) -> None:
    place, target = tmp_path / "far" / "away" / "cache", tmp_path / "headers"
    place.mkdir(parents=True)
    target.mkdir()
    (tmp_path / "cache").symlink_to(place)
    cache.point(tmp_path / "cache" / "build" / "include", target)
    assert (tmp_path / "cache" / "build" / "include").resolve() == target.resolve()


@pytest.mark.parametrize("more", [{"stock": True}, {"extra_patches": (DUMP,)}], ids=["stock", "extra"])
def test_a_build_to_compare_with_is_not_the_default(own_cache: Path, source: Path, more: dict[str, Any]) -> None:
    build = host.HostBuild(flavour.Request(source, functions=ONE, **more))
    made = finished(own_cache, build, build.key, ONE)
    assert build.run() == made
    assert not cache.current("host").exists()


def test_the_key_follows_what_decides_the_result(
    own_cache: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(**options: object) -> str:
        return host.HostBuild(flavour.Request(source, **{"functions": ONE, **options})).key  # type: ignore[arg-type]

    keys = {
        key(),
        key(stock=True),
        key(arch=900),
        key(functions=("AllGather RING LL",)),
        key(extra_patches=(DUMP,)),
        key(stock=True, extra_patches=(DUMP,)),
        key(sanitize=("address",)),
        key(sanitize=("address", "undefined")),
    }
    assert len(keys) == 8
    assert key() == key(jobs=7)
    shutil.copytree(rooms.room("hostcuda"), tmp_path / "hostcuda")
    first = next((tmp_path / "hostcuda" / "runtime").glob("*.cc"))
    first.write_text(first.read_text() + "// more\n")
    real = rooms.room
    monkeypatch.setattr(host, "room", lambda name: tmp_path / name if name == "hostcuda" else real(name))
    assert key() not in keys


def test_an_architecture_that_is_not_modelled(source: Path) -> None:
    with pytest.raises(BuildError, match="arch 750: hostcuda models 800, 900, 1000"):
        host.HostBuild(flavour.Request(source, arch=750))


def test_a_sanitized_build_is_taken_only_by_who_asks_for_it(own_cache: Path, source: Path) -> None:
    plain = host.HostBuild(flavour.Request(source, functions=ONE))
    checked = host.HostBuild(flavour.Request(source, functions=ONE, sanitize=("address",)))
    assert plain.work == checked.work
    folder = finished(own_cache, checked, checked.key, ONE)
    assert plain.find() is None
    assert checked.find() == folder
    assert checked.run() == folder
    assert not cache.current("host").exists()


def test_headers_beside_the_library(own_cache: Path, source: Path) -> None:
    """The link leads into the environment of whoever asked last, even where nothing was built."""
    build = host.HostBuild(flavour.Request(source, functions=ONE))
    folder = finished(own_cache, build, build.key, ONE)
    (folder / "cuda-include").symlink_to("/nowhere")
    build.run()
    assert (folder / "cuda-include" / "cuda.h").is_file()


def test_another_processor(source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is fetched or built."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(fetch, "pristine", lambda *_: pytest.fail("fetched"))
    with pytest.raises(BuildError, match="this machine is aarch64, and hostcuda runs on x86-64 only"):
        host.HostBuild(flavour.Request(source))
    arguments = argparse.ArgumentParser()
    cli.add_build_options(arguments)
    with pytest.raises(BuildError, match="aarch64"):
        cli.build(arguments.parse_args([]))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--functions", "AllGather TREE LL"], "matches no function"),
        (["--arch", "700"], "arch 700: hostcuda models 800, 900, 1000"),
        (["--resources"], "--resources: only with --flavour cuda"),
        (["--sanitize", "thread"], "--sanitize thread: 'thread' is none of address, undefined"),
        (["--sanitize", "address,"], "--sanitize address,: '' is none of address, undefined"),
        (["--sanitize", "address", "--flavour", "cuda"], "--sanitize: only with --flavour host"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--jobs", "-3"], "--jobs -3: must be 1 or more"),
        (["--jobs", "0"], "--jobs 0: must be 1 or more"),
        (["--functions", " "], "--functions: the pattern is empty"),
        (["--jobs", "many"], "invalid int value"),
        (["--extra-patch", "/nowhere"], "/nowhere holds no patches"),
        (["--source", "/nowhere"], "/nowhere: no such file or folder"),
    ],
)
def test_bad_input(words: list[str], line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lagom.build", "build", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (1, 6)
    assert line in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["true", "false", "no program"])
def test_a_compiler_that_is_none(tmp_path: Path, program: str) -> None:
    other = tmp_path / "cxx"
    other.write_text("" if program == "no program" else f"#!/bin/sh\n{program}\n")
    other.chmod(0o755)
    with pytest.raises(BuildError, match="cxx does not answer -dumpversion as a C\\+\\+ compiler does"):
        tools.compiler_id(str(other))


def test_a_cache_that_cannot_be_written(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        command(source, "objects/door.o"),
        capture_output=True,
        text=True,
        env={**os.environ, "LAGOM_CACHE": str(tmp_path / "file" / "cache")},
    )
    assert done.returncode == 1
    assert "cannot write the cache folder" in done.stderr
    assert "LAGOM_CACHE" in done.stderr
