# SPDX-License-Identifier: Apache-2.0
"""Rules and counters through the bindings, on 2, 3 and 4 ranks. What the knobs do inside NCCL is tested in
tests/patches.
"""

import numpy as np
import pytest

import lagom.nccl as nccl
from lagom.nccl import Knobs, Rule

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("patched")]


def sum_of_ones(comm: nccl.Communicator, count: int = 100_000) -> None:
    data = nccl.empty(count).from_host(np.ones(count))
    comm.all_reduce(data)
    nccl.synchronize()
    assert (data.numpy() == comm.size).all()


def test_used_knobs_are_the_asked_ones(comm: nccl.Communicator) -> None:
    comm.counters.enable()
    comm.counters.read()
    asked = Knobs("ring", "simple", 3, 256, 64 << 10)
    comm.set_rules([Rule("all_gather", knobs=Knobs("ring", "ll")), Rule("all_reduce", 1, 1 << 30, knobs=asked)])
    assert [rule.knobs for rule in comm.rules] == [Knobs("ring", "ll"), asked]
    sum_of_ones(comm)
    (record,) = comm.counters.read()
    assert (record.collective, record.dtype, record.op, record.count) == ("all_reduce", "float32", "sum", 100_000)
    assert record.asked == asked and record.used == asked and record.exact and record.rule == 1
    assert (record.rank, record.ranks, record.nbytes, record.root) == (comm.rank, comm.size, 400_000, -1)
    assert len(record.channels) == record.distinct_sms == 3
    assert all(channel.threads == 256 and channel.stop_ns > channel.start_ns for channel in record.channels)
    assert sum(channel.nbytes for channel in record.channels) > 0
    assert 0 <= record.wait_share <= 1 and record.sm_us > 0 and record.bus_bandwidth_gbps > 0
    status = comm.counters.status()
    assert status.enabled and status.lost == 0 and status.issued == status.read
    comm.counters.enable(False)
    comm.set_rules([])
    sum_of_ones(comm)
    assert comm.counters.read() == [] and not comm.counters.status().enabled


@pytest.mark.parametrize(
    ("mine", "says"),
    [
        ([Rule("all_reduce", knobs=Knobs(channels=2))], "channels of rule 0 of rank 1 is 2, of rank 0 1"),
        ([Rule("all_reduce", knobs=Knobs("tree", channels=1))], "algorithm of rule 0 of rank 1 is tree, of rank 0 -1"),
        ([Rule("reduce", knobs=Knobs(channels=1))], "collective of rule 0 of rank 1 is reduce, of rank 0 allreduce"),
        (
            [Rule("all_reduce", max_bytes=5, knobs=Knobs(channels=1))],
            "max_bytes of rule 0 of rank 1 is 5, of rank 0 -1",
        ),
        ([], "the number of rules of rank 1 is 0, of rank 0 1"),
    ],
)
def test_ranks_that_differ_set_nothing(comm: nccl.Communicator, mine: list[Rule], says: str) -> None:
    before = [Rule("broadcast", knobs=Knobs(channels=2))]
    comm.set_rules(before)
    with pytest.raises(nccl.NcclError, match=says):
        comm.set_rules(mine if comm.rank == 1 else [Rule("all_reduce", knobs=Knobs(channels=1))])
    assert comm.rules == before
    comm.set_rules([])
    sum_of_ones(comm, 10)


def test_what_cannot_run_is_refused_by_name(comm: nccl.Communicator) -> None:
    comm.set_rules([Rule("all_reduce", knobs=Knobs("ring", "simple", channels=64))])
    with pytest.raises(nccl.NcclError, match="channels") as caught:
        comm.all_reduce(nccl.zeros(1000))
    assert "64" in caught.value.text and caught.value.function == "ncclAllReduce"
    comm.set_rules([])
    sum_of_ones(comm)


def test_rules_in_a_group_are_set_at_its_end(comm: nccl.Communicator) -> None:
    new = [Rule("all_reduce", knobs=Knobs(channels=1))]
    with nccl.group():
        comm.set_rules(new)
        assert comm.rules == []
    assert comm.rules == new
    with pytest.raises(nccl.NcclError, match="rules of rank 1 is 1"), nccl.group():
        comm.set_rules(new if comm.rank == 1 else [])
    assert comm.rules == new
    comm.set_rules([])
