# SPDX-License-Identifier: Apache-2.0
"""The series on pristine, patched and damaged trees."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lagom.build import fetch, patch, rooms, trees
from lagom.build.errors import BuildError

SCRIPT = rooms.room("scripts") / "patch"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A private copy of what the series needs of pristine NCCL."""
    trees.copy(fetch.pristine(), tmp_path / "nccl", ("src", "makefiles"))
    return tmp_path / "nccl"


def touched() -> list[str]:
    return sorted({name for path in patch.OWN.patches() for name in patch._touched(path)})


def test_applies_twice_to_the_same_tree(tree: Path) -> None:
    assert patch.apply(tree)
    once = trees.digest(tree)
    assert not patch.apply(tree)
    assert trees.digest(tree) == once


def test_two_trees_become_equal(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "other")
    patch.apply(tree)
    patch.apply(tmp_path / "other")
    assert trees.digest(tree) == trees.digest(tmp_path / "other")


def test_check_on_a_pristine_tree(tree: Path) -> None:
    before = trees.digest(tree)
    done = subprocess.run([SCRIPT, "--check", tree], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "the whole series applies\n")
    assert trees.digest(tree) == before


def test_check_lists_every_failing_hunk(tree: Path) -> None:
    """One file emptied, one gone: each hunk of the first and the second by name, and the tree stays as it is."""
    emptied, gone = touched()[0], touched()[-1]
    assert emptied != gone
    (tree / emptied).write_text("// nothing here\n")
    (tree / gone).unlink()
    before = trees.digest(tree)
    done = subprocess.run([SCRIPT, "--check", tree], capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    hunks = sum(
        part.count("\n@@")
        for path in patch.OWN.patches()
        for part in path.read_text().split("\n--- ")
        if part.splitlines()[1:] and part.splitlines()[1].startswith(f"+++ b/{emptied}")
    )
    assert len([line for line in lines if f"{emptied}: hunk" in line]) == hunks > 0
    assert any(f"{gone}: No such file" in line for line in lines)
    assert trees.digest(tree) == before


def test_a_series_that_fails_changes_nothing(tree: Path) -> None:
    (tree / touched()[0]).write_text("// nothing here\n")
    before = trees.digest(tree)
    with pytest.raises(BuildError, match="does not apply"):
        patch.apply(tree)
    assert trees.digest(tree) == before


def test_another_series_is_named(tree: Path) -> None:
    patch.apply(tree)
    (tree / patch.MARKER).write_text("0123456789abcdef\n")
    with pytest.raises(BuildError, match="another series \\(0123456789ab\\)"):
        patch.apply(tree)


DUMP = Path(__file__).parents[1] / "nccl_dump"


@pytest.mark.parametrize("own", [True, False], ids=["patched", "stock"])
def test_further_patches(tree: Path, own: bool) -> None:
    """The test-only patches apply after Lagom's own and to stock NCCL, and count in the digest."""
    series = patch.Series(own=own, extra=(DUMP,))
    assert patch.apply(tree, series)
    assert not patch.apply(tree, series)
    assert (tree / "src" / "include" / "nccl_dump.h").is_file()
    assert (tree / "src" / "lagom").is_dir() == own
    assert len({chosen.digest() for chosen in (series, patch.Series(own=own), patch.Series(not own, (DUMP,)))}) == 3
    with pytest.raises(BuildError, match="another series"):
        patch.apply(tree)


def test_mutants_apply_last(tree: Path) -> None:
    assert patch.apply(tree, patch.Series(extra=(DUMP, DUMP / "mutants")))
    assert not patch.Series(own=False)


def test_a_folder_without_patches(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="holds no patches: it has no file named series"):
        patch.Series(extra=(tmp_path,))
    (tmp_path / "series").write_text("# none\nmissing.patch\n")
    with pytest.raises(BuildError, match="names missing.patch, which is not there"):
        patch.Series(extra=(tmp_path,)).digest()


def test_not_a_tree(tmp_path: Path) -> None:
    done = subprocess.run([SCRIPT, "--check", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "is not a NCCL tree" in done.stderr
    assert len(done.stderr.splitlines()) == 1
