# SPDX-License-Identifier: Apache-2.0
"""The per-user cache: where things lie, how a folder becomes visible at once, and who may work in one at a time.

src/<tree digest>/          pristine NCCL
build/<flavour>.../          work folder of builds: staged trees, objects
lib/<key>/                  a finished build
lib/current-<flavour>       link to the build that programs load by default
"""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import BuildError


def root() -> Path:
    """The cache's folder: $LAGOM_CACHE, else $XDG_CACHE_HOME/lagom, else ~/.cache/lagom. Not created here."""
    named = os.environ.get("LAGOM_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lagom"


def sources() -> Path:
    return root() / "src"


def libraries() -> Path:
    return root() / "lib"


def current(flavour: str = "host") -> Path:
    """The link to the default finished build of a flavour; it may not exist."""
    return libraries() / f"current-{flavour}"


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold `folder`, which is made if need be, until the block ends; a second process waits here and says so.

    The kernel drops the lock with the process, so a killed build leaves nothing to clean up.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / ".lock", "w")  # noqa: SIM115 - closed below, after the block
    except OSError as error:
        raise BuildError(
            f"cannot write the cache folder {folder}: {error.strerror}; LAGOM_CACHE names another one"
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that works in {folder}", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def appearing(final: Path, replace: bool = False) -> Iterator[Path]:
    """A new empty folder that becomes `final` when the block ends well, and vanishes when it does not.

    Where `final` is there already, it stays and the new folder goes, unless `replace`.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    _sweep(final)
    made = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=f".{os.getpid()}", dir=final.parent))
    try:
        made.chmod(0o755)
        yield made
        if replace:
            shutil.rmtree(final, ignore_errors=True)
        if final.exists():
            shutil.rmtree(made)  # somebody else finished the same content first
        else:
            made.rename(final)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _sweep(final: Path) -> None:
    """Remove what killed processes left of earlier attempts at `final`."""
    for left in final.parent.glob(f".{final.name}.*"):
        pid = left.name.rpartition(".")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def point(link: Path, target: Path) -> None:
    """Make `link` a relative link to `target` in one step."""
    link.parent.mkdir(parents=True, exist_ok=True)
    spare = link.with_name(f".{link.name}.{os.getpid()}")
    spare.unlink(missing_ok=True)
    # Both resolved: "..", from below a folder that is itself a link, leads out of where that link leads.
    spare.symlink_to(os.path.relpath(target.resolve(), link.parent.resolve()))
    spare.replace(link)
