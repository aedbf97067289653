# SPDX-License-Identifier: Apache-2.0
"""The cuda device's kernels on a GPU: the same checks as on hostcuda's simulator, and their cost."""

from __future__ import annotations

from functools import partial

import pytest
from device import checks
from gpu.library import library

import lagom.nccl as nccl
from lagom.device import kinds
from lagom.device.backend import CompiledBackend

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def backend() -> CompiledBackend:
    made = kinds.backend(library(), 0)
    assert isinstance(made, CompiledBackend)
    return made


@pytest.mark.parametrize("case", [*checks.PRODUCTS, (256, 1024, 2048, 32, (128, 128))], ids=str)
def test_products_are_right(backend: CompiledBackend, case: tuple[int, int, int, int, tuple[int, int]]) -> None:
    checks.check_product(backend, *case)


@pytest.mark.parametrize(("reads", "writes"), checks.STREAMS)
def test_streams_read_and_write_what_they_say(backend: CompiledBackend, reads: int, writes: int) -> None:
    checks.check_stream(backend, reads, writes)


def test_speeds_are_told(backend: CompiledBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """No figure is demanded; gpu-check's log has them."""
    product = nccl.Kernel("product", 2.0 * 8192**3, 2.0 * 2 * 8192**2, 0.0, ctas=4096, threads_per_cta=256)
    stream = nccl.Kernel("stream", 0.0, 2.0**30, 2.0**30, ctas=4096, threads_per_cta=256)
    backend.prepare([product, stream])
    own = nccl.Stream()
    for kernel in (product, stream):
        timer = backend.timer({"s": own})
        for _ in range(5):
            timer.enqueue(kernel.name, "s", True, partial(backend.launch, kernel, own))
        own.synchronize()
        taken_ns = sorted(end - start for start, end in timer.read())[2]
        assert taken_ns > 0
        fit = backend.fitted(kernel)
        with capsys.disabled():
            flops, traffic = fit.flops / taken_ns / 1e3, (fit.bytes_read + fit.bytes_written) / taken_ns
            print(f"\n{kernel.name}: {flops:.1f} TFLOP/s, {traffic:.1f} GB/s")
