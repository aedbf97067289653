# SPDX-License-Identifier: Apache-2.0
"""What tests of the bindings share: the loaded library, and one communicator a module."""

from collections.abc import Iterator
from typing import Any

import pytest

import lagom.nccl as nccl


@pytest.fixture(scope="session")
def hostcuda() -> nccl.Library:
    """The NCCL that runs on CPUs; tests that need it are skipped where it has not been built."""
    try:
        library = nccl.library()
    except nccl.LibraryError as error:
        pytest.skip(str(error))
    if not library.hostcuda:
        pytest.skip(f"{library.path} does not run on hostcuda")
    return library


@pytest.fixture(scope="session")
def patched(hostcuda: nccl.Library) -> nccl.Library:
    """The patched NCCL on CPUs."""
    if not hostcuda.patched:
        pytest.skip(f"{hostcuda.path} is not patched")
    return hostcuda


@pytest.fixture(scope="session")
def world() -> Any:
    """MPI.COMM_WORLD, imported only in tests that run under MPI."""
    return pytest.importorskip("mpi4py.MPI").COMM_WORLD


@pytest.fixture(scope="module")
def comm(hostcuda: nccl.Library, world: Any) -> Iterator[nccl.Communicator]:
    """A communicator over all ranks."""
    with nccl.init(world) as made:
        yield made
