# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, asked of the driver before anything is built or installed: python3 -m lagom.build.gpus."""

import ctypes
import sys

from .errors import BuildError

_DRIVER = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
FIRST_ARCH = 800


def architectures() -> list[int]:
    """Compute capability times 100 of each GPU, in the driver's order. BuildError where there is none that can be used."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        raise BuildError(f"no GPU on this machine: there is no CUDA driver ({_DRIVER})") from None
    count = ctypes.c_int()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGetCount", (ctypes.byref(count),))):
        if code := driver[name](*arguments):
            raise BuildError(f"no GPU that can be used on this machine: {name} answers {code}")
    found = []
    for device in range(count.value):
        value = []
        for attribute in (_MAJOR, _MINOR):
            number = ctypes.c_int()
            if code := driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device):
                raise BuildError(f"GPU {device} cannot be used: cuDeviceGetAttribute answers {code}")
            value.append(number.value)
        found.append(100 * value[0] + 10 * value[1])
    if not found:
        raise BuildError("no GPU on this machine: the driver sees none")
    return found


def main() -> int:
    """Print the architectures, one a GPU; or one line on standard error, and 1."""
    try:
        found = architectures()
        if low := [arch for arch in found if arch < FIRST_ARCH]:
            raise BuildError(f"compute capability {low[0] / 100:.1f}: Lagom's kernels need 8.0 or higher")
        if len(set(found)) > 1:
            raise BuildError(
                f"GPUs of several generations ({', '.join(map(str, found))}): CUDA_VISIBLE_DEVICES chooses"
            )
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(*found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
