# SPDX-License-Identifier: Apache-2.0
"""Unpacking an archive of one top folder, without trusting it."""

import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

from .errors import BuildError


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar archive (any compression) into the empty folder `target`, less the one folder that holds it all.

    BuildError for what is no archive, is cut short, or holds a member that would lie outside `target`.
    """
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts
                if member.name.startswith("/") or ".." in parts:
                    raise BuildError(f"{archive}: member {member.name!r} would lie outside the folder")
                if len(parts) > 1:
                    _place(tar, member, target.joinpath(*parts[1:]), target)
    except (tarfile.TarError, EOFError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile goes on with a line for each kind of compression
        raise BuildError(f"{archive} cannot be unpacked as a tar archive: {reason}") from error


def _place(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, target: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    if not path.parent.resolve().is_relative_to(target.resolve()):
        raise BuildError(f"member {member.name!r} would lie outside the folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        inside = os.path.normpath(path.parent.relative_to(target) / member.linkname)
        if os.path.isabs(member.linkname) or inside.startswith(".."):
            raise BuildError(f"link {member.name!r} points outside the folder")
        path.symlink_to(member.linkname)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None  # a regular member always has content
        with content, open(path, "wb") as out:
            shutil.copyfileobj(content, out)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    else:
        raise BuildError(f"member {member.name!r} is neither file, folder nor link")
