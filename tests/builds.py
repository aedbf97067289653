# SPDX-License-Identifier: Apache-2.0
"""Finished builds of NCCL on hostcuda that tests use beside the default one: scripts/test makes them, tests do not."""

import functools
from pathlib import Path
from typing import Any

import pytest

from lagom.build import fetch, functions, host
from lagom.build.errors import BuildError
from lagom.build.flavour import Request


@functools.cache
def _found(pattern: str, **options: Any) -> Path | str:
    """The build's folder, or why there is none."""
    try:
        request = Request(fetch.pristine(), functions=functions.select(pattern), **options)
        built = host.HostBuild(request).find()
    except BuildError as error:
        return str(error)
    words = ["--stock"] if request.stock else []
    words += [f"--extra-patch {folder}" for folder in request.extra_patches]
    words += [f"--sanitize {','.join(request.sanitize)}"] if request.sanitize else []
    command = " ".join(["lagom build --arch", str(request.arch), *words, f"--functions '{pattern}'"])
    return built or f"not built from these sources: {command}"


# For GPUs of 9.0 everything is built, because they can run everything; scripts/test-functions says what 8.0 has.
HOPPER_ARCH = 900


def hopper() -> dict[str, str]:
    """The environment of eight H100 and a build with all device functions; skips the test if there is none."""
    whole = functions.default(HOPPER_ARCH)
    return {"HOSTCUDA_MACHINE": "h100x8", "LAGOM_NCCL": str(host_build("|".join(whole), arch=HOPPER_ARCH))}


def host_build(
    pattern: str,
    *,
    arch: int = 800,
    stock: bool = False,
    extra: tuple[Path, ...] = (),
    sanitize: tuple[str, ...] = (),
) -> Path:
    """The folder of a build that holds the functions of ``pattern``; skips the test, saying why, if there is none."""
    found = _found(pattern, arch=arch, stock=stock, extra_patches=extra, sanitize=sanitize)
    if isinstance(found, str):
        pytest.skip(found)
    return found
