# SPDX-License-Identifier: Apache-2.0
"""Overlap workloads: what computes, what communicates, in which order and on which streams."""

from __future__ import annotations

from lagom.workload.functions import device_functions
from lagom.workload.model import (
    Communication,
    Computation,
    KernelSpec,
    Operation,
    Workload,
    WorkloadError,
)
from lagom.workload.presets import PRESETS, Preset, preset
from lagom.workload.yaml_io import read_workload, workload_to_yaml, write_workload

__all__ = [
    "PRESETS",
    "Communication",
    "Computation",
    "KernelSpec",
    "Operation",
    "Preset",
    "Workload",
    "WorkloadError",
    "device_functions",
    "load",
    "preset",
    "read_workload",
    "workload_to_yaml",
    "write_workload",
]


def load(name: str) -> Workload:
    """A preset's name, or the path of a YAML file (anything with a slash, or that ends in .yaml or .yml)."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        return read_workload(name)
    return preset(name)
