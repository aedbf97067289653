# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""The rewriter: inline PTX in every shape that NCCL writes it, anchors that must match, and trees that do not fit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "hostcuda" / "tools"
sys.path.append(str(TOOLS))  # the tools import each other by name


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hostcuda_tools_{name}", TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ptx_asm = load("ptx_asm")
anchors = load("anchors")

STATEMENTS = {
    'asm volatile("fence.acq_rel.sys;" ::: "memory");': '::hostcuda::shim::ptx<"fence.acq_rel.sys;">();',
    'asm("mov.u32 %0, %%laneid;" : "=r"(ret));': '::hostcuda::shim::ptx<"mov.u32 %0, %%laneid;">((ret));',
    'asm volatile("ld.b8 %0,[%1];" : "=r"(u4) : "l"(src) : "memory");': '::hostcuda::shim::ptx<"ld.b8 %0,[%1];">((u4), (src));',
    'asm volatile("mad %0;" : "+r"(ab0) : "r"(a&0xff00u), "r"(f(b, 1)));': (
        '::hostcuda::shim::ptx<"mad %0;">((ab0), (a&0xff00u), (f(b, 1)));'
    ),
    # Pieces of text and of constraints that a macro glues together, on lines that end in backslashes.
    'asm volatile("ld." #space "." #ty " %0, [%1];" \\\n  : "="#reg(tmp) \\\n  : #areg(addr) : "memory"); \\': (
        '::hostcuda::shim::ptx<"ld." #space "." #ty " %0, [%1];">((tmp), (addr)); \\'
    ),
    'asm volatile("x %0;" \\\n : "=" RegCode_for_size_##n(v) : "l"(p))': '::hostcuda::shim::ptx<"x %0;">((v), (p))',
    'asm volatile("{ a; }"\n  "b;"\n : "=r"(c ? d : e) :: "memory")': '::hostcuda::shim::ptx<"{ a; }"\n  "b;">((c ? d : e))',
    '//asm volatile("old %0;" :: "r"(x));': '//asm volatile("old %0;" :: "r"(x));',
    "int asmx(int y) { return y; }": "int asmx(int y) { return y; }",
    'asm volatile("st [%0], %1;" :: "l"(&dst->i4), "r"((uint32_t)(val >> 32)) : "memory")': (
        '::hostcuda::shim::ptx<"st [%0], %1;">((&dst->i4), ((uint32_t)(val >> 32)))'
    ),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_asm(text: str) -> None:
    assert ptx_asm.rewrite_asm(text)[0] == STATEMENTS[text]


def test_asm_operand_that_is_none() -> None:
    with pytest.raises(ptx_asm.AsmError, match="line 2: asm operand '\"r\"'"):
        ptx_asm.rewrite_asm('x;\nasm("a" :: "r");')


def write_tree(root: Path) -> Path:
    """A tree in which every anchor occurs as often as it should and nothing else is there."""
    for name, edits in anchors.EDITS.items():
        # Edits of one file apply in order, so an anchor may be what an earlier edit leaves; those come last.
        text = ""
        for edit in edits:
            so_far = text
            for earlier in edits[: edits.index(edit)]:
                so_far = so_far.replace(earlier.old, earlier.new)
            text += f"{edit.old}\n" * (edit.count - so_far.count(edit.old))
        text += "".join(f"{function.head}int x) {{ {{ }} }}\n" for function in anchors.FUNCTIONS.get(name, ()))
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def rewrite(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "rewrite.py"), str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    source, out = write_tree(tmp_path / "in"), tmp_path / "out"
    (source / "README").write_text("as it is")
    assert rewrite(source, out).returncode == 0
    assert (out / "README").read_text() == "as it is"
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    (source / "README").write_text("different")
    result = rewrite(source, out)
    assert result.stdout.startswith("rewrite.py: 1 files changed")
    assert [path.name for path, stamp in stamps.items() if path.is_file() and path.stat().st_mtime_ns != stamp] == [
        "README"
    ]


@pytest.mark.parametrize("name", anchors.EDITS)
@pytest.mark.parametrize("change", ["missing", "twice"])
def test_anchor_that_does_not_match(tmp_path: Path, name: str, change: str) -> None:
    source = write_tree(tmp_path / "in")
    edit = anchors.EDITS[name][0]
    path = source / name
    text = path.read_text()
    path.write_text(text.replace(edit.old, "", 1) if change == "missing" else text + edit.old)
    result = rewrite(source, tmp_path / "out")
    found = edit.count + (-1 if change == "missing" else 1)
    assert result.returncode == 1
    assert result.stderr == f"rewrite.py: {name}: anchor {edit.name!r} found {found} times, expected {edit.count}\n"
    assert not (tmp_path / "out").exists()


def test_not_a_nccl_tree(tmp_path: Path) -> None:
    result = rewrite(tmp_path, tmp_path / "out")
    assert result.returncode == 1 and "is this a NCCL source tree?" in result.stderr


@pytest.fixture(scope="module")
def nccl_tree() -> Path:
    """A pristine tree that an earlier build has left in the cache."""
    root = os.environ.get("LAGOM_CACHE")
    cache = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lagom"
    for path in sorted(cache.glob("src/*")):
        if (path / "src" / "device" / "common.h").is_file():
            return path
    pytest.skip("no NCCL source in the cache; `lagom build` fetches one")


def test_nccl_is_left_without_inline_ptx(nccl_tree: Path, tmp_path: Path) -> None:
    assert rewrite(nccl_tree, tmp_path).returncode == 0
    for path in (tmp_path / "src" / "device").rglob("*"):
        if path.suffix in {".h", ".cu", ".cuh"}:
            code = [line.split("//")[0] for line in path.read_text().splitlines()]
            assert not any("asm volatile" in line for line in code), path
