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
        ("AllGather RING SIMPLE|", "only words"),
        ("", "only words"),
        ("AllReduce Sum (f32 RING LL", "unbalanced"),
        ("AllReduce Sum f32) RING LL", "unbalanced"),
        ("AllReduce Sum f[32] RING LL", "only words"),
    ],
)
def test_refuses(pattern: str, reason: str) -> None:
    with pytest.raises(BuildError, match=re.escape(reason)):
        functions.select(pattern)


def test_default_leaves_out_what_the_gpu_lacks() -> None:
    for arch, lacks in ((800, (" f8", "NVLS", "COLLNET")), (900, ("COLLNET",)), (1000, ("COLLNET",))):
        left_out = set(functions.functions()) - set(functions.default(arch))
        assert left_out == {name for name in functions.functions() if any(word in name for word in lacks)}


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
