# SPDX-License-Identifier: Apache-2.0
"""Where nccl_patches/, hostcuda/ and scripts/ lie: beside the package in a checkout, in lagom/_data once installed."""

from pathlib import Path

from .errors import BuildError

_PACKAGE = Path(__file__).resolve().parent.parent


def room(name: str) -> Path:
    """The folder of `name`. BuildError where neither a checkout nor an installed package holds it."""
    places = [_PACKAGE / "_data" / name, _PACKAGE.parent / name]
    for place in places:
        if place.is_dir():
            return place
    raise BuildError(f"{name}/ is in neither {places[0]} nor {places[1]}: lagom is not installed completely")


def series() -> Path:
    """The folder of the patch series for the NCCL that this version of Lagom builds."""
    return room("nccl_patches") / "2.29.7"
