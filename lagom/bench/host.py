# SPDX-License-Identifier: Apache-2.0
"""What hostcuda costs on this machine: real seconds and bytes, not modelled ones.

Three figures, on all ranks of the job: throughput of a 16 MiB ring Simple all-reduce beside MPI's own all-reduce of
the same bytes, in turns in the same run; memory of a rank; and the share of a processor that a rank uses while it
waits for another.
"""

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lagom.nccl as nccl
from lagom.nccl import Communicator, Knobs, Rule

if TYPE_CHECKING:
    from mpi4py import MPI

_BYTES = 16 << 20
_ROUNDS = 5
_IDLE_WAIT_S = 3.0
_MEMORY_CHANNELS, _MEMORY_THREADS = 8, 512


def run(mpi_comm: "MPI.Comm") -> int:
    """Measure and print on rank 0; returns the exit code. LibraryError where the library is not the patched one."""
    with nccl.init(mpi_comm) as comm:
        library = nccl.library()
        if not library.hostcuda or not library.patched:
            raise nccl.LibraryError(
                f"this benchmark is about the patched NCCL on hostcuda; loaded is {library.path} on {library.cuda_path}"
            )
        lines = [f"# {library.describe()}", f"# {comm.size} ranks"]
        lines += _throughput(comm, mpi_comm)
        lines += _idle(comm, mpi_comm)
    lines += _memory(mpi_comm)
    if mpi_comm.Get_rank() == 0:
        print("\n".join(lines), flush=True)
    return 0


def _throughput(comm: Communicator, mpi_comm: "MPI.Comm") -> list[str]:
    comm.set_rules([Rule("all_reduce", knobs=Knobs("ring", "simple"))])
    count = _BYTES // 4
    send, recv = nccl.zeros(count), nccl.zeros(count)
    plain_send, plain_recv = np.zeros(count, np.float32), np.zeros(count, np.float32)

    def through_nccl() -> None:
        comm.all_reduce(send, recv)
        nccl.synchronize()

    def through_mpi() -> None:
        mpi_comm.Allreduce(plain_send, plain_recv)

    # In turns, so that whatever else runs on the machine meets both alike.
    nccl_s, mpi_s = [], []
    for warm in (True, *[False] * _ROUNDS):
        a, b = _seconds(through_nccl, mpi_comm), _seconds(through_mpi, mpi_comm)
        if not warm:
            nccl_s.append(a)
            mpi_s.append(b)
    return [
        f"all-reduce of {_BYTES >> 20} MiB float32, ring simple: {_rate(nccl_s)} MB/s through NCCL on hostcuda",
        f"all-reduce of {_BYTES >> 20} MiB float32, plain MPI:   {_rate(mpi_s)} MB/s",
    ]


def _seconds(work: Callable[[], None], mpi_comm: "MPI.Comm") -> float:
    """Real time until the last rank has done ``work``."""
    mpi_comm.Barrier()
    start = time.perf_counter()
    work()
    every_s: list[float] = mpi_comm.allgather(time.perf_counter() - start)
    return max(every_s)


def _rate(seconds: list[float]) -> str:
    median, best = _BYTES / 1e6 / float(np.median(seconds)), _BYTES / 1e6 / min(seconds)
    return f"{median:7.0f} (median of {len(seconds)}, best {best:.0f})"


def _memory(mpi_comm: "MPI.Comm") -> list[str]:
    """With a communicator that connects so many channels, whatever the machine's default is."""
    config = nccl.Config(min_ctas=_MEMORY_CHANNELS, max_ctas=_MEMORY_CHANNELS)
    with nccl.init(mpi_comm, config=config) as comm:
        comm.set_rules([Rule("all_reduce", knobs=Knobs("ring", "simple", _MEMORY_CHANNELS, _MEMORY_THREADS))])
        data = nccl.zeros(_BYTES // 4)
        comm.all_reduce(data)
        nccl.synchronize()
        every_mb = mpi_comm.allgather(_resident_mb())
    told = [f"rank {rank} {now:.0f} MB ({peak:.0f} at most)" for rank, (now, peak) in enumerate(every_mb)]
    return [f"memory with {_MEMORY_CHANNELS} channels x {_MEMORY_THREADS} threads: {', '.join(told)}"]


def _resident_mb() -> tuple[float, float]:
    """Proportional share of resident memory now (pages shared with other ranks count in part), and the peak, in MB."""
    share_kb = 0
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            share_kb = int(line.split()[1])
    return share_kb / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _idle(comm: Communicator, mpi_comm: "MPI.Comm") -> list[str]:
    """Rank 0 comes late to an all-reduce; the others have long been waiting for it on the device."""
    data = nccl.zeros(1024)
    comm.all_reduce(data)
    nccl.synchronize()
    mpi_comm.Barrier()
    if comm.rank == 0:
        time.sleep(_IDLE_WAIT_S)
    used_s, start = time.process_time(), time.perf_counter()
    comm.all_reduce(data)
    nccl.synchronize()
    share = 100 * (time.process_time() - used_s) / (time.perf_counter() - start)
    others: list[float] = mpi_comm.allgather(share)[1:]
    return [f"processor share of a rank that waits {_IDLE_WAIT_S:g} s for another: {max(others):.1f} %"]
