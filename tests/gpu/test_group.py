# SPDX-License-Identifier: Apache-2.0
"""A whole overlap group on GPUs, one a rank: data, order and counters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from device.groups import GROUP, KNOBS, check_order
from gpu.library import library
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.device import Measurement, kinds

pytestmark = [pytest.mark.gpu, pytest.mark.mpi(min_size=2)]


@pytest.fixture(scope="module")
def comm() -> Iterator[nccl.Communicator]:
    library()
    with nccl.init(MPI.COMM_WORLD) as made:
        yield made


@pytest.mark.parametrize("knobs", [{}, KNOBS], ids=["default", "knobs"])
def test_group(comm: nccl.Communicator, knobs: dict[int, nccl.Knobs]) -> None:
    # Data and counters are compared inside.
    measured = kinds.open_device(comm, MPI.COMM_WORLD).run(GROUP, knobs)
    assert isinstance(measured, Measurement), measured
    check_order(measured)
    for index, wanted in knobs.items():
        assert measured.use[index].knobs == wanted
    assert all(use.sms > 0 and use.sm_us > 0 for use in measured.use)
