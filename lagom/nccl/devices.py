# SPDX-License-Identifier: Apache-2.0
"""The devices of this host."""

from dataclasses import dataclass

from . import _native
from .library import library


@dataclass(frozen=True)
class DeviceInfo:
    """One device: its name, PCI bus id, compute capability and number of SMs."""

    index: int
    name: str
    pci_bus_id: str
    compute_capability: tuple[int, int]
    sms: int


def device_count() -> int:
    """How many devices this process sees."""
    library()
    return _native.device_count()


def device_info(index: int) -> DeviceInfo:
    """Facts of one device. CudaError where there is no such device."""
    library()
    name, bus, capability, sms = _native.device_facts(index)
    return DeviceInfo(index, name, bus, capability, sms)


def set_device(index: int) -> None:
    """Make ``index`` the current device of the calling thread."""
    library()
    _native.set_device(index)


def synchronize() -> None:
    """Wait until everything on the current device has been done."""
    library()
    _native.device_synchronize()


def host_time_ns() -> int:
    """Modelled time of the calling host thread in nanoseconds. LibraryError on a real CUDA runtime."""
    library()
    return _native.host_time_ns()
