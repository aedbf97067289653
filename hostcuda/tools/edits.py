# SPDX-License-Identifier: Apache-2.0
"""The two kinds of edits that the rewriter makes, as the files of anchors list them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """``old`` occurs exactly ``count`` times and becomes ``new``. ``why`` is for readers."""

    old: str
    new: str
    count: int
    why: str

    @property
    def name(self) -> str:
        return self.old.strip().split("\n", 1)[0]


@dataclass(frozen=True)
class Function:
    """The whole function whose definition starts with ``head`` becomes ``replacement``."""

    head: str
    replacement: str
