# SPDX-License-Identifier: Apache-2.0
"""What cannot run as asked is refused by name at the call, on every rank, and the communicator goes on working.

    mpirun -n 2 python refusals.py

Exit code 1, and a line a failure, if a call is not refused, does not say the words it should, or leaves the
communicator broken.
"""

import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.nccl import Communicator, Knobs, NcclError, Rule

Calls = dict[str, Callable[[Communicator], None]]
COUNT = 3000


def calls() -> Calls:
    room = nccl.empty(COUNT * MPI.COMM_WORLD.size, "float32")
    part = room[:COUNT]
    return {
        "all_reduce": lambda comm: comm.all_reduce(part),
        "all_gather": lambda comm: comm.all_gather(room[comm.rank * COUNT : (comm.rank + 1) * COUNT], room),
        "broadcast": lambda comm: comm.broadcast(part),
        "reduce_scatter": lambda comm: comm.reduce_scatter(room, room[comm.rank * COUNT : (comm.rank + 1) * COUNT]),
        "reduce": lambda comm: comm.reduce(part),
    }


# collective, knobs, words of NCCL's last error; {n} is the number of connected channels
REFUSED = [
    ("all_reduce", Knobs(channels=64), "rule 0 of AllReduce: channels=64, but this communicator has {n} connected; "
     "allowed: 1 to {n}"),
    ("broadcast", Knobs("ring", "simple", channels=63), "channels=63"),
    ("all_reduce", Knobs("nvls"), "algorithm=nvls protocol=-1 is not possible for it on this communicator of "
     "2 ranks; possible: tree/"),
    ("all_reduce", Knobs("nvls_tree"), "algorithm=nvls_tree"),
    ("all_gather", Knobs("pat"), "algorithm=pat protocol=-1 is not possible"),
    ("all_reduce", Knobs("collnet_direct", "simple"), "algorithm=collnet_direct protocol=simple is not possible"),
    ("all_reduce", Knobs("collnet_chain"), "algorithm=collnet_chain"),
    ("all_gather", Knobs("ring", threads=640, protocol=None, channels=1), "threads=640: ring/ll runs with 64 to 512"),
    ("reduce", Knobs("ring", "simple", chunk_bytes=1 << 20), "chunk_bytes=1048576: ring/simple runs with 512 to "
     "524288"),
    ("broadcast", Knobs("ring", "simple", chunk_bytes=(512 << 10) + 512), "ring/simple runs with 512 to 524288"),
    ("all_reduce", Knobs("ring", "simple", chunk_bytes=(2 << 20) + 512), "ring/simple runs with 512 to 2097152"),
    ("all_reduce", Knobs("tree", "simple", chunk_bytes=1 << 20), "tree/simple runs with 512 to 524288"),
    ("all_reduce", Knobs("ring", "ll", chunk_bytes=32784), "ring/ll runs with 16 to 32768, in multiples of 16"),
    ("reduce_scatter", Knobs("ring", "ll128", chunk_bytes=577920), "ring/ll128 runs with 1920 to 576000"),
]  # fmt: skip


class Failures:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def check(self, right: bool, what: str) -> None:
        if not right:
            self.lines.append(what)


def refusal(call: Callable[[], None]) -> str:
    """The last-error text of a call that must fail, '' where it did not."""
    try:
        call()
    except NcclError as error:
        return str(error.text)
    return ""


def works(comm: Communicator) -> bool:
    buffer = nccl.empty(1000, "float32")
    buffer.numpy()[:] = comm.rank + 1
    comm.all_reduce(buffer)
    nccl.synchronize()
    return bool(np.all(buffer.to_host() == comm.size * (comm.size + 1) / 2))


def refused_calls(comm: Communicator, calls: Calls, failures: Failures) -> None:
    comm.set_rules([Rule("all_reduce", knobs=Knobs(channels=64))])
    connected = refusal(lambda: calls["all_reduce"](comm)).rsplit("1 to ", 1)[-1]
    for collective, knobs, words in REFUSED:
        comm.set_rules([Rule(collective, knobs=knobs)])
        comm.counters.read()
        text = refusal(lambda name=collective: calls[name](comm))  # type: ignore[misc]
        failures.check(words.format(n=connected) in text, f"{collective} {knobs}: said {text!r}")
        failures.check(comm.counters.read() == [], f"{collective} {knobs}: launched something")
        comm.set_rules([])
        failures.check(works(comm), f"after {collective} {knobs}: wrong data")
        comm.counters.read()


def refused_in_a_group(comm: Communicator, calls: Calls, failures: Failures) -> None:
    """One refused call of a group: the group fails, none of its calls is launched."""
    comm.set_rules([Rule("all_gather", knobs=Knobs(channels=64))])
    comm.counters.read()

    def grouped() -> None:
        with nccl.group():
            calls["all_reduce"](comm)
            calls["all_gather"](comm)

    text = refusal(grouped)
    failures.check("channels=64" in text, f"in a group: said {text!r}")
    failures.check(comm.counters.read() == [], "in a group: launched something")
    comm.set_rules([])
    failures.check(works(comm), "after a refused group: wrong data")


def refused_alone(comm: Communicator, failures: Failures) -> None:
    """A communicator of one rank runs no collective that a knob could reach."""
    alone = comm.split(comm.rank)
    assert alone is not None
    alone.set_rules([Rule("all_reduce", knobs=Knobs("ring"))])
    buffer = nccl.empty(16, "float32")
    text = refusal(lambda: alone.all_reduce(buffer))
    failures.check("a communicator of one rank" in text, f"one rank: said {text!r}")
    alone.set_rules([Rule("all_reduce", n_ranks=2, knobs=Knobs("ring"))])
    alone.all_reduce(buffer)
    alone.destroy()


def function_not_built(comm: Communicator, failures: Failures) -> None:
    """Functions left out of this build fail by name; where none is left out, they work."""
    comm.set_rules([])
    for dtype in ("uint8", "uint64"):
        buffer = nccl.empty(64, dtype)
        buffer.numpy()[:] = 1
        text = refusal(lambda buffer=buffer: comm.all_reduce(buffer, op="prod"))  # type: ignore[misc]
        if text:
            failures.check("built without the device function AllReduce Prod" in text, f"not built: said {text!r}")
        else:
            nccl.synchronize()
            failures.check(bool(np.all(buffer.to_host() == 1)), f"{dtype} prod: wrong data")
        failures.check(works(comm), "after a function that is not built: wrong data")


def main() -> int:
    failures = Failures()
    with nccl.init(MPI.COMM_WORLD) as comm:
        comm.counters.enable()
        room = calls()
        refused_calls(comm, room, failures)
        refused_in_a_group(comm, room, failures)
        refused_alone(comm, failures)
        function_not_built(comm, failures)
    for rank, lines in enumerate(MPI.COMM_WORLD.allgather(failures.lines)):
        if MPI.COMM_WORLD.rank == 0:
            for line in lines:
                print(f"FAILED rank {rank}: {line}")
    if MPI.COMM_WORLD.rank == 0:
        print(f"{len(REFUSED)} refusals checked")
    return 1 if failures.lines else 0


if __name__ == "__main__":
    sys.exit(main())
