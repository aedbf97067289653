# SPDX-License-Identifier: Apache-2.0
"""Several devices in one process, one thread each: it can only work if blocking calls release the GIL."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lagom.nccl as nccl

DEVICES = 2


def one_device(identity: bytes, device: int) -> list[float]:
    with nccl.init(unique_id=identity, rank=device, size=DEVICES, device=device) as comm:
        data = nccl.empty(1000).from_host(np.full(1000, device + 1))
        stream = nccl.Stream()
        comm.all_reduce(data, stream=stream)
        stream.synchronize()
        return sorted(set(data.to_host(stream).tolist()))


@pytest.mark.usefixtures("hostcuda")
def test_a_thread_a_device() -> None:
    identity = nccl.unique_id()
    with ThreadPoolExecutor(DEVICES) as pool:
        results = list(pool.map(lambda device: one_device(identity, device), range(DEVICES), timeout=60))
    assert results == [[3.0], [3.0]]
