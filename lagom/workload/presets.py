# SPDX-License-Identifier: Apache-2.0
"""Workloads by name, computed from model dimensions and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagom.workload.gpus import A40, Gpu
from lagom.workload.kernels import causal_attention, elementwise, gemm, layer_norm
from lagom.workload.model import Communication, Computation, Workload, WorkloadError
from lagom.workload.models import PHI2, ParallelBlockModel


@dataclass(frozen=True)
class Preset:
    """A workload that is computed when asked for."""

    name: str
    summary: str
    build: Callable[[], Workload]


def fsdp_forward_layer(
    name: str, model: ParallelBlockModel, tokens: int, micro_batch: int, dtype: str, gpu: Gpu, machine: str
) -> Workload:
    """One layer's forward pass while FSDP gathers the parameters of the next layer.

    FSDP starts the next all-gather before it launches this layer's kernels, so the communication comes first in
    program order and nothing in the group depends on it.

    :param tokens: of one sequence. :param micro_batch: sequences a rank.
    """
    rows = tokens * micro_batch
    h, f = model.hidden, model.ffn
    gather = Communication(
        name="gather-next-layer", collective="all_gather", dtype=dtype, count=model.layer_parameters, stream="comm"
    )
    kernels = (
        ("layer-norm", layer_norm(rows, h, dtype)),
        ("q-proj", gemm(rows, h, h, dtype, gpu)),
        ("k-proj", gemm(rows, h, h, dtype, gpu)),
        ("v-proj", gemm(rows, h, h, dtype, gpu)),
        ("attention", causal_attention(micro_batch, model.heads, tokens, model.head_dim, dtype)),
        ("out-proj", gemm(rows, h, h, dtype, gpu)),
        ("ffn-up", gemm(rows, f, h, dtype, gpu)),
        ("gelu", elementwise(rows * f, inputs=1, flops_per_element=10, dtype=dtype)),
        ("ffn-down", gemm(rows, h, f, dtype, gpu)),
        ("residual", elementwise(rows * h, inputs=3, flops_per_element=2, dtype=dtype)),
    )
    return Workload(
        name=name,
        machine=machine,
        description=(
            f"{model.name} under FSDP: forward of one layer ({micro_batch} x {tokens} tokens, hidden {h}, FFN {f}, "
            f"{dtype}) beside the all-gather of the next layer's {model.layer_parameters:,} parameters"
        ),
        operations=(gather, *(Computation(kernel_name, spec) for kernel_name, spec in kernels)),
    )


def _phi2_fsdp_a40() -> Workload:
    return fsdp_forward_layer(
        "phi2-fsdp-a40", PHI2, tokens=2048, micro_batch=2, dtype="bfloat16", gpu=A40, machine="a40x8"
    )


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("phi2-fsdp-a40", "Phi-2 layer forward beside FSDP's all-gather of the next layer, A40", _phi2_fsdp_a40),
    )
}


def preset(name: str) -> Workload:
    """Build the preset of that name; :class:`WorkloadError` names the known ones."""
    if name not in PRESETS:
        raise WorkloadError(f"unknown workload '{name}', known: {', '.join(PRESETS)}; or give a path to a .yaml file")
    return PRESETS[name].build()
