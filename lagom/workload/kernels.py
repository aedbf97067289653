# SPDX-License-Identifier: Apache-2.0
"""Kernels of a transformer layer, described from their dimensions.

Every function returns a :class:`KernelSpec`; ``docs/tuning.md`` lists the formulas. Tile shapes are those of common
half-precision tensor-core kernels. None of the figures was fitted to a measurement of a tuned communication.
"""

from __future__ import annotations

import math

from lagom.workload.gpus import Gpu
from lagom.workload.model import DTYPE_BYTES, KernelSpec, WorkloadError

# One GEMM tile: 128 x 128 results a CTA of 256 threads, operands in slices of 32 along k, four slices in flight.
# Accumulators take 128*128/256 = 64 registers a thread; operands, addresses and the epilogue bring that to about 168,
# so that by registers (256*168 = 43,008 of 65,536) and by shared memory one CTA occupies an SM of an A40.
TILE_M = 128
TILE_N = 128
TILE_K = 32
STAGES = 4
GEMM_THREADS = 256
GEMM_REGISTERS = 168

# Fused attention: 128 queries a CTA of 128 threads; keys and values pass through shared memory 64 at a time.
ATTENTION_QUERIES = 128
ATTENTION_KEYS = 64
ATTENTION_THREADS = 128
ATTENTION_REGISTERS = 248

# Elementwise and row-wise kernels: 256 threads a CTA, 8 elements a thread.
ELEMENTWISE_THREADS = 256
ELEMENTS_PER_THREAD = 8
ELEMENTWISE_REGISTERS = 32


def _positive(**dimensions: int) -> None:
    for name, value in dimensions.items():
        if value < 1:
            raise WorkloadError(f"{name} is {value}, allowed is at least 1")


def gemm(m: int, n: int, k: int, dtype: str, gpu: Gpu) -> KernelSpec:
    """C[m, n] = A[m, k] B[k, n] (+ bias[n]), all of `dtype`.

    flops = 2 m n k; ctas = ceil(m/128) ceil(n/128).

    Memory traffic: the CTAs that run at the same time, one an SM, cover a nearly square patch of r x c tiles and walk
    along k together, so a slice of A or B is read from memory once for the whole patch and comes from L2 for the
    others. With W = min(ctas, SMs), r = ceil(sqrt(W)) limited by the rows of tiles, c = ceil(W/r), and
    w = ctas/W patches in all (a fraction counts as a fraction),

        bytes_read = max(w (128 r + 128 c) k e, (m k + k n) e),    bytes_written = m n e

    where e is the element size. The first term counts what later patches read again; the second is each operand once.
    """
    _positive(m=m, n=n, k=k)
    element = DTYPE_BYTES[dtype]
    rows, columns = math.ceil(m / TILE_M), math.ceil(n / TILE_N)
    ctas = rows * columns
    concurrent = min(ctas, gpu.sms)
    patch_rows = min(rows, math.ceil(math.sqrt(concurrent)))
    patch_columns = math.ceil(concurrent / patch_rows)
    patch_bytes = (patch_rows * TILE_M + patch_columns * TILE_N) * k * element
    once = (m * k + k * n) * element
    return KernelSpec(
        flops=float(2 * m * n * k),
        bytes_read=float(max(round(ctas / concurrent * patch_bytes), once)),
        bytes_written=float(m * n * element),
        ctas=ctas,
        threads_per_cta=GEMM_THREADS,
        registers_per_thread=GEMM_REGISTERS,
        shared_bytes_per_cta=(TILE_M + TILE_N) * TILE_K * element * STAGES,
    )


def causal_attention(batch: int, heads: int, tokens: int, head_dim: int, dtype: str) -> KernelSpec:
    """Fused causal self-attention: softmax(Q K^T) V without the score matrix ever reaching memory.

    Two products of 2 t^2 d flops a head, halved because later keys are masked: flops = 2 b h t^2 d.
    Q, K, V are read and O is written once (a head's keys and values stay in L2 while its CTAs run).
    """
    _positive(batch=batch, heads=heads, tokens=tokens, head_dim=head_dim)
    element = DTYPE_BYTES[dtype]
    one_tensor = batch * heads * tokens * head_dim * element
    return KernelSpec(
        flops=float(2 * batch * heads * tokens * tokens * head_dim),
        bytes_read=float(3 * one_tensor),
        bytes_written=float(one_tensor),
        ctas=batch * heads * math.ceil(tokens / ATTENTION_QUERIES),
        threads_per_cta=ATTENTION_THREADS,
        registers_per_thread=ATTENTION_REGISTERS,
        shared_bytes_per_cta=(ATTENTION_QUERIES + 2 * ATTENTION_KEYS) * head_dim * element,
    )


def elementwise(elements: int, inputs: int, flops_per_element: int, dtype: str) -> KernelSpec:
    """A kernel that reads `inputs` tensors of `elements` elements and writes one.

    ctas = ceil(elements / 2048): 256 threads with 8 elements each.
    """
    _positive(elements=elements, inputs=inputs, flops_per_element=flops_per_element)
    element = DTYPE_BYTES[dtype]
    return KernelSpec(
        flops=float(elements * flops_per_element),
        bytes_read=float(inputs * elements * element),
        bytes_written=float(elements * element),
        ctas=math.ceil(elements / (ELEMENTWISE_THREADS * ELEMENTS_PER_THREAD)),
        threads_per_cta=ELEMENTWISE_THREADS,
        registers_per_thread=ELEMENTWISE_REGISTERS,
        shared_bytes_per_cta=0,
    )


def layer_norm(rows: int, hidden: int, dtype: str) -> KernelSpec:
    """Normalise each row of a [rows, hidden] tensor; one CTA a row, about 8 flops an element."""
    _positive(rows=rows, hidden=hidden)
    element = DTYPE_BYTES[dtype]
    return KernelSpec(
        flops=float(8 * rows * hidden),
        bytes_read=float((rows * hidden + 2 * hidden) * element),
        bytes_written=float(rows * hidden * element),
        ctas=rows,
        threads_per_cta=ELEMENTWISE_THREADS,
        registers_per_thread=ELEMENTWISE_REGISTERS,
        shared_bytes_per_cta=ELEMENTWISE_THREADS // 32 * 8,  # two partial sums a warp
    )
