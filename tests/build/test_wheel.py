# SPDX-License-Identifier: Apache-2.0
"""What is shipped: the wheel in an empty venv away from the checkout, and the sdist."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from lagom.build import trees

CHECKOUT = Path(__file__).resolve().parents[2]
ROOMS = ("nccl_patches", "hostcuda", "scripts")

pytestmark = pytest.mark.timeout(900)


def run(words: list[str], folder: Path, environment: dict[str, str] | None = None, limit_s: int = 300) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `pip wheel .` builds it."""
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), "."], CHECKOUT)
    (made,) = out.glob("lagom-*.whl")
    return made


@pytest.fixture(scope="module")
def away(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """An empty folder, and an environment whose PATH begins with a venv that has nothing but the wheel."""
    folder = tmp_path_factory.mktemp("away")
    venv.create(folder / "venv", with_pip=True)
    run([str(folder / "venv" / "bin" / "pip"), "install", "-q", str(wheel)], folder, limit_s=600)
    (folder / "work").mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{folder / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return folder / "work", environment


def test_the_wheel_carries_every_room(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ROOMS:
        wanted = {f"lagom/_data/{room}/{name}" for name in trees.files(CHECKOUT / room)}
        assert wanted <= names, sorted(wanted - names)[:5]
    assert not [name for name in names if "__pycache__" in name or name.startswith("cython/")]
    modules = {f"lagom/{name}" for name in trees.files(CHECKOUT / "lagom") if name.endswith(".py")}
    assert modules <= names


def test_builds_away_from_the_checkout(away: tuple[Path, dict[str, str]]) -> None:
    folder, environment = away
    where = run(["lagom", "build", "--functions", "AllGather RING *"], folder, environment, limit_s=880)
    library = Path(where.splitlines()[-1])
    assert (library / "libnccl.so.2").is_file()
    assert (library / "share" / "hostcuda" / "machines" / "a40x8.ini").is_file()


def test_benches_away_from_the_checkout(away: tuple[Path, dict[str, str]]) -> None:
    folder, environment = away
    table = run(
        ["mpirun", "-n", "2", "lagom", "bench", "all_gather", "-b", "1K", "-e", "4K", "-f", "4"], folder, environment
    )
    assert "# Out of bounds values : 0 OK" in table


def test_tunes_and_runs_away_from_the_checkout(away: tuple[Path, dict[str, str]]) -> None:
    folder, environment = away
    run(["mpirun", "-n", "2", "lagom", "tune", "phi2-fsdp-a40", "--output", "out"], folder, environment, limit_s=600)
    plan = folder / "out" / "plan.csv"
    assert plan.is_file()
    program = (
        "import lagom.nccl as nccl, numpy\n"
        "comm = nccl.init()\n"
        "send, recv = nccl.empty(1000, 'float32'), nccl.empty(1000 * comm.size, 'float32')\n"
        "send.numpy()[:] = comm.rank\n"
        "comm.all_gather(send, recv)\n"
        "nccl.Stream().synchronize()\n"
        "comm.destroy()\n"
        "print('library', nccl.library().path)\n"
    )
    text = run(
        ["mpirun", "-n", "2", "lagom", "run", "--plan", str(plan), "--", "python", "-c", program], folder, environment
    )
    assert text.count("library") == 2


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="an sdist is made from a git checkout")
def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-c", f"import mesonpy; mesonpy.build_sdist({str(tmp_path)!r})"], CHECKOUT)
    (archive,) = tmp_path.glob("lagom-*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    tracked = run(["git", "ls-files"], CHECKOUT).splitlines()
    assert set(tracked) <= names | {""}
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", ".", archive.name], tmp_path)
    (made,) = tmp_path.glob("lagom-*.whl")
    committed = {
        f"lagom/_data/{name}" if name.split("/")[0] in ROOMS else name
        for name in tracked
        if name.split("/")[0] in ROOMS or (name.startswith("lagom/") and name.endswith(".py"))
    }
    assert committed <= set(zipfile.ZipFile(made).namelist())
