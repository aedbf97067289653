# SPDX-License-Identifier: Apache-2.0
"""Two ranks as threads of one process, a device each; prints every operation's modelled times."""

import threading

import lagom.nccl as nccl

RANKS = 2


def main() -> None:
    unique_id = nccl.unique_id()
    lines: list[list[str]] = [[] for _ in range(RANKS)]

    def work(rank: int) -> None:
        with nccl.init(unique_id=unique_id, rank=rank, size=RANKS, device=rank) as comm:
            comms, compute = nccl.Stream(), nccl.Stream()
            buffer = nccl.empty(4097)
            marks = comms.mark(), compute.mark()
            gemm = nccl.Kernel("gemm", 1e10, 1e7, 1e7, ctas=300 + 50 * rank, registers_per_thread=200)
            for _ in range(5):
                comm.all_reduce(buffer, buffer, stream=comms)
                compute.launch(gemm)
                done = nccl.Event()
                done.record(compute)
                comms.wait(done)
            comms.synchronize()
            compute.synchronize()
            for op in (*comms.op_times(marks[0]), *compute.op_times(marks[1])):
                lines[rank].append(f"{rank} {op.name} {op.start_ns} {op.end_ns}")

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(line for rank in lines for line in rank))


main()
