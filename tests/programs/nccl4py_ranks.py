# SPDX-License-Identifier: Apache-2.0
"""A program of nccl4py, which knows nothing of Lagom: memory and streams by cuda.core, data checked with NumPy.

    mpirun -n 3 python nccl4py_ranks.py

Every rank prints "rank R: N right" once all of its checks have held.
"""

import nccl.core as nccl
import numpy as np
from cuda.bindings import driver
from cuda.core import Device
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
device = Device(rank)
device.set_current()
assert device.name == "NVIDIA A40" and tuple(device.compute_capability) == (8, 6)
stream = device.create_stream()
right = 0


def told(result: tuple) -> None:
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]


class Array:
    """Device memory with a type, as CuPy's and PyTorch's arrays show theirs."""

    def __init__(self, content: np.ndarray, of_nccl: bool = True) -> None:
        self.content = content
        size = content.nbytes
        self.buffer = nccl.mem_alloc(size) if of_nccl else device.allocate(size, stream=stream)
        told(driver.cuMemcpyHtoD(int(self.buffer.handle), content.ctypes.data, size))
        self.__cuda_array_interface__ = {
            "shape": content.shape,
            "typestr": content.dtype.str,
            "data": (int(self.buffer.handle), False),
            "version": 3,
        }

    def holds(self, expected: np.ndarray) -> None:
        global right
        stream.sync()
        data = np.full_like(self.content, 77)
        told(driver.cuMemcpyDtoH(data.ctypes.data, int(self.buffer.handle), data.nbytes))
        assert (data == expected).all(), f"rank {rank}: {data[:4]}, not {expected[:4]}"
        right += 1


COUNT = 1200  # a multiple of 2, 3 and 4


def values(of: int) -> np.ndarray:
    return (np.arange(COUNT) % 101 + of).astype(np.float32)


def empty(count: int) -> Array:
    return Array(np.full(count, -1, np.float32))


unique_id = world.bcast(nccl.get_unique_id() if rank == 0 else None, root=0)
comm = nccl.Communicator.init(nranks=ranks, rank=rank, unique_id=unique_id)
assert (comm.rank, comm.nranks) == (rank, ranks)
assert str(nccl.get_version().nccl_version) == "2.29.7"

every = sum(values(of) for of in range(ranks))
each = COUNT // ranks
mine, of_pool = Array(values(rank)), Array(values(rank), of_nccl=False)

for source in (mine, of_pool):
    result = empty(COUNT)
    comm.allreduce(source, result, nccl.SUM, stream=stream)
    result.holds(every)

result = empty(COUNT * ranks)
comm.allgather(mine, result, stream=stream)
result.holds(np.concatenate([values(of) for of in range(ranks)]))

result = empty(each)
comm.reduce_scatter(mine, result, nccl.SUM, stream=stream)
result.holds(every[rank * each : (rank + 1) * each])

result = empty(COUNT)
comm.broadcast(mine, result, root=ranks - 1, stream=stream)
result.holds(values(ranks - 1))

result = empty(COUNT)
comm.reduce(mine, result, nccl.SUM, root=0, stream=stream)
result.holds(every if rank == 0 else np.full(COUNT, -1))

result = empty(COUNT)
with nccl.group():
    comm.send(mine, peer=(rank + 1) % ranks, stream=stream)
    comm.recv(result, peer=(rank - 1) % ranks, stream=stream)
result.holds(values((rank - 1) % ranks))

result = empty(COUNT)
comm.alltoall(mine, result, stream=stream)
result.holds(np.concatenate([values(of)[rank * each : (rank + 1) * each] for of in range(ranks)]))

# What nccl4py makes of a wrong argument is NCCL's own error.
try:
    comm.broadcast(mine, empty(COUNT), root=ranks, stream=stream)
except Exception as error:
    assert "invalid" in str(error).lower(), error
else:
    raise AssertionError("a root that is no rank was taken")

half = comm.split(color=rank % 2, key=-rank)
group = [of for of in range(ranks) if of % 2 == rank % 2]
assert half.nranks == len(group) and half.rank == group[::-1].index(rank)
result = empty(COUNT)
half.allreduce(mine, result, nccl.SUM, stream=stream)
result.holds(sum(values(of) for of in group))
half.destroy()
comm.destroy()
print(f"rank {rank}: {right} right", flush=True)
