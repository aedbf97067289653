# SPDX-License-Identifier: Apache-2.0
"""Finding and refusing libraries. The libraries are a few lines of C; each case is a process of its own, since a
process loads NCCL once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CC = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

NCCL_CALLS = [
    "CommInitAll",
    "CommInitRankConfig",
    "CommFinalize",
    "CommDestroy",
    "CommAbort",
    "CommSplit",
    "CommGetAsyncError",
    "CommCount",
    "CommUserRank",
    "CommCuDevice",
    "GroupStart",
    "GroupEnd",
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
    "RedOpCreatePreMulSum",
    "RedOpDestroy",
    "Send",
    "Recv",
    "GetUniqueId",
]
CUDA_CALLS = [
    "GetLastError",
    "GetDeviceCount",
    "GetDevice",
    "SetDevice",
    "DeviceGetAttribute",
    "DeviceGetPCIBusId",
    "GetDeviceProperties",
    "DeviceSynchronize",
    "Malloc",
    "Free",
    "MemsetAsync",
    "MemcpyAsync",
    "PointerGetAttributes",
    "StreamCreateWithPriority",
    "StreamDestroy",
    "StreamSynchronize",
    "StreamQuery",
    "StreamWaitEvent",
    "StreamBeginCapture",
    "StreamEndCapture",
    "StreamIsCapturing",
    "GraphGetNodes",
    "GraphDestroy",
    "GraphInstantiateWithFlags",
    "GraphLaunch",
    "GraphExecUpdate",
    "GraphExecDestroy",
    "EventCreateWithFlags",
    "EventDestroy",
    "EventRecord",
    "EventSynchronize",
    "EventQuery",
    "EventElapsedTime",
]
NCCL = """
int ncclGetVersion(int* v) { *v = 22907; return 0; }
const char* ncclGetErrorString(int e) { return "bad"; }
const char* ncclGetLastError(void* c) { return "because of x"; }
"""
CUDA = """
int cudaRuntimeGetVersion(int* v) { *v = 13000; return 0; }
const char* cudaGetErrorString(int e) { return "words"; }
const char* cudaGetErrorName(int e) { return "name"; }
"""


def compiled(folder: Path, file: str, code: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{file}.c"
    source.write_text(code)
    command = [str(CC), "-shared", "-fPIC", f"-Wl,-soname,{file}", "-o", str(folder / file), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return folder / file


def stock(folder: Path, **results: int) -> Path:
    """A NCCL in which every call succeeds or returns what ``results`` says, and a CUDA runtime beside it."""
    calls = [f"int nccl{name}() {{ return {results.get(name, 0)}; }}" for name in NCCL_CALLS]
    compiled(folder, "libcudart.so.13", CUDA + "".join(f"int cuda{name}() {{ return 0; }}" for name in CUDA_CALLS))
    return compiled(folder, "libnccl.so.2", NCCL + "".join(calls))


def python(code: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAGOM_", "LD_", "NCCL_", "OMPI_", "PMIX_"))}
    return subprocess.run(
        [sys.executable, "-P", "-c", "import lagom.nccl as nccl\n" + code],
        env={**kept, "LAGOM_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def last_error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_no_library_says_where_it_was_looked_for(tmp_path: Path) -> None:
    error = last_error(python("nccl.library()", tmp_path))
    assert "LibraryError: no NCCL library found" in error and str(tmp_path / "lib") in error and "lagom build" in error


def test_a_folder_of_sources_says_that_it_is_not_built(tmp_path: Path) -> None:
    package = tmp_path / "lagom" / "nccl"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    sources = Path(__file__).parents[2] / "lagom" / "nccl"
    (package / "__init__.py").write_text((sources / "__init__.py").read_text())
    command = [sys.executable, "-c", "import lagom.nccl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert f"{package} holds the sources of lagom.nccl" in last_error(done) and "-P" in last_error(done)


def test_importing_needs_no_library(tmp_path: Path) -> None:
    done = python("print(nccl.Rule('all_reduce', knobs=nccl.Knobs('ring')), nccl.dtype('bfloat16').itemsize)", tmp_path)
    assert done.returncode == 0 and "ring" in done.stdout


def test_named_library_and_runtime_beside_it(tmp_path: Path) -> None:
    path = stock(tmp_path / "a")
    for named in (path, path.parent):
        done = python("print(nccl.library())", tmp_path, LAGOM_NCCL=str(named))
        assert f"path='{path}'" in done.stdout and "found_by='LAGOM_NCCL'" in done.stdout
        assert "patched=False" in done.stdout and "version=22907" in done.stdout and "hostcuda=False" in done.stdout
        assert f"cuda_path='{path.parent / 'libcudart.so.13'}'" in done.stdout


def test_named_file_that_is_not_there(tmp_path: Path) -> None:
    assert "does not exist" in last_error(python("nccl.library()", tmp_path, LAGOM_NCCL=str(tmp_path / "none.so")))


def test_named_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    assert "cannot open" in last_error(python("nccl.library()", tmp_path, LAGOM_NCCL=str(tmp_path / "text.so")))


def test_named_file_that_is_another_library(tmp_path: Path) -> None:
    path = compiled(tmp_path, "libother.so", "int other(void) { return 0; }")
    error = last_error(python("nccl.library()", tmp_path, LAGOM_NCCL=str(path)))
    assert f"ncclGetVersion is not in {path}" in error


def test_cache_comes_before_the_system(tmp_path: Path) -> None:
    path = stock(tmp_path / "lib" / "some-key")
    (tmp_path / "lib" / "current-host").symlink_to("some-key")
    done = python("print(nccl.library())", tmp_path)
    assert f"path='{path}'" in done.stdout and "found_by='cache'" in done.stdout


def test_preload_wins_and_a_contradiction_is_refused(tmp_path: Path) -> None:
    preloaded, other = stock(tmp_path / "a"), stock(tmp_path / "b")
    done = python("print(nccl.library())", tmp_path, LD_PRELOAD=str(preloaded))
    assert f"path='{preloaded}'" in done.stdout and "found_by='already in the process'" in done.stdout
    same = python("print(nccl.library())", tmp_path, LD_PRELOAD=str(preloaded), LAGOM_NCCL=str(preloaded))
    assert same.returncode == 0
    error = last_error(python("nccl.library()", tmp_path, LD_PRELOAD=str(preloaded), LAGOM_NCCL=str(other)))
    assert f"LAGOM_NCCL names {other}" in error and f"{preloaded} is already in the process" in error


def test_a_library_opened_by_another_module_is_found(tmp_path: Path) -> None:
    path = stock(tmp_path / "a")
    done = python(f"import ctypes\nctypes.CDLL({str(path)!r})\nprint(nccl.library())", tmp_path)
    assert f"path='{path}'" in done.stdout and "already in the process" in done.stdout


def test_errors_carry_nccls_own_text(tmp_path: Path) -> None:
    path = stock(tmp_path / "a", GetUniqueId=3)
    code = """
try:
    nccl.unique_id()
except nccl.NcclError as error:
    print(error.function, error.code, error.name, error.text, sep="|")
    print(error)
"""
    done = python(code, tmp_path, LAGOM_NCCL=str(path))
    assert done.stdout.splitlines() == [
        "ncclGetUniqueId|3|bad|because of x",
        "ncclGetUniqueId failed: because of x (code 3, bad)",
    ]


def test_described_kernels_need_hostcuda(tmp_path: Path) -> None:
    path = stock(tmp_path / "a")
    error = last_error(python("nccl.Stream().launch(nccl.Kernel('k', flops=1))", tmp_path, LAGOM_NCCL=str(path)))
    assert "hostcudaLaunchDescribed needs hostcuda" in error


def test_running_a_program_under_a_plan_needs_the_patched_library(tmp_path: Path) -> None:
    path = stock(tmp_path / "a")
    code = "from lagom.nccl import preload\npreload.environment({}, plan='x.csv')"
    assert "is not patched" in last_error(python(code, tmp_path, LAGOM_NCCL=str(path)))
