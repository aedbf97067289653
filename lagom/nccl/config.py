# SPDX-License-Identifier: Apache-2.0
"""What a communicator is made with."""

import os
from dataclasses import asdict, dataclass
from typing import Any

from .checks import whole

_INT_MAX = 2**31 - 1
_MOST_CHANNELS = 64  # NCCL cuts larger numbers of CTAs to this
_MOST_CLUSTER = 8
# Field -> smallest and largest value that NCCL takes as it is; what lies outside it refuses, or replaces and goes on.
_ALLOWED = {
    "min_ctas": (1, _MOST_CHANNELS),
    "max_ctas": (1, _MOST_CHANNELS),
    "cga_cluster_size": (0, _MOST_CLUSTER),
    "nvls_ctas": (1, _MOST_CHANNELS),
    "cta_policy": (0, 2),
    "traffic_class": (0, _INT_MAX),
    "split_share": (0, 1),
    "shrink_share": (0, 1),
    "collnet_enable": (0, 1),
    "channels_per_net_peer": (1, _MOST_CHANNELS),
    "nvlink_centric_sched": (0, 1),
    "graph_usage_mode": (0, 2),
    "rma_contexts": (1, _INT_MAX),
}


@dataclass(frozen=True)
class Config:
    """Fields of ncclConfig_t; None leaves one to NCCL. The same on all ranks where NCCL's documentation says so.

    ``blocking`` False: calls return at once and :meth:`Communicator.ready` says when they are done. ``min_ctas`` needs
    ``max_ctas``: NCCL compares it with an unset maximum and refuses. ``cta_policy``: 0 default, 1 few CTAs, 2 none
    where copy engines can do it. TypeError and ValueError for what NCCL would refuse or silently replace.
    """

    min_ctas: int | None = None
    max_ctas: int | None = None
    cga_cluster_size: int | None = None
    nvls_ctas: int | None = None
    cta_policy: int | None = None
    traffic_class: int | None = None
    split_share: int | None = None
    net_name: str | None = None
    name: str | None = None
    blocking: bool | None = None
    shrink_share: int | None = None
    collnet_enable: int | None = None
    channels_per_net_peer: int | None = None
    nvlink_centric_sched: int | None = None
    graph_usage_mode: int | None = None
    rma_contexts: int | None = None

    def __post_init__(self) -> None:
        for field, value in self.given().items():
            if field in ("net_name", "name"):
                if not isinstance(value, str) or "\0" in value:
                    raise TypeError(f"{field} is {value!r}; text without zero bytes is needed")
            elif field == "blocking":
                if not isinstance(value, bool):
                    raise TypeError(f"blocking is {value!r}; True or False is needed")
            else:
                whole(value, field, *_ALLOWED[field])
        if self.min_ctas is not None and self.max_ctas is None:
            raise ValueError(f"min_ctas {self.min_ctas} without max_ctas: NCCL takes both or the maximum alone")
        if self.min_ctas is not None and self.max_ctas is not None and self.min_ctas > self.max_ctas:
            raise ValueError(f"min_ctas {self.min_ctas} is above max_ctas {self.max_ctas}")

    def given(self) -> dict[str, Any]:
        """Only what is set."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def blocks(config: Config | None, inherited: bool = True) -> bool:
    """Whether calls of a communicator made with ``config`` block; ``inherited`` where it does not say.

    ValueError where NCCL_COMM_BLOCKING, which wins in NCCL, says otherwise than ``config``.
    """
    asked = None if config is None else config.blocking
    forced = os.environ.get("NCCL_COMM_BLOCKING", "")
    if forced in ("0", "1"):
        if asked is not None and asked != (forced == "1"):
            raise ValueError(f"NCCL_COMM_BLOCKING={forced} overrides blocking={asked}; drop one of them")
        return forced == "1"
    return inherited if asked is None else asked
