# SPDX-License-Identifier: Apache-2.0
"""The patched NCCL on GPUs, for tests that need it; scripts/gpu-check builds and names it."""

import pytest

import lagom.nccl as nccl
from lagom.device import DeviceError, kinds


def library() -> nccl.Library:
    """Skips the test, saying why, where there is none or no GPU."""
    try:
        found = nccl.library()
        if found.hostcuda:
            pytest.skip(f"{found.path} runs on hostcuda, not on GPUs")
        return kinds.require(kinds.CUDA)
    except (nccl.LibraryError, DeviceError) as error:
        pytest.skip(str(error))
