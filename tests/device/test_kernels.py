# SPDX-License-Identifier: Apache-2.0
"""The kernels of the cuda device: compiled for GPUs, and their results computed on hostcuda's simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from device import checks, emulated

import lagom.nccl as nccl
from lagom.build import cache, toolkit
from lagom.build.errors import BuildError
from lagom.device.backend import CompiledBackend
from lagom.device.compiled import cubin


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_they_compile_for_gpus(capability: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        toolkit.find()
    except BuildError as error:
        pytest.skip(str(error))
    image = cubin(capability)
    assert image.startswith(b"\x7fELF")
    for name in ("lagom_gemm_128", "lagom_gemm_256", "lagom_gemm_512", "lagom_stream"):
        assert f".text.{name}\0".encode() in image
    # Once compiled, nobody asks nvcc again.
    kept = sorted((cache.root() / "kernels").glob(f"*-sm_{capability[0]}{capability[1]}.cubin"))
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    assert cubin(capability) == image
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_gpus_that_cannot_run_them_are_refused() -> None:
    with pytest.raises(BuildError, match=r"compute capability 7\.5: the kernels need 8\.0 or higher"):
        cubin((7, 5))


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> CompiledBackend:
    """The compiled backend with the same kernels on the simulator."""
    return CompiledBackend(emulated_functions(tmp_path_factory.mktemp("emulated")))


def emulated_functions(folder: Path) -> Callable[[str], nccl.Function]:
    """The kernels on the simulator, where hostcuda is the CUDA in use."""
    try:
        library = nccl.library()
    except nccl.LibraryError as error:
        pytest.skip(str(error))
    if not library.hostcuda:
        pytest.skip(f"{library.cuda_path} is not hostcuda")
    return emulated.finder(emulated.build(folder))


@pytest.mark.parametrize("case", checks.PRODUCTS, ids=str)
def test_products_are_right(backend: CompiledBackend, case: tuple[int, int, int, int, tuple[int, int]]) -> None:
    checks.check_product(backend, *case)


@pytest.mark.parametrize(("reads", "writes"), checks.STREAMS)
def test_streams_read_and_write_what_they_say(backend: CompiledBackend, reads: int, writes: int) -> None:
    checks.check_stream(backend, reads, writes)


def test_machine_code_for_gpus_is_refused_by_hostcuda(
    backend: CompiledBackend, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(nccl.CudaError, match="cuModuleLoadData failed"):
        nccl.Module(b"\x7fELF" + bytes(60))
    assert "modules hold code for a GPU" in capfd.readouterr().err
