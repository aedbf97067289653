# SPDX-License-Identifier: Apache-2.0
"""Makes a NCCL source tree compile for hostcuda.

    rewrite.py SRC OUT

Reads the tree SRC (pristine or patched; never written unless it is OUT), and leaves in OUT the whole tree with the
edits of ``anchors.py`` and with inline PTX turned into calls of the shim. Files whose content is already right are not
touched, so that a build after a small change is small. Every edit states how often its anchor occurs; any other number
ends the program with status 1 and one line that names file and anchor.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import anchors
from ptx_asm import AsmError, rewrite_asm

# Where inline assembly is PTX; elsewhere it is the host's own.
PTX_FOLDERS = ("src/device", "src/include/nccl_device")
PTX_SUFFIXES = {".h", ".cu", ".cuh"}
# Built for a GPU only, or not part of the library.
SKIPPED_FOLDERS = {".git", "build"}


class RewriteError(Exception):
    """The tree is not what the anchors were written for."""


def rewritten(path: str, text: str) -> str:
    """The text of the file ``path`` (relative to the tree, with slashes) after all edits that concern it."""
    for edit in anchors.EDITS.get(path, ()):
        found = text.count(edit.old)
        if found != edit.count:
            raise RewriteError(f"{path}: anchor {edit.name!r} found {found} times, expected {edit.count}")
        text = text.replace(edit.old, edit.new)
    for function in anchors.FUNCTIONS.get(path, ()):
        text = _replace_function(path, text, function)
    if path.startswith(PTX_FOLDERS) and Path(path).suffix in PTX_SUFFIXES:
        try:
            text, _ = rewrite_asm(text)
        except AsmError as error:
            raise RewriteError(f"{path}: {error}") from error
    return text


def _replace_function(path: str, text: str, function: anchors.Function) -> str:
    found = text.count(function.head)
    if found != 1:
        raise RewriteError(f"{path}: anchor {function.head!r} found {found} times, expected 1")
    start = text.index(function.head)
    depth = 0
    for i in range(text.index("{", start), len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[:start] + function.replacement + text[i + 1 :]
    raise RewriteError(f"{path}: function {function.head!r} does not end")


def _write_if_changed(path: Path, content: bytes) -> bool:
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True


def rewrite_tree(source: Path, out: Path) -> int:
    """Writes the edited tree; returns how many files changed in ``out``."""
    names = [*anchors.EDITS, *anchors.FUNCTIONS]
    for name in names:
        if not (source / name).is_file():
            raise RewriteError(f"{source}: no file {name}; is this a NCCL source tree?")
    changed = 0
    # Everything is computed before anything is written: a tree that does not fit leaves OUT as it was.
    results: list[tuple[Path, bytes, Path]] = []
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if SKIPPED_FOLDERS.intersection(relative.parts) or not path.is_file():
            continue
        content = path.read_bytes()
        name = relative.as_posix()
        if name in names or (name.startswith(PTX_FOLDERS) and path.suffix in PTX_SUFFIXES):
            content = rewritten(name, content.decode()).encode()
        results.append((relative, content, path))
    for relative, content, path in results:
        target = out / relative
        if _write_if_changed(target, content):
            shutil.copymode(path, target)
            changed += 1
    return changed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rewrite.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("source", type=Path, help="NCCL source tree")
    parser.add_argument("out", type=Path, help="where the edited tree goes; may be SOURCE")
    options = parser.parse_args(arguments)
    try:
        changed = rewrite_tree(options.source, options.out)
    except (RewriteError, OSError) as error:
        print(f"rewrite.py: {error}", file=sys.stderr)
        return 1
    print(f"rewrite.py: {changed} files changed in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
