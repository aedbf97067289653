# SPDX-License-Identifier: Apache-2.0
"""What a communicator says of itself."""

from dataclasses import dataclass

from . import _native

_GIN = {0: "none", 2: "proxy", 3: "gdaki"}


@dataclass(frozen=True)
class Properties:
    """ncclCommQueryProperties: what device code and one-sided calls find here.

    ``gin`` and ``railed_gin``: how GPUs start network operations, "none", "proxy" or "gdaki". ``lsa_teams``: groups of
    ranks that reach each other's memory by load and store.
    """

    nvml_device: int
    device_api: bool
    multimem: bool
    gin: str
    lsa_teams: int
    host_rma: bool
    railed_gin: str


@dataclass(frozen=True)
class MemoryUse:
    """ncclCommMemStats: device memory of a communicator in bytes, as far as NCCL's memory manager tracks it."""

    total_bytes: int
    persistent_bytes: int
    suspendable_bytes: int
    suspended: bool


def properties(handle: _native.CommHandle) -> Properties:
    nvml_device, device_api, multimem, gin, lsa_teams, host_rma, railed = _native.comm_properties(handle)
    return Properties(nvml_device, device_api, multimem, _gin(gin), lsa_teams, host_rma, _gin(railed))


def memory_use(handle: _native.CommHandle) -> MemoryUse:
    suspendable, suspended, persistent, total = (_native.comm_memory(handle, statistic) for statistic in range(4))
    return MemoryUse(total, persistent, suspendable, bool(suspended))


def _gin(kind: int) -> str:
    return _GIN.get(kind, f"unknown ({kind})")
