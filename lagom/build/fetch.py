# SPDX-License-Identifier: Apache-2.0
"""Getting a pristine NCCL 2.29.7 into the cache, and being sure that it is one.

Archives of one tag differ byte by byte between origins, so what is verified is the unpacked tree.
"""

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from . import apt, cache, trees
from .errors import BuildError
from .unpack import unpack

TAG = "v2.29.7-1"
TREE_DIGEST = "38daef0202aba0514f21c6451de4e00cb16741a3283fe48f51d30395a2984241"
URL = f"https://github.com/NVIDIA/nccl/archive/refs/tags/{TAG}.tar.gz"
NETWORK_TIMEOUT_S = 15
LARGEST_ARCHIVE_BYTES = 64 << 20


def tree_digest(tree: Path) -> str:
    """The digest that identifies a NCCL tree; the forge's own files (.github, .gitignore) do not count."""
    return trees.digest(tree, [name for name in trees.files(tree) if not name.startswith(".git")])


def pristine(source: Path | None = None) -> Path:
    """The cached pristine tree; fetched first where the cache has none.

    `source`: an archive or folder that the user names; also $LAGOM_NCCL_SOURCE. Then nothing else is tried.
    BuildError says what was tried and what each attempt gave; nothing half-fetched stays.
    """
    final = cache.sources() / TREE_DIGEST
    if source is None and final.is_dir():
        if tree_digest(final) == TREE_DIGEST:
            return final
        print(f"the cached NCCL in {final} has been changed; fetching it again", flush=True)
    named = source or (Path(text) if (text := os.environ.get("LAGOM_NCCL_SOURCE")) else None)
    origins: list[tuple[str, Callable[[Path, Path], None]]]
    if named:
        origins = [(str(named), lambda tree, scratch: _from_user(named, tree))]
    else:
        origins = [
            (URL, lambda tree, scratch: _from_url(URL, tree, scratch)),
            (f"apt source {apt.PACKAGE} {apt.VERSION}", lambda tree, scratch: unpack(apt.download(scratch), tree)),
        ]
    with cache.lock(cache.sources()):
        tried = []
        for name, bring in origins:
            try:
                _bring(bring, final)
                return final
            except BuildError as error:
                tried.append(f"\n  {name}: {error}")
    raise BuildError(
        f"no NCCL {TAG} to be had; tried:{''.join(tried)}\n"
        "LAGOM_NCCL_SOURCE or --source may name an archive or a folder of it"
    )


def _bring(bring: Callable[[Path, Path], None], final: Path) -> None:
    """Run one origin in a scratch folder; only a tree with the right digest becomes `final`."""
    with cache.appearing(final, replace=True) as tree, tempfile.TemporaryDirectory(prefix="lagom-fetch-") as scratch:
        bring(tree, Path(scratch))
        found = tree_digest(tree)
        if found != TREE_DIGEST:
            raise BuildError(
                f"the tree is not NCCL {TAG} as released: digest {found[:16]} over {len(trees.files(tree))} files, "
                f"not {TREE_DIGEST[:16]} (changed, built in, or another version)"
            )


def _from_user(source: Path, tree: Path) -> None:
    if source.is_dir():
        if not (source / "makefiles" / "version.mk").is_file():
            raise BuildError("not a folder of NCCL: it has no makefiles/version.mk")
        for name in trees.files(source):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name, follow_symlinks=False)
    elif source.is_file():
        unpack(source, tree)
    else:
        raise BuildError("no such file or folder")


def _from_url(url: str, tree: Path, scratch: Path) -> None:
    archive = scratch / "nccl.tar.gz"
    try:
        with urllib.request.urlopen(url, timeout=NETWORK_TIMEOUT_S) as reply, open(archive, "wb") as out:
            expected = reply.headers.get("Content-Length")
            while piece := reply.read(1 << 16):
                out.write(piece)
                if out.tell() > LARGEST_ARCHIVE_BYTES:
                    raise BuildError(f"the archive is larger than {LARGEST_ARCHIVE_BYTES} bytes")
            if expected and out.tell() != int(expected):
                raise BuildError(f"the download ended after {out.tell()} of {expected} bytes")
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise BuildError(f"download failed: {getattr(error, 'reason', error)}") from error
    unpack(archive, tree)
