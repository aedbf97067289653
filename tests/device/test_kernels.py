# SPDX-License-Identifier: Apache-2.0
"""The kernels of the cuda device: compiled for GPUs, and their results computed on hostcuda's simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from device import emulated

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


def product(threads: int, ctas: int, k: int, rows: int, tile: tuple[int, int]) -> nccl.Kernel:
    """A description that is fitted to a product of that many rows of tiles."""
    read = (rows * tile[0] + -(-ctas // rows) * tile[1]) * k * 2
    return nccl.Kernel("product", 2.0 * tile[0] * tile[1] * k * ctas, read, 0.0, ctas=ctas, threads_per_cta=threads)


@pytest.mark.parametrize(
    ("threads", "ctas", "k", "rows", "tile"),
    [
        (128, 1, 32, 1, (128, 64)),  # a slice less than the pipeline is deep
        (128, 4, 64, 2, (128, 64)),
        (128, 5, 160, 2, (128, 64)),  # the last column of tiles is cut short
        (256, 2, 96, 1, (128, 128)),
        (512, 1, 64, 1, (256, 128)),
    ],
)
def test_products_are_right(
    backend: CompiledBackend, threads: int, ctas: int, k: int, rows: int, tile: tuple[int, int]
) -> None:
    kernel = product(threads, ctas, k, rows, tile)
    backend.prepare([kernel])
    found = backend.fitted(kernel)
    assert found.fields == (rows, -(-ctas // rows), k)
    m, n = rows * tile[0], -(-ctas // rows) * tile[1]
    # Whole numbers that f32 adds exactly; their sums are rounded to bf16 once, at the end.
    generator = np.random.Generator(np.random.PCG64(k))
    a, b = (generator.integers(-8, 9, size=(size, k)).astype(np.float32) for size in (m, n))
    backend.region(kernel, 0, "bfloat16").from_host(a.ravel())
    backend.region(kernel, 1, "bfloat16").from_host(b.ravel())
    result = backend.region(kernel, 2, "bfloat16")
    result.fill_bytes(0xFF)
    nccl.synchronize()
    stream = nccl.Stream()
    backend.launch(kernel, stream)
    stream.synchronize()
    c = result.to_host().reshape(m, n).astype(np.float32)
    wanted = (a @ b.T).astype(ml_dtypes.bfloat16).astype(np.float32)
    for cta in range(rows * -(-ctas // rows)):
        part = np.s_[
            cta % rows * tile[0] : (cta % rows + 1) * tile[0], cta // rows * tile[1] : (cta // rows + 1) * tile[1]
        ]
        if cta < ctas:
            np.testing.assert_array_equal(c[part], wanted[part], err_msg=f"tile of CTA {cta}")
        else:
            assert np.isnan(c[part]).all(), "a tile that no CTA has was written"


@pytest.mark.parametrize(("reads", "writes"), [(1000, 1000), (1000, 300), (77, 500), (5, 0), (0, 64)])
def test_streams_read_and_write_what_they_say(backend: CompiledBackend, reads: int, writes: int) -> None:
    ctas, threads = 3, 32
    kernel = nccl.Kernel("stream", 0.0, 16.0 * reads, 16.0 * writes, ctas=ctas, threads_per_cta=threads)
    backend.prepare([kernel])
    source, target = (backend.region(kernel, index, "uint32") for index in (0, 1))
    values = np.random.Generator(np.random.PCG64(reads)).integers(0, 2**32, size=(max(1, reads), 4), dtype=np.uint32)
    source.from_host(values.ravel())
    target.fill_bytes(0xFF)
    nccl.synchronize()
    stream = nccl.Stream()
    backend.launch(kernel, stream)
    stream.synchronize()
    found = target.to_host().reshape(-1, 4)
    sums = np.zeros((ctas * threads, 4), np.uint32)
    wanted = np.full_like(found, 0xFFFFFFFF)
    for at in range(max(reads, writes)):
        thread = at % (ctas * threads)
        if at < reads:
            sums[thread] += values[at]
        if at < writes:
            wanted[at] = sums[thread]
    np.testing.assert_array_equal(found, wanted)


def test_machine_code_for_gpus_is_refused_by_hostcuda(
    backend: CompiledBackend, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(nccl.CudaError, match="cuModuleLoadData failed"):
        nccl.Module(b"\x7fELF" + bytes(60))
    assert "modules hold code for a GPU" in capfd.readouterr().err
