# SPDX-License-Identifier: Apache-2.0
"""The few GPU figures that decide how a library tiles its kernels.

They equal those in ``hostcuda/gpus/*.ini``, which carry the sources; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """:param sms: streaming multiprocessors. :param l2_bytes: size of the L2 cache."""

    name: str
    sms: int
    l2_bytes: int


A40 = Gpu("a40", sms=84, l2_bytes=6 << 20)
A100_SXM_40GB = Gpu("a100-sxm-40gb", sms=108, l2_bytes=40 << 20)
H100_SXM = Gpu("h100-sxm", sms=132, l2_bytes=50 << 20)
H200_SXM = Gpu("h200-sxm", sms=132, l2_bytes=50 << 20)
B200_SXM = Gpu("b200-sxm", sms=148, l2_bytes=126 << 20)

GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in (A40, A100_SXM_40GB, H100_SXM, H200_SXM, B200_SXM)}

#: Modelled machine -> its GPU.
MACHINES: dict[str, Gpu] = {
    "a40x8": A40,
    "a100x8": A100_SXM_40GB,
    "h100x8": H100_SXM,
    "h200x8": H200_SXM,
    "b200x8": B200_SXM,
}
