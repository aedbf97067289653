# SPDX-License-Identifier: Apache-2.0
"""The CUDA flavour as far as a machine without a GPU can judge it: it compiles, it exports what stock exports, its
nccl.h lays memory out as stock's does, and what the patches take of an SM. Nothing is run on a GPU."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from lagom.build import cuda, fetch, flavour, functions, nccl, patch, resources, toolkit, trees
from lagom.build.errors import BuildError

ARCH = 900
# Each collective on ring and tree in each protocol: every kernel family that knobs control, once.
FAMILIES = "SendRecv|(AllGather|AllGatherV|Broadcast) RING *|(AllReduce|Reduce|ReduceScatter) Sum f32 (RING|TREE) *"
ONE = "AllReduce Sum f32 RING SIMPLE"


@pytest.fixture(scope="module")
def kit() -> toolkit.Toolkit:
    try:
        return toolkit.find()
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def source() -> Path:
    return fetch.pristine()


def request(source: Path, pattern: str, stock: bool = False) -> flavour.Request:
    return flavour.Request(source, arch=ARCH, functions=functions.select(pattern), stock=stock)


def nvcc_resources(source: Path, pattern: str, stock: bool) -> dict[str, resources.Resources]:
    """Compile and device-link only; what the functions take."""
    build = cuda.CudaBuild(request(source, pattern, stock))
    build.run(("device-objects",))
    return build.resources()


def spills(found: resources.Resources) -> int:
    return found.spill_store_bytes + found.spill_load_bytes


def test_families_hold_all_that_knobs_control() -> None:
    # No knob reaches PAT's or the symmetric kernels.
    controlled = (name for name in functions.default(800) if "PAT" not in name and "Symmetric" not in name)
    wanted = {(name.split()[0], *name.split()[-2:]) for name in controlled}
    assert {(name.split()[0], *name.split()[-2:]) for name in functions.select(FAMILIES)} == wanted


def test_one_function_compiles_and_spills_no_more_than_stock(kit: toolkit.Toolkit, source: Path) -> None:
    stock, patched = (nvcc_resources(source, ONE, stock) for stock in (True, False))
    name = "ncclDevFunc_AllReduce_Sum_f32_RING_SIMPLE"
    assert spills(patched[name]) <= spills(stock[name]), resources.table(stock, patched)
    assert stock.keys() == patched.keys()
    for kernel, found in patched.items():
        # Symmetric kernels, here stand-ins, have a limit of their own.
        if found.registers and "Symk" not in kernel:
            assert found.registers <= cuda.MAX_REGISTERS, kernel


@pytest.mark.full
def test_the_library_beside_stock(kit: toolkit.Toolkit, source: Path) -> None:
    stock, patched = (
        cuda.CudaBuild(request(source, FAMILIES, stock)).run(make_current=False) for stock in (True, False)
    )
    missing = exported(stock / "libnccl.so.2") - exported(patched / "libnccl.so.2")
    assert not missing
    added = exported(patched / "libnccl.so.2") - exported(stock / "libnccl.so.2")
    assert "ncclCommSetKnobRules" in added
    assert {"ncclAllReduce", "pncclAllReduce"} <= exported(stock / "libnccl.so.2")
    needed = subprocess.run(["readelf", "-d", patched / "libnccl.so.2"], capture_output=True, text=True, check=True)
    assert "libcudart" not in needed.stdout  # linked statically
    described = json.loads((patched / "build.json").read_text())
    assert (described["flavour"], described["arch"], described["patched"]) == ("cuda", ARCH, True)

    before, after = (resources.read(folder / "resources.json") for folder in (stock, patched))
    print(resources.table(before, after))
    assert before.keys() == after.keys()
    assert max(found.registers or 0 for name, found in after.items() if "Symk" not in name) <= cuda.MAX_REGISTERS


def exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


def test_nccl_h_lays_out_memory_as_stock_does(kit: toolkit.Toolkit, source: Path, tmp_path: Path) -> None:
    seen = []
    for name in ("stock", "patched"):
        tree = tmp_path / name
        trees.copy(source, tree, flavour.STAGED_TOPS)
        if name == "patched":
            patch.apply(tree)
        nccl.export_headers(tree / "makefiles", tree, "test")
        text = (tree / "include" / "nccl.h").read_text()
        program = tmp_path / f"{name}.c"
        program.write_text(layout(text))
        includes = [f"-I{tree / 'include'}", f"-I{kit.headers.folder}"]
        subprocess.run(["gcc", *includes, program, "-o", tmp_path / f"{name}.out"], check=True)
        seen.append(subprocess.run([tmp_path / f"{name}.out"], capture_output=True, text=True, check=True).stdout)
    assert seen[0] == seen[1]
    assert "ncclUniqueId 128\n" in seen[0]
    assert "ncclConfig_t.minCTAs " in seen[0]


def layout(header: str) -> str:
    """A C program that prints size and offsets of every struct of nccl.h, and every enumerator's value."""
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    lines = []
    for body, name in re.findall(r"typedef struct\s*\w*\s*\{([^{}]*)\}\s*(\w+);", header):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for declaration in filter(str.strip, body.split(";")):
            field = re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", declaration)
            assert field, declaration
            lines.append(f'printf("{name}.{field[1]} %zu\\n", offsetof({name}, {field[1]}));')
    for body in re.findall(r"enum\s*\w*\s*\{([^{}]*)\}", header):
        for name in re.findall(r"(?:^|,)\s*(\w+)", body):
            lines.append(f'printf("{name} %d\\n", (int){name});')
    start = "#include <stddef.h>\n#include <stdio.h>\n#include <nccl.h>\nint main(void) {\n  "
    return start + "\n  ".join([*lines, "return 0;\n}\n"])


def test_without_nvcc_the_wheels_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr(toolkit, "_PARTS", ("./no-such-wheel",))
    monkeypatch.setattr(toolkit, "WHEELS", {"13.0": ("1",)})
    with pytest.raises(BuildError, match=r"no usable nvcc on this machine; pip could not fetch the wheels \./no-such"):
        toolkit.find()
    assert not [path for path in (tmp_path / "toolkit").iterdir() if path.name != ".lock"]


def test_a_release_that_is_asked_for(tmp_path: Path, kit: toolkit.Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOM_CACHE", str(tmp_path))
    monkeypatch.setenv("LAGOM_CUDA_VERSION", "12.8")
    with pytest.raises(BuildError, match=r"LAGOM_CUDA_VERSION is 12\.8; allowed is 13\.0, 13\.2"):
        toolkit.find()
    # The machine's nvcc is of another release, so it is passed over.
    monkeypatch.setattr(toolkit, "_PARTS", ("./no-such-wheel",))
    monkeypatch.setattr(toolkit, "WHEELS", {"13.99": ("1",)})
    monkeypatch.setenv("LAGOM_CUDA_VERSION", "13.99")
    with pytest.raises(BuildError, match=r"no-such-wheel==1"):
        toolkit.find()


def test_an_nvcc_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", "/bin/true")
    with pytest.raises(BuildError, match="/bin/true is not nvcc"):
        toolkit.find()
    monkeypatch.setenv("NVCC", "/nowhere/nvcc")
    with pytest.raises(BuildError, match="/nowhere/nvcc does not run"):
        toolkit.find()


def test_an_architecture_that_nvcc_does_not_know(kit: toolkit.Toolkit, source: Path) -> None:
    with pytest.raises(BuildError, match=r"arch 700: .* compiles for 750, 800"):
        cuda.CudaBuild(flavour.Request(source, arch=700))


def test_reports_are_read() -> None:
    ptxas = """
ptxas info    : Compiling entry function '_Z15ncclDevKernel_A5Thing' for 'sm_90'
ptxas info    : Function properties for _Z15ncclDevKernel_A5Thing
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 83 registers, used 16 barriers
ptxas info    : Function properties for _Z13ncclDevFunc_Av
    376 bytes stack frame, 196 bytes spill stores, 200 bytes spill loads
"""
    nvlink = """
nvlink info    : Function properties for '_Z15ncclDevKernel_A5Thing':
nvlink info    : used 96 registers, 0 stack, 0 bytes smem
"""
    found = resources.parse([ptxas, nvlink])
    assert found == {
        "ncclDevKernel_A": resources.Resources(96, 16, 12, 8),
        "ncclDevFunc_A": resources.Resources(None, 376, 196, 200),
    }
    lines = resources.table({"a": found["ncclDevFunc_A"]}, {"a": resources.Resources(None, 376, 100, 200)}).splitlines()
    assert re.split(r"  +", lines[1]) == ["a", "-", "376", "196 -> 100", "200"]
