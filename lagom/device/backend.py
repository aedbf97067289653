# SPDX-License-Identifier: Apache-2.0
"""What running a group needs of the CUDA in use: computation by description, times, and the buffers' contents.

A workload runs on either backend by the same calls: :class:`DescribedBackend` hands descriptions to hostcuda's clock,
:class:`CompiledBackend` runs compiled kernels that cost what the description says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

import lagom.nccl as nccl
from lagom.device import patterns
from lagom.device.fitting import VECTOR_BYTES, Fit, fit
from lagom.device.timing import EventTimer, ModelTimer, Timer

#: What operands of matrix products hold: a GPU's power, and so its speed, depends on the data.
_NOISE_ELEMENTS = 1 << 20
_WIPED = 0xA5


class Backend(Protocol):
    """The CUDA in use."""

    def prepare(self, kernels: Sequence[nccl.Kernel]) -> None:
        """Make ready whatever :meth:`launch` of these kernels needs.

        :raises ValueError: where a kernel cannot run as described.
        """
        ...

    def launch(self, kernel: nccl.Kernel, stream: nccl.Stream) -> None:
        """Enqueue a computation by description."""
        ...

    def timer(self, streams: Mapping[str, nccl.Stream]) -> Timer:
        """A timer for one execution of a group in these streams."""
        ...

    def write(self, buffer: nccl.DeviceBuffer, tile: patterns.Array) -> None:
        """Fill a buffer with a tile over and over."""
        ...

    def wipe(self, buffer: nccl.DeviceBuffer) -> None:
        """Overwrite a buffer, so that data left over cannot pass for right."""
        ...

    def read(self, buffer: nccl.DeviceBuffer) -> patterns.Array:
        """A buffer's contents."""
        ...


class DescribedBackend:
    """hostcuda: computation is accounted for, memory is the host's own."""

    def prepare(self, kernels: Sequence[nccl.Kernel]) -> None:
        """Nothing to prepare."""

    def launch(self, kernel: nccl.Kernel, stream: nccl.Stream) -> None:
        """See :class:`Backend`."""
        stream.launch(kernel)

    def timer(self, streams: Mapping[str, nccl.Stream]) -> Timer:
        """See :class:`Backend`."""
        return ModelTimer(streams)

    def write(self, buffer: nccl.DeviceBuffer, tile: patterns.Array) -> None:
        """See :class:`Backend`."""
        patterns.fill(buffer.numpy(), tile)

    def wipe(self, buffer: nccl.DeviceBuffer) -> None:
        """See :class:`Backend`."""
        buffer.numpy().view("u1").fill(_WIPED)

    def read(self, buffer: nccl.DeviceBuffer) -> patterns.Array:
        """See :class:`Backend`."""
        return buffer.numpy()


class CompiledBackend:
    """Compiled kernels in one device's memory. Nothing here depends on where the kernels come from.

    :param find: gives a kernel of ``kernels.cu`` by name.
    """

    def __init__(self, find: Callable[[str], nccl.Function]) -> None:
        self._find = find
        self._fits: dict[nccl.Kernel, tuple[Fit, nccl.Function]] = {}
        self._shared: dict[str, int] = {}
        self._memory: nccl.DeviceBuffer | None = None

    def prepare(self, kernels: Sequence[nccl.Kernel]) -> None:
        """See :class:`Backend`. All kernels share one memory: they run for their cost, not their result."""
        for kernel in kernels:
            chosen = fit(kernel)
            function = self._find(chosen.function)
            if chosen.shared_bytes > self._shared.get(chosen.function, 0):
                function.allow_shared(chosen.shared_bytes)
                self._shared[chosen.function] = chosen.shared_bytes
            self._fits[kernel] = chosen, function
        needed = max((sum(map(_rounded, chosen.regions)) for chosen, _ in self._fits.values()), default=0)
        if self._memory is None or self._memory.nbytes < needed:
            self._memory = None  # before the larger one is asked for
            self._memory = nccl.empty(needed // 2, "bfloat16")
            noise = np.random.Generator(np.random.PCG64(1)).uniform(-1, 1, _NOISE_ELEMENTS)
            self.write(self._memory, noise.astype(self._memory.dtype.numpy))

    def fitted(self, kernel: nccl.Kernel) -> Fit:
        """What a prepared kernel runs as."""
        return self._fits[kernel][0]

    def region(self, kernel: nccl.Kernel, index: int, dtype: str) -> nccl.DeviceBuffer:
        """A region of a prepared kernel's memory, see :attr:`Fit.regions`."""
        assert self._memory is not None
        regions = self._fits[kernel][0].regions
        start = sum(map(_rounded, regions[:index]))
        return self._memory.view("uint8")[start : start + regions[index]].view(dtype)

    def launch(self, kernel: nccl.Kernel, stream: nccl.Stream) -> None:
        """See :class:`Backend`."""
        chosen, function = self._fits[kernel]
        addresses = tuple(self.region(kernel, index, "uint8").address for index in range(len(chosen.regions)))
        function.launch(chosen.ctas, chosen.threads, chosen.shared_bytes, chosen.arguments(addresses), stream)

    def timer(self, streams: Mapping[str, nccl.Stream]) -> Timer:
        """See :class:`Backend`."""
        return EventTimer(streams)

    def write(self, buffer: nccl.DeviceBuffer, tile: patterns.Array) -> None:
        """See :class:`Backend`."""
        values: Any = np.empty(buffer.count, buffer.dtype.numpy)
        patterns.fill(values, tile)
        buffer.from_host(values)

    def wipe(self, buffer: nccl.DeviceBuffer) -> None:
        """See :class:`Backend`."""
        buffer.fill_bytes(_WIPED)
        nccl.synchronize()

    def read(self, buffer: nccl.DeviceBuffer) -> patterns.Array:
        """See :class:`Backend`."""
        return buffer.to_host()


def _rounded(nbytes: int) -> int:
    """Regions begin where vectors may."""
    return -(-nbytes // VECTOR_BYTES) * VECTOR_BYTES
