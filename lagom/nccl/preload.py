# SPDX-License-Identifier: Apache-2.0
"""Putting the patched NCCL in front of an unchanged program."""

import os
from pathlib import Path

from ._native import LibraryError
from .library import library


def environment(base: dict[str, str], plan: str | None = None, counters: str | None = None) -> dict[str, str]:
    """A copy of ``base`` for a program that shall run with this process's NCCL preloaded.

    ``plan``: file with knobs, which the program's NCCL must then honour or fail. ``counters``: file that gets what ran;
    %h, %p and %r in it become host, process and rank. LibraryError where the library is not patched.
    """
    found = library()
    if not found.patched:
        raise LibraryError(f"{found.path} is not patched, so a plan would have no effect; build one with `lagom build`")
    prepared = dict(base)
    if plan is not None:
        prepared["LAGOM_PLAN"] = os.path.abspath(plan)
        prepared["LAGOM_REQUIRE"] = "1"
    if counters is not None:
        prepared["LAGOM_COUNTERS"] = "1"
        prepared["LAGOM_COUNTERS_FILE"] = os.path.abspath(counters)
    preloads = [found.path]
    if found.hostcuda:
        # Programs name the CUDA runtime and the driver by soname only.
        preloads.append(found.cuda_path)
        folder = str(Path(found.cuda_path).parent)
        rest = [entry for entry in prepared.get("LD_LIBRARY_PATH", "").split(":") if entry and entry != folder]
        prepared["LD_LIBRARY_PATH"] = ":".join([folder, *rest])
    earlier = [entry for entry in prepared.get("LD_PRELOAD", "").replace(":", " ").split() if entry not in preloads]
    prepared["LD_PRELOAD"] = ":".join(preloads + earlier)
    return prepared
