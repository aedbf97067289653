# SPDX-License-Identifier: Apache-2.0
"""What the counters say about the communications of one run, and whether that is what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from lagom.device.protocol import CommunicationUse, DeviceError
from lagom.nccl import Knobs, OpRecord
from lagom.workload import Communication, Workload


def records_of_run(
    workload: Workload, ranks: int, barrier: Communication, records: Sequence[OpRecord]
) -> list[OpRecord]:
    """The records of the workload's communications, in order.

    :param barrier: the collective that ran before them.
    :raises DeviceError: where an operation is missing, or one ran that was not called.
    """
    wanted = (barrier, *workload.communications)
    if len(records) != len(wanted):
        raise DeviceError(f"counters have {len(records)} operations, the program called {len(wanted)}")
    for want, record in zip(wanted, records, strict=True):
        if (record.collective, record.nbytes) != (want.collective, want.total_bytes(ranks)):
            raise DeviceError(
                f"counters have {record.collective} of {record.nbytes} bytes where the program called '{want.name}', "
                f"{want.collective} of {want.total_bytes(ranks)} bytes"
            )
    return list(records[1:])


def check_knobs(workload: Workload, knobs: Mapping[int, Knobs], records: Sequence[OpRecord]) -> None:
    """Compare what was asked for with what the device saw.

    :param records: one a communication, in order.
    :raises DeviceError: that names communication, knob, asked and used value.
    """
    for index, (communication, record) in enumerate(zip(workload.communications, records, strict=True)):
        wanted = knobs.get(index, Knobs())
        for field in fields(Knobs):
            asked, used = getattr(wanted, field.name), getattr(record.used, field.name)
            if getattr(record.asked, field.name) != asked:
                raise DeviceError(
                    f"'{communication.name}': asked for {field.name}={asked}, "
                    f"but the library took {getattr(record.asked, field.name)}"
                )
            if asked is not None and used != asked:
                raise DeviceError(
                    f"'{communication.name}': asked for {field.name}={asked}, but the device ran with {used}"
                )
        if wanted != Knobs() and not record.exact:
            raise DeviceError(f"'{communication.name}': the device did not run exactly what was asked for ({wanted})")


def use(record: OpRecord) -> CommunicationUse:
    """This rank's part of what a communication held."""
    return CommunicationUse(record.used, record.distinct_sms, record.sm_us, record.wait_share)


def most_over_ranks(by_rank: Sequence[Sequence[CommunicationUse]]) -> tuple[CommunicationUse, ...]:
    """Join the ranks' uses: the largest of each figure.

    :raises DeviceError: where ranks ran different knobs.
    """
    joined = []
    for ranks in zip(*by_rank, strict=True):
        for rank, other in enumerate(ranks):
            if other.knobs != ranks[0].knobs:
                raise DeviceError(f"rank {rank} ran with {other.knobs}, rank 0 with {ranks[0].knobs}")
        joined.append(
            CommunicationUse(
                ranks[0].knobs,
                max(r.sms for r in ranks),
                max(r.sm_us for r in ranks),
                max(r.wait_share for r in ranks),
            )
        )
    return tuple(joined)
