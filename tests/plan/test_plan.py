# SPDX-License-Identifier: Apache-2.0
"""Plans from Python: the C parser's view, writing, matching."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagom.nccl import COLLECTIVES, Knobs, Rule
from lagom.plan import Plan, PlanError, parse_plan, read_plan, write_plan

FULL_LINE = "allgather,0,1048576,ring,simple,2,-1,4,-1,-1,512,262144,-1"

knobs = st.builds(
    Knobs,
    algorithm=st.sampled_from([None, "ring"]),
    protocol=st.just("simple"),
    channels=st.none() | st.integers(1, 64),
    threads=st.none() | st.integers(2, 17).map(lambda n: 32 * n),
    chunk_bytes=st.none() | st.integers(1, 1024).map(lambda n: 512 * n),
)
rules = st.builds(
    Rule,
    collective=st.sampled_from(COLLECTIVES),
    min_bytes=st.integers(-1, 1 << 30),
    max_bytes=st.integers(1 << 30, 1 << 40) | st.just(-1),
    n_nodes=st.just(-1) | st.integers(1, 8),
    n_ranks=st.just(-1) | st.integers(2, 64),
    knobs=knobs,
)


@given(st.lists(rules, max_size=6), st.lists(st.text("abc #,0", max_size=20), max_size=3))
def test_text_and_back(some: list[Rule], comments: list[str]) -> None:
    plan = Plan(tuple(some), tuple(comments))
    again = parse_plan(plan.text())
    assert again == plan and again.digest == plan.digest
    assert again.comments == tuple(" ".join(c.split(" ")).strip() for c in comments)


def test_every_field_arrives() -> None:
    plan = parse_plan("# from a test\n" + FULL_LINE + "\n")
    assert plan.comments == ("from a test",)
    assert plan.rules == (Rule("all_gather", 0, 1 << 20, n_ranks=4, knobs=Knobs("ring", "simple", 2, 512, 262144)),)
    assert plan.rules[0].line == 2


def test_ten_columns_of_the_stock_tuner_file() -> None:
    plan = parse_plan("allreduce,0,65536,tree,ll,4,1,-1,-1,-1\n")
    assert plan.rules == (Rule("all_reduce", 0, 65536, n_nodes=1, knobs=Knobs("tree", "ll", 4)),)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (FULL_LINE + "\nallgather,0,x,ring,simple,2,-1,-1\n", 2, 13),
        ("allgather,0\n", 1, None),
        ("nosuch,0,1,ring,simple,2,-1,-1\n", 1, 1),
        ("allgather,0,1,ring,simple,200,-1,-1\n", 1, 27),
        ("allgather,0,1,ring,simple,2,-1,-1,1,-1\n", 1, 35),
    ],
)
def test_mistakes_have_a_place(text: str, line: int, column: int | None) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.csv")
    assert caught.value.file == "p.csv" and caught.value.line == line and caught.value.reason
    if column is not None:
        assert caught.value.column == column
    assert str(caught.value).startswith(f"p.csv:{line}:")


def test_first_match_wins_and_bytes_are_inclusive() -> None:
    first = Rule("all_reduce", 0, 100, knobs=Knobs(channels=1))
    second = Rule("all_reduce", 50, 200, n_ranks=4, knobs=Knobs(channels=2))
    plan = Plan((first, second))
    assert plan.match("all_reduce", 100, nodes=1, ranks=4) == first
    assert plan.match("all_reduce", 101, nodes=1, ranks=4) == second
    assert plan.match("all_reduce", 200, nodes=9, ranks=4) == second
    assert plan.match("all_reduce", 201, nodes=1, ranks=4) is None
    assert plan.match("all_reduce", 150, nodes=1, ranks=2) is None
    assert plan.match("reduce", 10, nodes=1, ranks=2) is None


def test_digest_is_of_the_meaning() -> None:
    plain = parse_plan(FULL_LINE)
    assert parse_plan(f"# words\n\n{FULL_LINE}\n").digest == plain.digest
    assert parse_plan(FULL_LINE.replace("512", "480")).digest != plain.digest


def test_writing_is_atomic_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    plan = Plan((Rule("all_gather", knobs=Knobs(channels=3)),), ("one", "two"))
    write_plan(path, plan)
    assert read_plan(path) == plan and read_plan(path).comments == ("one", "two")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o444)
    write_plan(path, Plan())
    assert read_plan(path).rules == ()
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.csv"]
    with pytest.raises(OSError, match="nowhere"):
        write_plan(tmp_path / "nowhere" / "plan.csv", plan)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be opened: No such file") as caught:
        read_plan(tmp_path / "none.csv")
    assert caught.value.line == 0


def test_what_is_no_file_is_refused_as_nccl_refuses_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(PlanError, match="is not a file"):
            read_plan(path)
    with pytest.raises(PlanError, match="zero byte in its name"):
        read_plan(f"{tmp_path}/a\0b")


def test_a_byte_order_mark_is_no_part_of_the_plan(tmp_path: Path) -> None:
    for text in (f"# why\n{FULL_LINE}\n", f"{FULL_LINE}\n"):
        (tmp_path / "plan.csv").write_text(text, encoding="utf-8-sig")
        assert read_plan(tmp_path / "plan.csv") == parse_plan(text)
        assert read_plan(tmp_path / "plan.csv").comments == parse_plan(text).comments
    (tmp_path / "plan.csv").write_text(f"{FULL_LINE},x\n", encoding="utf-8-sig")
    with pytest.raises(PlanError, match="14 fields"):
        read_plan(tmp_path / "plan.csv")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Knobs(algorithm="star"), "unknown algorithm 'star'; one of tree, ring"),
        (lambda: Knobs(protocol="fast"), "unknown protocol 'fast'; one of ll, ll128, simple"),
        (lambda: Knobs(channels=0), "channels is 0"),
        (lambda: Rule("alltoall"), "unknown collective 'alltoall'"),
        (lambda: Rule("all_reduce", knobs=Knobs(channels=65)), "1 to 64"),
        (lambda: Rule("all_reduce", knobs=Knobs(threads=100)), "threads"),
        (lambda: Rule("all_reduce", knobs=Knobs(protocol="simple", chunk_bytes=1000)), "chunk_bytes"),
        (lambda: Rule("all_reduce", 10, 5), "max_bytes"),
    ],
)
def test_what_no_communicator_could_run(make: object, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make()  # type: ignore[operator]
    assert says in str(caught.value)
