# SPDX-License-Identifier: Apache-2.0
"""The compiler that tests use for C++ of their own."""

import shutil

import pytest


def gxx(*, cached: bool = True) -> list[str]:
    """g++, behind ccache where that is installed (which has no use for linking); skips the test where there is none."""
    cxx = shutil.which("g++")
    if cxx is None:
        pytest.skip("no g++")
    ccache = shutil.which("ccache") if cached else None
    return [ccache, cxx] if ccache else [cxx]
