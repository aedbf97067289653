# SPDX-License-Identifier: Apache-2.0
"""Finished builds of NCCL on hostcuda that tests use beside the default one: scripts/test makes them, tests do not."""

import functools
from pathlib import Path

import pytest

from lagom.build import fetch, functions, host
from lagom.build.errors import BuildError
from lagom.build.flavour import Request


@functools.cache
def _found(pattern: str, arch: int, stock: bool, extra: tuple[Path, ...]) -> Path | str:
    """The build's folder, or why there is none."""
    try:
        request = Request(fetch.pristine(), arch, functions.select(pattern), stock, extra)
        built = host.HostBuild(request).find()
    except BuildError as error:
        return str(error)
    options = (" --stock" if stock else "") + "".join(f" --extra-patch {folder}" for folder in extra)
    command = f"lagom build --arch {arch}{options} --functions '{pattern}'"
    return built or f"not built from these sources: {command}"


def host_build(pattern: str, *, arch: int = 800, stock: bool = False, extra: tuple[Path, ...] = ()) -> Path:
    """The folder of a build that holds the functions of ``pattern``; skips the test, saying why, if there is none."""
    found = _found(pattern, arch, stock, extra)
    if isinstance(found, str):
        pytest.skip(found)
    return found
