# SPDX-License-Identifier: Apache-2.0
"""From a kernel's description to a compiled kernel that costs the same: which one of ``kernels.cu``, and its sizes."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from lagom.nccl import Kernel

VECTOR_BYTES = 16
BF16_BYTES = 2
#: As in kernels.cu.
SLICE, STAGES, ROW_ELEMENTS = 32, 3, 40
#: Rows and columns of a tile by the threads of its CTA.
TILES = {128: (128, 64), 256: (128, 128), 512: (256, 128)}
#: More operations for each byte of traffic than this, and tensor cores do them; below it, plain arithmetic keeps up.
TENSOR_FLOPS_PER_BYTE = 16.0
#: Traffic beyond so much memory starts again at its beginning: far more than any L2 holds.
MOST_STREAM_BYTES = 1 << 30
# More than this of any dimension is a mistake in the description, and would overflow the kernels' 32-bit counts.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Fit:
    """A launch of a compiled kernel, and what it costs.

    :param regions: bytes of device memory it needs, one region a pointer of its structure, in order.
    :param fields: what follows the pointers in its structure, as :mod:`struct` packs them with ``layout``.
    :param flops: :param bytes_read: :param bytes_written: of the whole launch, each byte of memory counted once.
    """

    function: str
    ctas: int
    threads: int
    shared_bytes: int
    regions: tuple[int, ...]
    layout: str
    fields: tuple[float, ...]
    flops: float
    bytes_read: float
    bytes_written: float

    def arguments(self, addresses: tuple[int, ...]) -> bytes:
        """The kernel's structure with its regions at these addresses."""
        return struct.pack(f"<{len(self.regions)}Q{self.layout}", *addresses, *self.fields)


def fit(kernel: Kernel) -> Fit:
    """Choose and size a compiled kernel.

    CTAs, threads and shared memory are the described ones (shared memory at least what the kernel needs); operations
    and traffic come as close as whole tiles and vectors allow, and :class:`Fit` says how close. Registers are the
    compiler's.

    :raises ValueError: where no compiled kernel has that shape, with what is allowed.
    """
    traffic = kernel.bytes_read + kernel.bytes_written
    if kernel.flops > TENSOR_FLOPS_PER_BYTE * traffic:
        return _gemm(kernel)
    return _stream(kernel)


def _gemm(kernel: Kernel) -> Fit:
    """c[m][n] = a[m][k] b[n][k]^T in tiles, one a CTA: k from the operations, the shape from the traffic."""
    if kernel.threads_per_cta not in TILES:
        raise ValueError(
            f"'{kernel.name}' has {kernel.threads_per_cta} threads a CTA; matrix products are compiled for "
            f"{', '.join(map(str, TILES))}"
        )
    tile_rows, tile_columns = TILES[kernel.threads_per_cta]
    k = max(1, round(kernel.flops / (2 * tile_rows * tile_columns * kernel.ctas) / SLICE)) * SLICE
    if k > _MOST:
        raise ValueError(f"'{kernel.name}' has {kernel.flops:g} flops in {kernel.ctas} CTAs: k would be {k}")

    def reads(rows: int) -> int:
        return (rows * tile_rows + math.ceil(kernel.ctas / rows) * tile_columns) * k * BF16_BYTES

    # From the square, which reads least, to a single row; the most square one of those that come equally close.
    rows = min(range(math.isqrt(kernel.ctas), 0, -1), key=lambda r: abs(reads(r) - kernel.bytes_read))
    columns = math.ceil(kernel.ctas / rows)
    needed = (tile_rows + tile_columns) * ROW_ELEMENTS * BF16_BYTES * STAGES
    return Fit(
        function=f"lagom_gemm_{kernel.threads_per_cta}",
        ctas=kernel.ctas,
        threads=kernel.threads_per_cta,
        shared_bytes=max(needed, kernel.shared_bytes_per_cta),
        regions=(
            rows * tile_rows * k * BF16_BYTES,
            columns * tile_columns * k * BF16_BYTES,
            rows * tile_rows * columns * tile_columns * BF16_BYTES,
        ),
        layout="3I4x",
        fields=(rows, columns, k),
        flops=2.0 * tile_rows * tile_columns * k * kernel.ctas,
        bytes_read=float(reads(rows)),
        bytes_written=float(kernel.ctas * tile_rows * tile_columns * BF16_BYTES),
    )


def _stream(kernel: Kernel) -> Fit:
    """Vectors read and written in step by all threads, with the multiply-adds spread over the steps."""
    reads, writes = (round(nbytes / VECTOR_BYTES) for nbytes in (kernel.bytes_read, kernel.bytes_written))
    reads = max(reads, 1 if writes == 0 else 0)
    steps = max(reads, writes)
    multiplies = round(kernel.flops / 2 / steps)
    if multiplies > _MOST:
        traffic = kernel.bytes_read + kernel.bytes_written
        raise ValueError(
            f"'{kernel.name}' has {kernel.flops:g} flops for {traffic:g} bytes: {multiplies} multiply-adds a vector"
        )
    source, target = (max(1, min(count, MOST_STREAM_BYTES // VECTOR_BYTES)) for count in (reads, writes))
    return Fit(
        function="lagom_stream",
        ctas=kernel.ctas,
        threads=kernel.threads_per_cta,
        shared_bytes=kernel.shared_bytes_per_cta,
        regions=(source * VECTOR_BYTES, target * VECTOR_BYTES),
        layout="4QI3f",
        # 0.5 v + 1 stays below the largest thread number or 2.
        fields=(source, target, reads, writes, multiplies, 0.5, 1.0, -1.0),
        flops=2.0 * multiplies * steps,
        bytes_read=float(reads * VECTOR_BYTES),
        bytes_written=float(writes * VECTOR_BYTES),
    )
