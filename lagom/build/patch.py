# SPDX-License-Identifier: Apache-2.0
"""Applying the patch series to a NCCL tree, and saying what in it does not apply."""

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import trees
from .errors import BuildError
from .rooms import room, series
from .tools import need

MARKER = ".lagom-patched"  # holds the digest of the series that a tree has been given


@dataclass(frozen=True)
class Series:
    """What a tree is given: Lagom's own series, and folders of the same form with further patches, in that order.

    Such a folder holds `series`, the patches that it names, and whole new files below `include` and `src`.
    """

    own: bool = True
    extra: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        for folder in self.extra:
            if not (folder / "series").is_file():
                raise BuildError(f"{folder} holds no patches: it has no file named series")

    def __bool__(self) -> bool:
        return self.own or bool(self.extra)

    def patches(self) -> list[Path]:
        """The patches in order. '#' begins a comment in a series file."""
        found = []
        for folder in ([series()] if self.own else []) + list(self.extra):
            listed = folder / "series"
            if not listed.is_file():
                raise BuildError(f"{listed} is missing")
            names = [line.split("#")[0].strip() for line in listed.read_text().splitlines()]
            for path in [folder / name for name in names if name]:
                if not path.is_file():
                    raise BuildError(f"{listed} names {path.name}, which is not there")
                found.append(path)
        return found

    def added_files(self) -> dict[str, Path]:
        """Whole new files: path in NCCL's tree -> file here. include/ goes to src/include/, src/ to src/."""
        found = {}
        for room_folder in ([room("nccl_patches")] if self.own else []) + list(self.extra):
            for folder, place in (("include", "src/include"), ("src", "src")):
                top = room_folder / folder
                if top.is_dir():
                    found.update({f"{place}/{name}": top / name for name in trees.files(top)})
        return found

    def concerned(self) -> set[str]:
        """Paths in NCCL's tree that patching changes or adds."""
        return {name for patch in self.patches() for name in _touched(patch)} | set(self.added_files())

    def digest(self) -> str:
        """Identifies what patching does: the patches in order, and the new files."""
        parts = [trees.digest(path.parent, [path.name]) for path in self.patches()]
        parts += [
            f"{name} {trees.digest(path.parent, [path.name])}" for name, path in sorted(self.added_files().items())
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


OWN = Series()


def _touched(patch: Path) -> list[str]:
    """Paths that a patch reads or writes."""
    names = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch.read_text(), re.MULTILINE)
    return sorted(set(names))


def _try_series(tree: Path, scratch: Path, chosen: Series) -> list[str]:
    """Apply the series to copies, in `scratch`, of the files it touches. Returns one line a hunk or file that fails."""
    git = need("git", "install git: it applies the patches")
    for name in sorted({name for patch in chosen.patches() for name in _touched(patch)}):
        if (tree / name).is_file():
            trees.write_if_changed(scratch / name, (tree / name).read_bytes(), (tree / name).stat().st_mode & 0o777)
    # Not inside any repository, or git would silently skip paths that it takes for another project's.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(scratch.resolve().parent), "LC_ALL": "C"}
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        environment.pop(name, None)
    failures = []
    for patch in chosen.patches():
        done = subprocess.run(
            [git, "apply", "--reject", "--verbose", "--whitespace=nowarn", str(patch)],
            cwd=scratch, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            failures += [f"{patch.name}: {line}" for line in _explain(patch, done.stderr)]
    return failures


def _explain(patch: Path, output: str) -> list[str]:
    """One line for each hunk or file that git rejected, with the hunk's own header."""
    headers: dict[str, list[str]] = {}
    name = ""
    for line in patch.read_text().splitlines():
        if line.startswith("+++ b/"):
            name = line[len("+++ b/") :]
        elif line.startswith("@@"):
            headers.setdefault(name, []).append(line)
    lines, name = [], ""
    for line in output.splitlines():
        if match := re.match(r"(?:Checking|Applying) patch (\S+?)(?:\.\.\.| with )", line):
            name = match[1]
        elif match := re.match(r"Rejected hunk #(\d+)", line):
            hunk = int(match[1])
            lines.append(f"{name}: hunk {hunk} does not apply: {headers.get(name, [''] * hunk)[hunk - 1]}")
        elif match := re.match(r"error: (\S+): (No such file.*|already exists.*)", line):
            lines.append(f"{match[1]}: {match[2]}")
    return lines or [line for line in output.splitlines() if line.startswith("error:")] or [output.strip()]


def check(tree: Path, chosen: Series = OWN) -> list[str]:
    """What of the series fails on `tree`, one line each; empty where all of it applies. The tree stays as it is."""
    _require_tree(tree)
    with tempfile.TemporaryDirectory(prefix="lagom-patch-") as scratch:
        failures = _try_series(tree, Path(scratch), chosen)
    return failures + [f"{name}: a new file of the series, but the tree has one" for name in _collisions(tree, chosen)]


def _collisions(tree: Path, chosen: Series) -> list[str]:
    return [name for name in chosen.added_files() if (tree / name).exists()]


def apply(tree: Path, chosen: Series = OWN) -> bool:
    """Apply the series and add the new files. False where the tree had exactly that already; nothing changes then.

    All or nothing: a series that fails leaves the tree untouched. BuildError lists the hunks, or says that the tree
    carries another series.
    """
    _require_tree(tree)
    marker = tree / MARKER
    wanted = chosen.digest()
    if marker.is_file():
        if marker.read_text().strip() == wanted:
            return False
        raise BuildError(
            f"{tree} carries another series ({marker.read_text().strip()[:12]}); start from a pristine tree"
        )
    with tempfile.TemporaryDirectory(prefix="lagom-patch-") as scratch:
        failures = _try_series(tree, Path(scratch), chosen)
        failures += [f"{name}: a new file of the series, but the tree has one" for name in _collisions(tree, chosen)]
        if failures:
            raise BuildError(f"the series does not apply to {tree}:\n  " + "\n  ".join(failures))
        for name in trees.files(Path(scratch)):
            path = Path(scratch) / name
            trees.write_if_changed(tree / name, path.read_bytes(), path.stat().st_mode & 0o777)
    for name, path in chosen.added_files().items():
        trees.write_if_changed(tree / name, path.read_bytes())
    marker.write_text(wanted + "\n")
    return True


def _require_tree(tree: Path) -> None:
    if not (tree / "makefiles" / "version.mk").is_file() or not (tree / "src").is_dir():
        raise BuildError(f"{tree} is not a NCCL tree: it has no makefiles/version.mk or no src/")
