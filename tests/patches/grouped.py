# SPDX-License-Identifier: Apache-2.0
"""Tuned and un-tuned collectives in one group, broadcasts with several roots among them.

    mpirun -n 3 python grouped.py [ROUNDS]

Tuned ones run exactly as asked, each on channels from 0 on, and are not aggregated with their neighbours; all data are
right. Exit code 1, and a line a failure, otherwise.
"""

import random
import sys

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.nccl import Communicator, DeviceBuffer, Knobs, Rule

RULES = [
    # Only all-reduces up to 64 KiB are tuned, so that a group holds both kinds.
    Rule("all_reduce", max_bytes=65536, knobs=Knobs("tree", "ll", channels=3, threads=128, chunk_bytes=4096)),
    Rule("all_gather", knobs=Knobs("ring", "simple", channels=7, threads=96, chunk_bytes=8192)),
    Rule("broadcast", min_bytes=1000, knobs=Knobs("ring", "ll", channels=2)),
]


def issue(comm: Communicator, rng: random.Random) -> tuple[DeviceBuffer, np.ndarray, Knobs]:
    """One collective: what it receives into, what must be there, and the knobs of its rule."""
    count = rng.choice((1, 100, 5000, 40_000))
    kind = rng.choice(("all_reduce", "all_gather", "broadcast"))
    mine = ((np.arange(count) + comm.rank) % 11).astype("float32")
    if kind == "all_gather":
        room = nccl.empty(count * comm.size, "float32")
        send = room[comm.rank * count : (comm.rank + 1) * count]
        send.from_host(mine)
        comm.all_gather(send, room)
        every = [((np.arange(count) + rank) % 11).astype("float32") for rank in range(comm.size)]
        return room, np.concatenate(every), RULES[1].knobs
    buffer = nccl.empty(count, "float32")
    buffer.from_host(mine)
    if kind == "all_reduce":
        comm.all_reduce(buffer)
        total = sum(((np.arange(count) + rank) % 11).astype("float32") for rank in range(comm.size))
        return buffer, np.asarray(total), RULES[0].knobs if count * 4 <= 65536 else Knobs()
    root = rng.randrange(comm.size)
    comm.broadcast(buffer, root=root)
    return buffer, ((np.arange(count) + root) % 11).astype("float32"), RULES[2].knobs if count * 4 >= 1000 else Knobs()


def main() -> int:
    rng = random.Random(11)
    failures = []
    with nccl.init(MPI.COMM_WORLD) as comm:
        comm.set_rules(RULES)
        comm.counters.enable()
        for turn in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
            with nccl.group():
                issued = [issue(comm, rng) for _ in range(rng.randrange(1, 9))]
            nccl.synchronize()
            comm.check()
            wrong = sum(int(np.count_nonzero(buffer.to_host() != expected)) for buffer, expected, _ in issued)
            if wrong:
                failures.append(f"group {turn}: {wrong} elements wrong")
            records = comm.counters.read()
            tuned = sorted(str(record.asked) for record in records if record.rule >= 0)
            if tuned != sorted(str(knobs) for _, _, knobs in issued if knobs != Knobs()):
                failures.append(f"group {turn}: recorded {tuned}")
            for record in records:
                if not record.exact:
                    failures.append(f"group {turn}: {record}")
                channels = [channel.channel for channel in record.channels]
                if record.rule >= 0 and channels != list(range(record.asked.channels or 0)):
                    failures.append(f"group {turn}: channels {channels} for {record.asked}")
    for rank, lines in enumerate(MPI.COMM_WORLD.allgather(failures)):
        if MPI.COMM_WORLD.rank == 0:
            for line in lines:
                print(f"FAILED rank {rank}: {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
