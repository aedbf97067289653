# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see it complete or not at all."""
    spare = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        spare.write_bytes(data)
        spare.replace(path)
    except BaseException:
        spare.unlink(missing_ok=True)
        raise
