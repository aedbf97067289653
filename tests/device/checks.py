# SPDX-License-Identifier: Apache-2.0
"""Results of the compiled kernels against NumPy, wherever they run."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import lagom.nccl as nccl
from lagom.device.backend import CompiledBackend

#: Threads, CTAs, k, rows of tiles, rows and columns of a tile.
PRODUCTS = (
    (128, 1, 32, 1, (128, 64)),  # a slice less than the pipeline is deep
    (128, 4, 64, 2, (128, 64)),
    (128, 5, 160, 2, (128, 64)),  # the last column of tiles is cut short
    (256, 2, 96, 1, (128, 128)),
    (512, 1, 64, 1, (256, 128)),
)
#: Vectors read and written.
STREAMS = ((1000, 1000), (1000, 300), (77, 500), (5, 0), (0, 64))


def product(threads: int, ctas: int, k: int, rows: int, tile: tuple[int, int]) -> nccl.Kernel:
    """A description that is fitted to a product of that many rows of tiles."""
    read = (rows * tile[0] + -(-ctas // rows) * tile[1]) * k * 2
    return nccl.Kernel("product", 2.0 * tile[0] * tile[1] * k * ctas, read, 0.0, ctas=ctas, threads_per_cta=threads)


def check_product(backend: CompiledBackend, threads: int, ctas: int, k: int, rows: int, tile: tuple[int, int]) -> None:
    """Whole numbers times whole numbers, exactly."""
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


def check_stream(backend: CompiledBackend, reads: int, writes: int) -> None:
    """Every vector that is written holds the sums of what its thread had read."""
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
