# SPDX-License-Identifier: Apache-2.0
"""Sizes and options."""

import pytest

from lagom.bench.collectives import COLLECTIVES
from lagom.bench.options import Options
from lagom.bench.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8", 8), ("0", 0), ("64K", 65536), ("64k", 65536), ("16M", 16 << 20), ("1.5m", 3 << 19), ("2G", 2 << 30)],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "x", "8Q", "16MB", "-1", "1e6", "0.3", "K", "1 2"])
def test_sizes_that_do_not_parse(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_steps() -> None:
    assert list(Options("all_reduce", 8, 128, step_factor=4).sizes()) == [8, 32, 128]
    assert list(Options("all_reduce", 8, 30, step_bytes=10).sizes()) == [8, 18, 28]
    assert list(Options("all_reduce", 8, 8).sizes()) == [8]
    assert next(Options("all_reduce", 1, 1 << 50, step_bytes=1).sizes()) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"min_bytes": 16, "max_bytes": 8},
        {"iterations": 0},
        {"warmup_iterations": -1},
        {"step_bytes": 0},
        {"min_bytes": 0, "step_factor": 2},
        {"dtype": "complex"},
        {"op": "xor"},
        {"average": 4},
        {"output_file": "out.csv"},
    ],
)
def test_options_that_make_no_sense(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Options("all_reduce", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "nbytes", "itemsize", "counts"),
    [
        ("all_reduce", 65536, 4, (16384, 16384, 16384)),
        ("all_gather", 65536, 4, (8192, 16384, 8192)),
        ("all_gather", 8, 4, (0, 0, 0)),
        ("all_gather", 1000, 2, (248, 496, 248)),
        ("reduce_scatter", 65536, 8, (8192, 4096, 4096)),
        ("broadcast", 7, 4, (1, 1, 1)),
    ],
)
def test_counts_on_two_ranks(name: str, nbytes: int, itemsize: int, counts: tuple[int, int, int]) -> None:
    found = COLLECTIVES[name].counts(nbytes, itemsize, 2)
    assert (found.send, found.recv, found.shown) == counts


def test_bus_factors() -> None:
    factors = {name: collective.bus_factor(4) for name, collective in COLLECTIVES.items()}
    of_all = dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"), 0.75)
    assert factors == {"all_reduce": 1.5, "broadcast": 1, "reduce": 1, "sendrecv": 1, **of_all}
