# SPDX-License-Identifier: Apache-2.0
"""One workload on both backends by the same calls: the path of GPUs, with their kernels' source on hostcuda."""

from __future__ import annotations

import pytest
from device import emulated
from device.groups import GROUP, KNOBS, check_order
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.device import Measurement, group
from lagom.device.backend import CompiledBackend, DescribedBackend
from lagom.device.over_mpi import MpiDevice
from lagom.nccl import Knobs
from lagom.workload import Computation, KernelSpec, Workload

pytestmark = pytest.mark.mpi(min_size=2)


@pytest.fixture(scope="module")
def comm(patched: nccl.Library) -> nccl.Communicator:
    return nccl.init(MPI.COMM_WORLD)


@pytest.fixture(autouse=True)
def short_lead_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator really reads what a GPU would."""
    monkeypatch.setattr(group, "LEAD_IN_BYTES_PER_OPERATION", 4 << 20)


@pytest.fixture(scope="module")
def compiled(comm: nccl.Communicator, tmp_path_factory: pytest.TempPathFactory) -> CompiledBackend:
    built = emulated.build(tmp_path_factory.mktemp("emulated")) if comm.rank == 0 else None
    return CompiledBackend(emulated.finder(MPI.COMM_WORLD.bcast(built)))


def test_both_backends_run_the_same_group(comm: nccl.Communicator, compiled: CompiledBackend) -> None:
    described = MpiDevice(comm, MPI.COMM_WORLD, DescribedBackend()).run(GROUP, KNOBS)
    through_kernels = MpiDevice(comm, MPI.COMM_WORLD, compiled, repeats=3).run(GROUP, KNOBS)
    assert isinstance(described, Measurement) and isinstance(through_kernels, Measurement)
    check_order(described)
    check_order(through_kernels)
    # The data were compared inside; the knobs are what the device counted.
    assert described.use[0].knobs == through_kernels.use[0].knobs == KNOBS[0]
    # Events see the collectives that hostcuda's own record sees, and what is between two kernels besides.
    for exact_us, around_us in zip(described.x_us, through_kernels.x_us, strict=True):
        assert 0.5 * exact_us < around_us < 2 * exact_us + 20


def test_a_refusal_leaves_the_device_usable(comm: nccl.Communicator, compiled: CompiledBackend) -> None:
    device = MpiDevice(comm, MPI.COMM_WORLD, compiled)
    refused = device.run(GROUP, {0: Knobs("ring", "ll", 2, 256, 1 << 20)})
    assert "chunk" in getattr(refused, "reason", "not refused")
    assert isinstance(device.run(GROUP, {}), Measurement)
    comm.counters.enable(False)


def test_a_kernel_that_no_gpu_code_fits_is_named(comm: nccl.Communicator, compiled: CompiledBackend) -> None:
    odd = Workload("odd", (GROUP.operations[0], Computation("odd", KernelSpec(1e12, 1.0, 1.0, 8, 96, 32, 0))))
    with pytest.raises(Exception, match="'odd' has 96 threads a CTA"):
        MpiDevice(comm, MPI.COMM_WORLD, compiled).run(odd, {})
