# SPDX-License-Identifier: Apache-2.0
"""The kinds of device: hostcuda, which models GPUs on CPUs, and cuda, GPUs themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lagom.nccl as nccl
from lagom.build import cache
from lagom.build.errors import BuildError
from lagom.device.backend import Backend, CompiledBackend, DescribedBackend
from lagom.device.compiled import cubin
from lagom.device.over_mpi import MpiDevice
from lagom.device.protocol import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI

HOSTCUDA, CUDA = "hostcuda", "cuda"
KINDS = (HOSTCUDA, CUDA)
#: Executions a measurement; GPUs' times scatter, modelled ones do not.
_REPEATS = {HOSTCUDA: 1, CUDA: 5}


def require(kind: str | None = None) -> nccl.Library:
    """The library of this process, fit for a kind of device; None: for whichever the library is.

    For ``cuda`` the last CUDA build is preferred to the last build for CPUs, unless LAGOM_NCCL or a preload has chosen.

    :raises DeviceError: where the library is not patched or not for that kind, or there is no GPU.
    :raises lagom.nccl.LibraryError: where there is none.
    """
    if kind == CUDA and not os.environ.get("LAGOM_NCCL") and not nccl.in_process():
        built = cache.current("cuda")
        if not built.exists():
            raise DeviceError(
                "no build of NCCL for GPUs; make one with `lagom build --flavour cuda --arch N` (H100: 900), or name "
                "one by LAGOM_NCCL"
            )
        os.environ["LAGOM_NCCL"] = str(built.resolve())
    library = nccl.library()
    if not library.patched:
        raise DeviceError(
            f"NCCL at {library.path} is not patched, so it has no knobs to tune; build one with `lagom build`"
        )
    if kind not in (None, kind_of(library)):
        raise DeviceError(f"asked for {kind}, but the CUDA runtime at {library.cuda_path} is {_runtime(library)}")
    if kind_of(library) == CUDA:
        _require_gpu()
    return library


def kind_of(library: nccl.Library) -> str:
    """The kind of device that a library drives."""
    return HOSTCUDA if library.hostcuda else CUDA


def _runtime(library: nccl.Library) -> str:
    return "hostcuda" if library.hostcuda else "a real one, not hostcuda"


def _require_gpu() -> None:
    try:
        count = nccl.device_count()
    except nccl.CudaError as error:
        raise DeviceError(f"no GPU can be used on this machine: {error}") from error
    if count == 0:
        raise DeviceError("no GPU can be used on this machine: the CUDA runtime sees none")


def backend(library: nccl.Library, device: int) -> Backend:
    """The backend of a library, on one of this process's devices.

    :raises DeviceError: where the kernels for that GPU cannot be compiled.
    """
    if kind_of(library) == HOSTCUDA:
        return DescribedBackend()
    nccl.set_device(device)
    try:
        return CompiledBackend(nccl.Module(cubin(nccl.device_info(device).compute_capability)).function)
    except BuildError as error:
        raise DeviceError(str(error)) from error


def open_device(comm: nccl.Communicator, mpi_comm: MPI.Intracomm) -> MpiDevice:
    """The device under a communicator, which was made over `mpi_comm`; call it on every rank.

    :raises DeviceError: see :func:`require` and :func:`backend`.
    """
    library = require()
    return MpiDevice(comm, mpi_comm, backend(library, comm.device), _REPEATS[kind_of(library)])
