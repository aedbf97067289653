# SPDX-License-Identifier: Apache-2.0
"""Patterns of device functions: what they choose, what they refuse, and that NCCL's own generator agrees."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lagom.build import fetch, functions
from lagom.build.errors import BuildError


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("SendRecv", 1),
        ("AllGather RING *", 3),
        ("AllGather RING SIMPLE|Broadcast RING LL", 2),
        ("allreduce sum F32 ring simple", 1),
        ("AllReduce Sum (f32|bf16) (RING|TREE) *", 12),
        ("AllReduce SumPostDiv * RING LL", 6),  # integers only
        ("AllGather PAT *", 1),  # Simple only
        ("AllReduce  Sum   f32 RING  LL", 1),
        ("Symmetric", 11),
        ("Symmetric AllGather", 1),
        ("symmetric allreduce sum *", 5),
        ("Symmetric (AllReduce|ReduceScatter) Sum bf16|Symmetric AllGather|SendRecv", 4),
    ],
)
def test_chooses(pattern: str, count: int) -> None:
    assert len(functions.select(pattern)) == count


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("AllGather Sum f32 RING SIMPLE", "the form is 'AllGather <algo> <proto>'"),
        ("AllReduce RING SIMPLE", "the form is 'AllReduce <redop> <type> <algo> <proto>'"),
        ("AllGather TREE SIMPLE", "algo of RING, COLLNET_DIRECT, NVLS, PAT"),
        ("Gather RING LL", "collectives are AllGather"),
        ("SendRecv RING", "stands alone"),
        ("AllGather RING SIMPLE|", "functions pattern 'AllGather RING SIMPLE|': an alternative is empty"),
        ("", "an alternative is empty"),
        ("AllReduce Sum (f32 RING LL", "unbalanced"),
        ("AllReduce Sum f32) RING LL", "unbalanced"),
        ("AllReduce Sum f[32] RING LL", "only words"),
        ("Symmetric Broadcast", "the forms are 'Symmetric', 'Symmetric AllGather' and 'Symmetric <AllReduce"),
        (
            "Symmetric AllReduce Prod f32",
            "'Symmetric <AllReduce|ReduceScatter> Sum <type>' with type of f32, f16, bf16",
        ),
    ],
)
def test_refuses(pattern: str, reason: str) -> None:
    with pytest.raises(BuildError, match=re.escape(reason)):
        functions.select(pattern)


def test_default_leaves_out_what_the_gpu_lacks() -> None:
    for arch, lacks in ((800, (" f8", "NVLS", "COLLNET")), (900, ("COLLNET",)), (1000, ("COLLNET",))):
        left_out = set(functions.functions()) - set(functions.default(arch))
        assert left_out == {name for name in functions.functions() if any(word in name for word in lacks)}
    assert set(functions.symmetric()) <= set(functions.default(900))


def test_the_symmetric_kernels_generated_files_have_names(tmp_path: Path) -> None:
    """Every file that NCCL's generator makes of them belongs to a name, and every name to a file."""
    generator = fetch.pristine() / "src" / "device" / "symmetric" / "generate.py"
    subprocess.run([sys.executable, generator, tmp_path / "out"], check=True)
    made = [path for path in (tmp_path / "out").glob("*.cu") if "__global__" in path.read_text()]
    assert {functions.symmetric_name(path.name) for path in made} == set(functions.symmetric())
    for path in made:
        name = functions.symmetric_name(path.name)
        kernels = re.findall(r"__global__ void ncclSymkDevKernel_(\w+)\(", path.read_text())
        assert name is not None
        collective, *dtype = name.removeprefix("Symmetric ").replace(" Sum", "").split()
        assert all(kernel.startswith(f"{collective}_") for kernel in kernels)
        assert all(kernel.endswith("".join(f"_sum_{t}" for t in dtype)) for kernel in kernels)


def test_symmetric_kernels_are_not_for_the_other_generator() -> None:
    assert functions.only_funcs(functions.symmetric()) == "()"
    assert functions.only_funcs(("SendRecv", *functions.symmetric())) == "(SendRecv)"


@pytest.mark.parametrize("pattern", ["AllGather RING SIMPLE", "AllReduce Sum (f32|bf16) * *|Broadcast RING LL", None])
def test_generator_builds_exactly_these(pattern: str | None, tmp_path: Path) -> None:
    """NCCL's generate.py, given only_funcs(), validates the same rows."""
    chosen = functions.select(pattern) if pattern else functions.functions()
    generator = fetch.pristine() / "src" / "device" / "generate.py"
    subprocess.run([sys.executable, generator, tmp_path / "out", functions.only_funcs(chosen)], check=True)
    table = (tmp_path / "out" / "host_table.cc").read_text()
    rows = re.search(r"ncclDevFuncRowToId\[\] = \{(.*?)-1\};", table, re.DOTALL)
    assert rows
    built = {name for name in re.findall(r"// (.*)", rows[1]) if name != "Nop"}
    assert built == set(chosen)
