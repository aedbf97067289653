# SPDX-License-Identifier: Apache-2.0
"""Workloads: sizes from dimensions, YAML there and back, and errors that say where."""

from __future__ import annotations

import configparser
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagom.build.functions import functions as nccl_functions
from lagom.workload import (
    PRESETS,
    Communication,
    Computation,
    KernelSpec,
    Workload,
    WorkloadError,
    device_functions,
    load,
    preset,
    read_workload,
    write_workload,
)
from lagom.workload.gpus import A40, GPUS, MACHINES
from lagom.workload.kernels import gemm
from lagom.workload.models import PHI2

ROOT = Path(__file__).parents[2]
KERNEL = KernelSpec(1e9, 1e6, 1e6, 84, 256, 128, 65536)


def test_phi2_layer_has_the_published_parameters() -> None:
    # 32 layers, the embedding and head of 51,200 x 2,560 (the head with bias) and a last norm make 2.78 billion.
    assert PHI2.layer_parameters == 78_671_360
    whole = 32 * PHI2.layer_parameters + 2 * 51_200 * 2560 + 51_200 + 2 * 2560
    assert whole == 2_779_683_840


def test_phi2_group() -> None:
    workload = preset("phi2-fsdp-a40")
    (gather,) = workload.communications
    assert gather.total_bytes(4) == 157_342_720 and gather.shard_count(4) == 19_667_840
    assert workload.operations[0] is gather
    flops = sum(c.kernel.flops for c in workload.computations if "proj" in c.name or "ffn" in c.name)
    # Two flops a weight and token; biases and the norm are no GEMM.
    assert flops == 2 * 4096 * (4 * 2560**2 + 2 * 2560 * 10240)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_shards_are_padded_as_fsdp_pads(ranks: int) -> None:
    gather = Communication("g", "all_gather", "bfloat16", 1_000_003)
    assert gather.padded_count(ranks) % ranks == 0
    assert 0 <= gather.padded_count(ranks) - 1_000_003 < ranks
    assert gather.shard_count(ranks) * ranks == gather.padded_count(ranks)
    assert Communication("r", "all_reduce", "float32", 1_000_003, op="sum").total_bytes(ranks) == 4_000_012


def test_gemm_by_hand() -> None:
    spec = gemm(4096, 10240, 2560, "bfloat16", A40)
    assert spec.ctas == 32 * 80
    assert spec.shared_bytes_per_cta == 65536
    # 84 CTAs at once: 10 x 9 tiles; 2560 CTAs are 30.476 patches of (10 + 9) * 128 * 2560 * 2 bytes.
    assert spec.bytes_read == round(2560 / 84 * 19 * 128 * 2560 * 2)
    assert spec.bytes_written == 4096 * 10240 * 2


def test_small_gemm_reads_each_operand_once() -> None:
    spec = gemm(128, 128, 64, "float16", A40)
    assert spec.ctas == 1 and spec.bytes_read == 2 * 128 * 64 * 2


@given(m=st.integers(1, 9000), n=st.integers(1, 9000), k=st.integers(1, 9000))
def test_gemm_traffic_is_between_once_and_never_reused(m: int, n: int, k: int) -> None:
    spec = gemm(m, n, k, "bfloat16", A40)
    once = (m * k + k * n) * 2
    never = spec.ctas * (128 + 128) * k * 2
    assert once <= spec.bytes_read <= max(once, never)


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_gpu_figures_agree_with_hostcuda(machine: str) -> None:
    description = ROOT / "hostcuda" / "gpus" / f"{MACHINES[machine].name}.ini"
    parser = configparser.ConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(description.read_text())
    figures = {key: value for section in parser.sections() for key, value in parser[section].items()}
    assert int(figures["sms"]) == MACHINES[machine].sms
    assert set(GPUS) == {gpu.name for gpu in MACHINES.values()}


# -- what a plan can tell apart --


def test_equal_calls_are_one_class() -> None:
    make = [Communication(f"c{i}", "all_gather", "bfloat16", n) for i, n in enumerate((64, 32, 64))]
    # Rules match bytes and not dtype.
    make.append(Communication("c3", "all_gather", "float32", 32))
    assert Workload("w", tuple(make)).call_classes(4) == ((0, 2, 3), (1,))


def test_digest_ignores_where_it_came_from() -> None:
    workload = preset("phi2-fsdp-a40")
    assert replace(workload, source="elsewhere").digest() == workload.digest()
    assert replace(workload, machine="a100x8").digest() != workload.digest()


# -- YAML --


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_survive_yaml(name: str, tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    write_workload(path, preset(name))
    assert read_workload(path) == preset(name)
    assert load(str(path)).digest() == preset(name).digest()
    assert [p.name for p in tmp_path.iterdir()] == ["w.yaml"]


def test_every_field_survives_yaml(tmp_path: Path) -> None:
    operations = (
        Communication("r", "reduce", "float32", 7, stream="c2", op="max", root=3),
        Computation("k", replace(KERNEL, flops=0.5), stream="s", after=("r",)),
        Communication("a", "all_reduce", "int64", 9, op="avg", after=("r", "k")),
    )
    workload = Workload("näme: with, marks #", operations, machine="h100x8", description="two\nlines")
    path = tmp_path / "w.yaml"
    write_workload(path, workload)
    assert read_workload(path) == workload


GOOD = """\
format: lagom-workload/1
name: mine
machine: a40x8
operations:
  - communicate: gather
    collective: all_gather
    dtype: bfloat16
    count: 78_671_360
  - compute: up
    gemm: {m: 4096, n: 10240, k: 2560, dtype: bfloat16}
  - compute: custom
    after: gather
    kernel: {flops: 2.5e9, bytes_read: 1e6, bytes_written: 1e6, ctas: 84, threads_per_cta: 256,
             registers_per_thread: 128, shared_bytes_per_cta: 65536}
"""


def parse(tmp_path: Path, text: str) -> Workload:
    """Read `text` as a file."""
    path = tmp_path / "w.yaml"
    path.write_text(text)
    return read_workload(path)


def test_reads_shorthand(tmp_path: Path) -> None:
    workload = parse(tmp_path, GOOD)
    assert workload.computations[0].kernel == gemm(4096, 10240, 2560, "bfloat16", A40)
    assert workload.computations[1].after == ("gather",) and workload.computations[1].kernel.flops == 2.5e9


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("format: lagom-workload/1", "format: other/9", 1, "this version reads 'lagom-workload/1'"),
        ("name: mine\n", "", 1, "lacks the key 'name'"),
        ("machine: a40x8", "machine: tpu", 3, "known: a40x8"),
        ("collective: all_gather", "collective: allgather", 5, "unknown collective 'allgather'"),
        ("dtype: bfloat16\n", "dtype: bf16\n", 5, "unknown dtype 'bf16'"),
        ("count: 78_671_360", "count: many", 8, "not a whole number"),
        ("count: 78_671_360", "count: 0", 5, "count is 0, allowed is at least 1"),
        ("count: 78_671_360", "count: [1]", 8, "must be a whole number"),
        ("count:", "cuont:", 8, "unknown key 'cuont'"),
        ("    dtype: bfloat16\n", "    dtype: bfloat16\n    dtype: float16\n", 8, "appears twice"),
        ("m: 4096", "m: 0", 9, "m is 0"),
        ("compute: custom", "compute: up", 5, "two operations are named 'up'"),
        ("after: gather", "after: later", 5, "'later', which is not an earlier operation"),
        ("ctas: 84, threads_per_cta: 256", "ctas: 84, threads_per_cta: 2048", 11, "allowed is 1 to 1024"),
        ("flops: 2.5e9", "flops: .nan", 13, "not a number"),
        ("flops: 2.5e9", "flops: nan", 11, "flops is nan"),
        ("compute: up", "computes: up", 9, "either the key 'compute' or the key 'communicate'"),
        ("    after: gather\n", "    layer_norm: {rows: 1, hidden: 1, dtype: float16}\n", 11, "exactly one of"),
        ("    count: 78_671_360\n", "    count: 8\n    op: sum\n", 5, "does not reduce"),
        ("    count: 78_671_360\n", "    count: 8\n    stream: compute\n", 5, "its own stream"),
        ("name: mine", "name: [", 4, "not YAML"),
    ],
)
def test_errors_say_where_and_what(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in GOOD
    with pytest.raises(WorkloadError) as error:
        parse(tmp_path, GOOD.replace(old, new, 1))
    text = str(error.value)
    assert says in text
    assert re.match(rf"{re.escape(str(tmp_path / 'w.yaml'))}:{line}:\d+: ", text), text
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n", "operations: 3\n", "\t\n", "a: b: c\n", "? [x]\n: y\n"])
def test_other_files_are_no_workload(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkloadError, match=r"w\.yaml"):
        parse(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot read: No such file"):
        read_workload(tmp_path / "none.yaml")
    with pytest.raises(WorkloadError, match="cannot read"):
        read_workload(tmp_path)
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        read_workload(tmp_path / "bin.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    for endless in (tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(WorkloadError, match="not a file"):
            read_workload(endless)
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 5000)
    with pytest.raises(WorkloadError, match="nested too deeply"):
        read_workload(tmp_path / "deep.yaml")
    with pytest.raises(WorkloadError, match=r"unknown workload 'phi3'.*phi2-fsdp-a40"):
        load("phi3")


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("old")
    broken = replace(preset("phi2-fsdp-a40"), name=object())  # type: ignore[arg-type]
    with pytest.raises(Exception, match="cannot represent"):
        write_workload(path, broken)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ranks", [0, 1])
def test_one_rank_has_nobody_to_talk_to(ranks: int) -> None:
    with pytest.raises(WorkloadError, match="at least 2 ranks"):
        preset("phi2-fsdp-a40").check_ranks(ranks)


def test_root_must_exist() -> None:
    workload = Workload("w", (Communication("b", "broadcast", "int8", 4, root=5),))
    workload.check_ranks(6)
    with pytest.raises(WorkloadError, match="0 to 3"):
        workload.check_ranks(4)


# -- functions --


def _covered(pattern: str) -> set[str]:
    # As NCCL's generate.py reads it.
    expression = re.compile(pattern.replace("*", "[^ ]*") + "$", re.IGNORECASE)
    return {name for name in nccl_functions() if expression.match(name)}


def test_functions_of_phi2() -> None:
    assert _covered(device_functions(preset("phi2-fsdp-a40"))) == {
        "AllGather RING LL",
        "AllGather RING LL128",
        "AllGather RING SIMPLE",
    }


def test_functions_of_reductions() -> None:
    operations = (
        Communication("a", "all_reduce", "bfloat16", 4, op="sum"),
        Communication("b", "reduce_scatter", "int32", 4, op="max"),
        Communication("c", "all_reduce", "float32", 4, op="avg"),
        Communication("d", "reduce", "int8", 4, op="avg"),
    )
    covered = _covered(device_functions(Workload("w", operations)))
    assert {
        "AllReduce Sum bf16 TREE LL128",
        "AllReduce Sum bf16 RING SIMPLE",
        "ReduceScatter MinMax i32 RING LL",
        "AllReduce PreMulSum f32 TREE SIMPLE",
        "Reduce SumPostDiv i8 RING LL",
    } <= covered
    assert not any("NVLS" in name or "COLLNET" in name for name in covered)
