# SPDX-License-Identifier: Apache-2.0
"""Folders as values: one digest for a tree, and copies that touch only what changed."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

IGNORED = {".git", "__pycache__", ".lock"}


def files(tree: Path) -> list[str]:
    """Relative paths of the files below `tree`, '/'-separated, in byte order; version control and caches left out."""
    found = []
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in IGNORED]
        found += [
            Path(folder, name).relative_to(tree).as_posix()
            for name in names
            if name not in IGNORED and not name.endswith(".pyc")
        ]
    return sorted(found, key=os.fsencode)


def digest(tree: Path, names: Iterable[str] | None = None) -> str:
    """SHA-256 over sorted relative paths and contents. A link counts as its target's path, modes and times not at all.

    `names`: only these files of the tree (default: all of them).
    """
    total = hashlib.sha256()
    for name in files(tree) if names is None else sorted(names, key=os.fsencode):
        path = tree / name
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        kind = b"link" if path.is_symlink() else b"file"
        total.update(b"%s %s %d\n" % (kind, os.fsencode(name), len(content)))
        total.update(content)
    return total.hexdigest()


def write_if_changed(path: Path, content: bytes, mode: int | None = None) -> bool:
    """Write a file unless it holds `content` already, so that its time stays and little is compiled again."""
    if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    if mode is not None:
        path.chmod(mode)
    return True


def mirror(source: Path, target: Path) -> int:
    """Make `target` hold the files of `source` and no others, rewriting only what differs. Returns how many did."""
    changed = 0
    wanted = files(source)
    for name in wanted:
        path = source / name
        changed += write_if_changed(target / name, path.read_bytes(), path.stat().st_mode & 0o777)
    for name in set(files(target)) - set(wanted):
        (target / name).unlink()
        changed += 1
    return changed


def copy(source: Path, target: Path, tops: Iterable[str]) -> None:
    """Copy the named top folders and files of `source` into the new folder `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for top in tops:
        if (source / top).is_dir():
            shutil.copytree(source / top, target / top, symlinks=True)
        else:
            shutil.copy2(source / top, target / top)
