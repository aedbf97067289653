# SPDX-License-Identifier: Apache-2.0
"""Which machine is simulated, and what happens when its description is wrong."""

import re
import subprocess
from pathlib import Path

import pytest
from hostcuda.runtime.conftest import HOSTCUDA, Run

MACHINES = {
    "a40x8": ("NVIDIA A40", "8.6", 4, 1),
    "a100x8": ("NVIDIA A100", "8.0", 12, 7),
    "h100x8": ("NVIDIA H100", "9.0", 18, 7),
    "h200x8": ("NVIDIA H200", "9.0", 18, 7),
    "b200x8": ("NVIDIA B200", "10.0", 18, 7),
}


def topology_of(answer: str) -> str:
    found = re.search(r"^topology (.*)$", answer, re.MULTILINE)
    assert found
    return found[1]


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("hostcuda: ")]


@pytest.mark.parametrize("name", MACHINES)
def test_described_machines(run: Run, name: str) -> None:
    gpu, capability, links, peers = MACHINES[name]
    answer = run("ask", "devices", env={"HOSTCUDA_MACHINE": name}).stdout
    assert "count 8 error cudaSuccess" in answer
    found = re.findall(r"device (\S+) (.*) (\d+\.\d+)", answer)
    assert len({bus_id for bus_id, _, _ in found}) == 8
    assert all(gpu in told and capability == version for _, told, version in found)
    assert Path(topology_of(answer)).resolve() == (HOSTCUDA / "machines" / f"{name}.xml").resolve()

    nvml = run("ask", "nvml", env={"HOSTCUDA_MACHINE": name}).stdout.splitlines()
    assert [int(line.split()[2]) for line in nvml] == [links] * 8
    assert all("p2p with 0 0" in line for line in nvml)
    over_nvlink = [line for line in nvml[1:] if line.endswith("over nvlink 0")]
    assert len(over_nvlink) == peers


def test_the_default_is_a40s(run: Run) -> None:
    assert run("ask", "devices").stdout == run("ask", "devices", env={"HOSTCUDA_MACHINE": "a40x8"}).stdout


def test_bridged_pairs(run: Run) -> None:
    answer = run("ask", "devices").stdout
    bus_ids = re.findall(r"device (\S+)", answer)
    nvml = run("ask", "nvml").stdout.splitlines()
    assert [re.findall(r"to (\S+),", line)[0] for line in nvml] == [bus_ids[i ^ 1] for i in range(8)]


DRIVER = [
    "entry_points",
    "refused_by_name",
    "libcuda",
    "plain_names",
    "contexts_are_a_stack",
    "streams_tell_of_themselves",
    "driver_copies",
    "driver_pools",
]


@pytest.mark.parametrize("case", DRIVER)
def test_driver(run: Run, case: str) -> None:
    run("ask", case)


def test_nvidias_own_runtime_is_told_once(run: Run) -> None:
    (line,) = complaints(run("ask", "foreign_runtime"))
    assert "/ask holds NVIDIA's own CUDA runtime" in line and "-lcudart" in line


def test_more_ranks_than_devices(run: Run) -> None:
    done = run("ask", "too_many_ranks")
    assert complaints(done)[0] == "hostcuda: device 8 does not exist: machine a40x8 shows 8 (0..7)"


def test_no_devices(run: Run) -> None:
    done = run("ask", "devices_by_number", env={"CUDA_VISIBLE_DEVICES": ""})
    assert complaints(done)[0] == (
        "hostcuda: device 0 does not exist: CUDA_VISIBLE_DEVICES shows none of the 8 of machine a40x8"
    )


@pytest.mark.parametrize("machine", ["a40x8", "a100x8", "h100x8", "h200x8", "b200x8"])
def test_code_for_another_gpu_is_refused(run: Run, machine: str) -> None:
    """As with real machine code: the same major compute capability, and no higher minor one."""
    gpu, capability, _, _ = MACHINES[machine]
    done = run("ask", "architectures", env={"HOSTCUDA_MACHINE": machine})
    major, minor = capability.split(".")
    runs = re.findall(r"^(\d+) (\w+)$", done.stdout, re.MULTILINE)
    assert {arch for arch, error in runs if error == "cudaSuccess"} == {
        arch for arch, _ in runs if arch == "0" or (arch[:-2] == major and int(arch[-2]) <= int(minor))
    }
    assert {error for _, error in runs} == {"cudaSuccess", "cudaErrorNoKernelImageForDevice"}
    assert len(complaints(done)) == 1
    assert re.fullmatch(
        rf"hostcuda: kernels compiled for compute capability [\d.]+ cannot run on {gpu}.* \({re.escape(capability)}\): "
        rf"a build for {major}\.x is needed",
        complaints(done)[0],
    )


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("3,1", [3, 1]), ("2", [2]), ("1,9,2", [1]), ("", []), ("-1", []), ("0,1,x", [0, 1]), ("3,2,3,1", [3, 2])],
)
def test_visible_devices(run: Run, visible: str, expected: list[int]) -> None:
    everything = re.findall(r"device (\S+)", run("ask", "devices").stdout)
    answer = run("ask", "devices", env={"CUDA_VISIBLE_DEVICES": visible}).stdout
    assert re.findall(r"device (\S+)", answer) == [everything[i] for i in expected]
    assert ("cudaErrorNoDevice" in answer) == (not expected)


TOPOLOGY = """
<!-- two GPUs, by bus id alone -->
<system version="1">
  <cpu numaid="0">
    <pci busid="0000:00:16.0"/>
    <pci busid="0000:00:1D.0"/>
  </cpu>
</system>
"""


def test_the_users_topology_wins(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.xml"
    file.write_text(TOPOLOGY)
    answer = run("ask", "devices", env={"NCCL_TOPO_FILE": str(file)}).stdout
    assert re.findall(r"device (\S+)", answer) == ["0000:00:16.0", "0000:00:1D.0"]
    assert topology_of(answer) == str(file)
    nvml = run("ask", "nvml", env={"NCCL_TOPO_FILE": str(file)}).stdout.splitlines()
    assert "links 4 to 0000:00:1D.0" in nvml[0]  # still a pair of A40s


def test_a_topology_that_is_not_there(run: Run, tmp_path: Path) -> None:
    done = run("ask", "devices", env={"NCCL_TOPO_FILE": str(tmp_path / "none.xml")})
    assert complaints(done) == [
        f"hostcuda: no machine to simulate: {tmp_path}/none.xml: cannot be read: No such file or directory"
    ]


def test_a_child_is_not_bound_to_its_parents_topology(run: Run) -> None:
    inherited = topology_of(run("ask", "devices").stdout)
    env = {"NCCL_TOPO_FILE": inherited, "HOSTCUDA_TOPO_FILE": inherited, "HOSTCUDA_MACHINE": "h100x8"}
    answer = run("ask", "devices", env=env).stdout
    assert "H100" in answer
    assert topology_of(answer).endswith("h100x8.xml")


GPU = (HOSTCUDA / "gpus" / "a40.ini").read_text()
MACHINE = "[machine]\nname = small\ngpu = {folder}/gpu.ini\ntopology = small.xml\n"
LINKS = "[nvlink]\ngbps = 1\nlatency_us = 1\n[pcie]\ngbps = 1\nlatency_us = 1\n[host]\ngbps = 1\nlatency_us = 1\n"

BROKEN = {
    "no such machine": (
        {},
        "not_there",
        r"HOSTCUDA_MACHINE='not_there': it is a100x8, a40x8, b200x8, h100x8, h200x8, or a path to a description",
    ),
    "a file name": ({}, "a40x8.ini", r"HOSTCUDA_MACHINE='a40x8.ini': it is a100x8, a40x8,"),
    "no text": ({"small.ini": "[machine]\nname = x\0y\n"}, "", r"small.ini:2: a zero byte: this is no text"),
    "a topology that is a folder": (
        {"small.ini": "[machine]\nname = x\ngpu = {folder}/gpu.ini\ntopology = .\n" + LINKS},
        "",
        r"/\.: cannot be read: it is not a file",
    ),
    "a topology without end": (
        {"small.ini": "[machine]\nname = x\ngpu = {folder}/gpu.ini\ntopology = /dev/zero\n" + LINKS},
        "",
        r"/dev/zero: cannot be read: it is not a file",
    ),
    "a line without end": ({"small.ini": "a" * 5000}, "", r"small.ini:1: expected .*, found 'a{80}\.\.\.'$"),
    "control characters": ({"small.ini": "a\x1b[1m\n"}, "", r"small.ini:1: expected .*, found 'a\\x1b\[1m'$"),
    "next to no rate": (
        {"small.ini": "{machine}[host]\ngbps = 1e-320\nlatency_us = 1\n"},
        "",
        r"\[host\] needs gbps in 0.001..1000000 and",
    ),
    "no such path": ({}, "{folder}/nothing.ini", r"nothing.ini: cannot be read: No such file"),
    "a folder": ({}, "{folder}/", r"cannot be read"),
    "no topology": ({"small.xml": None}, "", r"small.xml: cannot be read: No such file"),
    "no GPU description": ({"gpu.ini": None}, "", r"gpu.ini: cannot be read: No such file"),
    "not an INI line": ({"small.ini": "[machine]\nname\n"}, "", r"small.ini:2: expected \[section\] or key = value"),
    "key before a section": ({"small.ini": "name = x\n"}, "", r"small.ini:1: key 'name' stands before any \[section\]"),
    "key twice": ({"small.ini": "[machine]\nname = x\nname = y\n"}, "", r"small.ini:3: key 'name' appears twice"),
    "key missing": ({"small.ini": "[machine]\nname = x\n"}, "", r"small.ini: key 'gpu' is missing from section"),
    "not a number": ({"gpu.ini": re.sub(r"(?m)^sms *=.*", "sms = many", GPU)}, "", r"gpu.ini:\d+: sms = 'many' is not"),
    "out of range": ({"gpu.ini": re.sub(r"(?m)^sms *=.*", "sms = 0", GPU)}, "", r"gpu.ini: sms = 0 is outside of"),
    "no link": ({"small.ini": MACHINE.format(folder="{folder}")}, "", r"small.ini: key 'gbps' is missing from section"),
    "a link without rate": (
        {"small.ini": "{machine}[host]\ngbps = 0\nlatency_us = 1\n"},
        "",
        r"\[host\] needs gbps in",
    ),
    "half a GPU": (
        {"gpu.ini": GPU[: GPU.index("[gpu]")] + GPU[GPU.index("[gpu]") :].split("\n[")[0]},
        "",
        r"gpu.ini: ",
    ),
    "an element left open": ({"small.xml": "<system>\n<cpu>\n"}, "", r"small.xml:\d+: <cpu> is not closed"),
    "closes nothing": ({"small.xml": "<system></cpu>"}, "", r"small.xml:1: </cpu> closes nothing"),
    "no quotes": ({"small.xml": "<system version=1/>"}, "", r"small.xml:1: attribute 'version' has no value"),
    "cut short": ({"small.xml": '<system>\n<pci busid="0000'}, "", r"small.xml:2: attribute 'busid' is not closed"),
    "an odd bus id": ({"small.xml": '<system><pci busid="7"/></system>'}, "", r"small.xml:1: a GPU's busid must look"),
    "bus ids that are no numbers": (
        {"small.xml": '<system><pci busid="0000:0g:00.0"/></system>'},
        "",
        r"small.xml:1: a GPU's busid must look like 0000:00:00.0, not '0000:0g:00.0'",
    ),
    "a bus id twice": (
        {"small.xml": '<system>\n<pci busid="0000:01:00.0"/>\n<pci busid="0000:01:00.0"/></system>'},
        "",
        r"small.xml:3: two GPUs have the busid 0000:01:00.0",
    ),
    "an empty topology": ({"small.xml": ""}, "", r"small.xml: no <system>: this is no topology file"),
    "no XML at all": ({"small.xml": "eight of them\n"}, "", r"small.xml: no <system>: this is no topology file"),
    "an unknown link count": (
        {"small.xml": '<system><pci busid="0000:01:00.0" class="0x030000"><nvlink count="-1"/></pci></system>'},
        "",
        r"small.xml:1: <nvlink> needs a count, not '-1'",
    ),
    "an empty machine": ({"small.ini": ""}, "", r"small.ini: key 'name' is missing from section \[machine\]"),
    "an unknown key": (
        {"small.ini": "{machine}[nvlink]\nbgps = 1\n"},
        "",
        r"small.ini: \[nvlink\] bgps is not a key of a machine",
    ),
    "an unknown section": ({"small.ini": "{machine}[nvlnik]\n"}, "", r"small.ini: section \[nvlnik\] is not one of a"),
    "a wrong unit": (
        {"small.ini": "{machine}[host]\ngbps = 24 GB\nlatency_us = 1\n"},
        "",
        r"small.ini:\d+: gbps = '24 GB' is not a number",
    ),
    "a negative latency": (
        {"small.ini": "{machine}[host]\ngbps = 1\nlatency_us = -1\n"},
        "",
        r"\[host\] needs gbps in 0.001..1000000 and latency_us in 0..1000000",
    ),
    "an empty GPU": ({"gpu.ini": ""}, "", r"gpu.ini: key 'name' is missing from section \[gpu\]"),
    "an unknown section of a GPU": (
        {"gpu.ini": GPU + "\n[fans]\n"},
        "",
        r"gpu.ini: section \[fans\] is not one of a GPU",
    ),
    "a negative figure": (
        {"gpu.ini": re.sub(r"(?m)^sms *=.*", "sms = -84", GPU)},
        "",
        r"gpu.ini:\d+: sms = '-84' is not a whole number",
    ),
    "no GPUs": ({"small.xml": '<system version="1"></system>'}, "", r"small.xml: 0 GPUs; 1 to 64 are possible"),
}


@pytest.fixture
def small_machine(tmp_path: Path) -> Path:
    (tmp_path / "small.ini").write_text(MACHINE.format(folder=tmp_path) + LINKS)
    (tmp_path / "small.xml").write_text(TOPOLOGY)
    (tmp_path / "gpu.ini").write_text(GPU)
    return tmp_path


def test_a_machine_by_path(run: Run, small_machine: Path) -> None:
    answer = run("ask", "devices", env={"HOSTCUDA_MACHINE": str(small_machine / "small.ini")}).stdout
    assert "count 2 error cudaSuccess" in answer


def test_descriptions_of_other_editors(run: Run, small_machine: Path) -> None:
    """A byte order mark and carriage returns are none of the text."""
    for file in small_machine.iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    answer = run("ask", "devices", env={"HOSTCUDA_MACHINE": str(small_machine / "small.ini")}).stdout
    assert "count 2 error cudaSuccess" in answer


def test_paths_count_from_the_description(run: Run, small_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small_machine / "small.ini").write_text("[machine]\nname = x\ngpu = ./gpu.ini\ntopology = small.xml\n" + LINKS)
    monkeypatch.chdir(small_machine.parent)
    answer = run("ask", "devices", env={"HOSTCUDA_MACHINE": f"{small_machine.name}/small.ini"}).stdout
    assert "count 2 error cudaSuccess" in answer
    assert topology_of(answer) == str(small_machine / "small.xml")  # wherever the program goes


@pytest.mark.parametrize("what", BROKEN)
def test_a_wrong_description_is_one_line(run: Run, small_machine: Path, what: str) -> None:
    files, machine, expected = BROKEN[what]
    for name, text in files.items():
        if text is None:
            (small_machine / name).unlink()
        else:
            text = text.replace("{machine}", MACHINE).replace("{folder}", str(small_machine))
            (small_machine / name).write_text(text)
    chosen = machine.format(folder=small_machine) or str(small_machine / "small.ini")
    for case in ("devices", "nothing_works_without_a_machine"):
        done = run("ask", case, env={"HOSTCUDA_MACHINE": chosen})
        assert len(complaints(done)) == 1
        assert re.search(expected, complaints(done)[0]), complaints(done)


def test_a_data_folder_can_be_named(run: Run, tmp_path: Path) -> None:
    done = run("ask", "devices", env={"HOSTCUDA_DATA": str(tmp_path)})
    assert f"{tmp_path}/machines: no descriptions of machines are there" in complaints(done)[0]
    assert "count 8" in run("ask", "devices", env={"HOSTCUDA_DATA": str(HOSTCUDA)}).stdout
