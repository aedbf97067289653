# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels cost what descriptions say."""

from __future__ import annotations

import struct

import pytest

from lagom.device.fitting import TILES, VECTOR_BYTES, fit
from lagom.device.group import kernel_of
from lagom.nccl import Kernel
from lagom.workload import PRESETS, Computation


def computations() -> list[Computation]:
    return [computation for preset in PRESETS.values() for computation in preset.build().computations]


@pytest.mark.parametrize("computation", computations(), ids=lambda c: c.name)
def test_presets_run_as_they_are_described(computation: Computation) -> None:
    kernel = kernel_of(computation)
    found = fit(kernel)
    assert (found.ctas, found.threads) == (kernel.ctas, kernel.threads_per_cta)
    assert found.shared_bytes >= kernel.shared_bytes_per_cta
    if found.function != "lagom_stream":
        assert found.flops == pytest.approx(kernel.flops, rel=0.05)
    else:
        # Of a memory-bound kernel the traffic counts.
        assert found.bytes_read == pytest.approx(kernel.bytes_read, abs=VECTOR_BYTES)
        assert found.bytes_written == pytest.approx(kernel.bytes_written, abs=VECTOR_BYTES)


def test_a_square_product_is_fitted_exactly() -> None:
    kernel = Kernel("g", 2.0 * 1024 * 1024 * 512, 2.0 * 2 * 1024 * 512, 2.0 * 1024 * 1024, ctas=64, threads_per_cta=256)
    found = fit(kernel)
    assert found.fields == (8, 8, 512)
    assert (found.flops, found.bytes_read, found.bytes_written) == (
        kernel.flops,
        kernel.bytes_read,
        kernel.bytes_written,
    )
    assert found.regions == (1024 * 512 * 2, 1024 * 512 * 2, 1024 * 1024 * 2)


def test_more_traffic_is_a_longer_shape() -> None:
    wide = fit(Kernel("g", 2.0 * 128 * 128 * 512 * 64, 2.0 * 65 * 128 * 512, 0.0, ctas=64, threads_per_cta=256))
    assert wide.fields[:2] == (1, 64)


def test_cut_short_columns_have_memory() -> None:
    found = fit(Kernel("g", 2.0 * 128 * 64 * 320 * 7, 1.0, 1.0, ctas=7, threads_per_cta=128))
    rows, columns, k = found.fields
    assert rows * columns >= 7 and k == 320
    tile_rows, tile_columns = TILES[128]
    assert found.regions[2] == rows * tile_rows * columns * tile_columns * 2


def test_the_structure_is_packed_as_the_kernel_reads_it() -> None:
    found = fit(Kernel("s", 4096.0, 3200.0, 1600.0, ctas=2, threads_per_cta=32))
    assert struct.unpack("<6QI3f", found.arguments((16, 32))) == (16, 32, 200, 100, 200, 100, 10, 0.5, 1.0, -1.0)
    product = fit(Kernel("g", 2.0 * 128 * 64 * 64, 1.0, 1.0, threads_per_cta=128))
    assert struct.unpack("<3Q3I4x", product.arguments((1, 2, 3))) == (1, 2, 3, 1, 1, 64)


def test_a_shape_that_is_not_compiled_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'g' has 192 threads a CTA; matrix products are compiled for 128, 256, 512"):
        fit(Kernel("g", 1e12, 1e6, 1e6, ctas=10, threads_per_cta=192))
    with pytest.raises(ValueError, match=r"'g' has 1e\+18 flops in 1 CTAs"):
        fit(Kernel("g", 1e18, 1e6, 1e6, ctas=1, threads_per_cta=256))


def test_a_kernel_without_cost_still_runs() -> None:
    assert fit(Kernel("nothing")).fields[2:5] == (1, 0, 0)
