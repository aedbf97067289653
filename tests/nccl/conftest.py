# SPDX-License-Identifier: Apache-2.0
"""What tests of the bindings share: one communicator a module."""

from collections.abc import Iterator
from typing import Any

import pytest

import lagom.nccl as nccl


@pytest.fixture(scope="session")
def world() -> Any:
    """MPI.COMM_WORLD, imported only in tests that run under MPI."""
    return pytest.importorskip("mpi4py.MPI").COMM_WORLD


@pytest.fixture(scope="module")
def comm(hostcuda: nccl.Library, world: Any) -> Iterator[nccl.Communicator]:
    """A communicator over all ranks."""
    with nccl.init(world) as made:
        yield made
