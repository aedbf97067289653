# SPDX-License-Identifier: Apache-2.0
"""`lagom plan`, `lagom doctor`, and the command line itself."""

import json
from pathlib import Path

from launch import LAGOM, own_lines, run

PLAN = "# why\nallgather,0,65536,ring,simple,2,1,-1,-1,-1,256,8192,-1\nallreduce,-1,-1,tree,ll,-1,-1,4,-1,-1,-1,-1,-1\n"


def test_show(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(PLAN)
    done = run([*LAGOM, "plan", "show", str(tmp_path / "p.csv")])
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and lines[1:] == [
        "# why",
        "line collective bytes nodes ranks algorithm protocol channels threads chunk",
        "2 all_gather 0..65536 1 any ring simple 2 256 8192",
        "3 all_reduce 0.. any 4 tree ll - - -",
    ]
    shown = json.loads(run([*LAGOM, "plan", "show", "--json", str(tmp_path / "p.csv")]).stdout)
    assert shown["comments"] == ["why"] and shown["digest"] in done.stdout
    assert shown["rules"][0]["knobs"] == {
        "algorithm": "ring",
        "protocol": "simple",
        "channels": 2,
        "threads": 256,
        "chunk_bytes": 8192,
    }


def test_check(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text(PLAN)
    bad.write_text(PLAN + "allreduce,5,3,ring,ll,-1,-1,-1\n")
    assert run([*LAGOM, "plan", "check", str(good)]).returncode == 0
    done = run([*LAGOM, "plan", "check", str(bad), str(good)])
    first, second = done.stdout.splitlines()
    assert done.returncode == 6 and first.startswith(f"{bad}:4:") and second.startswith(f"{good}: fine, 2 rules")


def test_doctor_tells_what_is_missing(tmp_path: Path) -> None:
    done = run([*LAGOM, "doctor", "--json"], {"LAGOM_CACHE": str(tmp_path), "LAGOM_NCCL": str(tmp_path / "none.so")})
    facts = json.loads(done.stdout)
    assert done.returncode == 1 and "does not exist" in facts["nccl"] and "devices" not in facts
    assert {"lagom", "python", "machine", "mpi", "compiler", "settings"} <= set(facts)


def test_mistakes_in_the_command_line() -> None:
    for words, says in (
        (["nosuch"], "invalid choice: 'nosuch'"),
        ([], "the following arguments are required: COMMAND"),
        (["plan"], "the following arguments are required: ACTION"),
        (["plan", "show"], "the following arguments are required: file"),
        (["doctor", "--jso"], "unrecognized arguments: --jso"),
    ):
        done = run([*LAGOM, *words])
        lines = own_lines(done)
        assert done.returncode == 6 and len(lines) == 1 and says in lines[0]
    assert run([*LAGOM, "--version"]).stdout.startswith("lagom ")
