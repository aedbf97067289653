# SPDX-License-Identifier: Apache-2.0
"""Faults put into hostcuda, one at a time; the tests beside this folder have to find every one.

Only the changed files are compiled again, the other objects are those of the unchanged library.
"""

import os
import random
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostcuda.runtime.conftest import HOSTCUDA, Run, compile_source, link_runtime

MUTANTS: dict[str, dict[str, Any]] = {
    mutant["name"]: mutant for mutant in tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
}
SAMPLE = 4
TRIES = 5  # some faults show only if the executor gets the CPU while the test waits for what must not happen
LIMIT_S = 20  # the unchanged programs take a second at most; one that hangs has found its mutant

Killed = Callable[[str], str]


def changed(text: str, edit: dict[str, Any]) -> str:
    """The text with the edit; AssertionError where it does not apply exactly as often as it says."""
    old, new = edit["old"], edit["new"]
    assert text.count(old) == edit.get("count", 1), f"{edit['file']}: {text.count(old)} times {old!r}"
    return text.replace(old, new)


def sources(mutant: dict[str, Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for edit in mutant["edit"]:
        file = edit["file"]
        texts[file] = changed(texts.get(file) or (HOSTCUDA / file).read_text(), edit)
    return texts


@pytest.fixture
def killed(libraries: Path, run: Run, tmp_path: Path) -> Killed:
    """Builds a mutant and gives what its test said; AssertionError where the test passes."""

    def kill(name: str) -> str:
        mutant = MUTANTS[name]
        folder = tmp_path / name
        folder.mkdir()
        objects = {path.name: path for path in libraries.glob("*-*.o")}
        for file, text in sources(mutant).items():
            copy = folder / Path(file).name
            copy.write_text(text)
            named = file.replace("/", "-") + ".o"
            assert named in objects, f"{file} is no source of the library"
            objects[named] = compile_source(copy, folder / named)
        link_runtime(sorted(objects.values()), folder / "libcudart.so.13")
        for name_of_other in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(libraries / name_of_other, folder)
        (folder / "share").symlink_to(libraries / "share")
        program, case = mutant["found_by"].split()
        env = {"LD_LIBRARY_PATH": str(folder)}
        for _ in range(TRIES):
            try:
                done = run(program, case, env=env, check=False, timeout_s=LIMIT_S)
            except subprocess.TimeoutExpired:
                return "does not end"
            assert done.returncode != 2, f"{program} has no case {case}"
            if done.returncode != 0:
                return (done.stdout + done.stderr).strip() or f"ends with {done.returncode}"
        raise AssertionError(f"{name} lives: {mutant['breaks']}, and {mutant['found_by']} passes")

    return kill


def test_every_mutant_applies() -> None:
    """Also to a tree that has changed since; this is cheap, so all of them are tried."""
    files = [edit["file"] for mutant in MUTANTS.values() for edit in mutant["edit"]]
    assert len(MUTANTS) >= 70 and len(set(files)) >= 12
    for name, mutant in MUTANTS.items():
        for file, text in sources(mutant).items():
            assert text != (HOSTCUDA / file).read_text(), name


def test_a_library_without_a_fault_passes(libraries: Path, run: Run, tmp_path: Path) -> None:
    """What the mutants are linked from and found by is sound: built the same way without an edit, the tests pass."""
    copy = tmp_path / "capture.cc"
    copy.write_text((HOSTCUDA / "runtime" / "capture.cc").read_text())
    objects = {path.name: path for path in libraries.glob("*-*.o")}
    objects["runtime-capture.cc.o"] = compile_source(copy, tmp_path / "capture.o")
    link_runtime(sorted(objects.values()), tmp_path / "libcudart.so.13")
    (tmp_path / "share").symlink_to(libraries / "share")
    for found_by in ("streams wait_event", "capture fork_and_join"):
        run(*found_by.split(), env={"LD_LIBRARY_PATH": str(tmp_path)}, timeout_s=LIMIT_S)


def test_a_sample_of_mutants(killed: Killed, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    names = random.Random(seed).sample(sorted(MUTANTS), SAMPLE)
    with capsys.disabled():
        print(f"\nmutants of hostcuda, LAGOM_TEST_SEED={seed}: {', '.join(names)}")
    for name in names:
        assert killed(name), name


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant(killed: Killed, name: str) -> None:
    assert killed(name)
