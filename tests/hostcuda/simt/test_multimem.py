# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""The multimem forms of PTX, on the memory of three members: reductions against NumPy, stores, and what is refused."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

MEMBERS = 3
ROUNDS = 1000  # 16 bytes of each member a round, random bit patterns
TYPES: dict[str, Any] = {
    "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64,
    "f32": np.float32, "f64": np.float64, "f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16,
    "e4m3x4": ml_dtypes.float8_e4m3fn, "e5m2x4": ml_dtypes.float8_e5m2,
}  # fmt: skip
LARGEST = {"e4m3x4": 448.0, "e5m2x4": 57344.0}


def registers(ptx_type: str, vector: int) -> list[str]:
    kind = "std::uint64_t" if "64" in ptx_type else "std::uint32_t"
    return [f"{kind} {name}" for name in "abcd"[:vector]]


def load_form(qualifiers: str, ptx_type: str, vector: int = 1) -> tuple[str, str, int]:
    """The PTX text, its type, how many registers it fills."""
    places = ", ".join(f"%{i}" for i in range(vector))
    to = "%0" if vector == 1 else f"{{{places}}}"
    suffix = "" if vector == 1 else f".v{vector}"
    return f"multimem.ld_reduce.{qualifiers}{suffix}.{ptx_type} {to}, [%{vector}];", ptx_type, vector


# What NCCL's kernels use, then what its device API uses, then the rest of what PTX has for these types.
LOADS = [
    *(load_form("relaxed.sys.global.add", t) for t in ("u32", "s32", "u64", "f32", "f64")),
    *(load_form(f"relaxed.sys.global.{op}", t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")),
    load_form("acquire.sys.global.min", "u64"),
    load_form("relaxed.sys.global.add", "f32", 4),
    *(load_form("relaxed.sys.global.add.acc::f32", t, v) for t in ("f16x2", "bf16x2") for v in (1, 4)),
    *(load_form("relaxed.sys.global.add.acc::f16", t, v) for t in ("e4m3x4", "e5m2x4") for v in (1, 4)),
    *(
        load_form(f"relaxed.sys.global.{op}", t, v)
        for op, t, v in itertools.product(("min", "max"), ("f16x2", "bf16x2", "e4m3x4", "e5m2x4"), (1, 4))
    ),
    *(load_form("global.add", t) for t in ("s32", "u32", "u64", "f32", "f64")),
    load_form("global.add", "f32", 2),
    load_form("global.add.acc::f32", "f16x2"),
    load_form("global.add", "f16x2", 4),
    load_form("global.add", "bf16x2"),
    *(load_form(f"global.{op}", t) for op in ("and", "or", "xor") for t in ("b32", "b64")),
]
STORES = [
    ("multimem.st.global.b32 [%0], %1;", "0x11223344u", "44332211"),
    ("multimem.st.global.b64 [%0], %1;", "0x1122334455667788ull", "8877665544332211"),
    ("multimem.st.relaxed.sys.global.u64 [%0], %1;", "0x1122334455667788ull", "8877665544332211"),
    ("multimem.st.global.v4.f32 [%0], {%1,%2,%3,%4};", "1u, 2u, 3u, 4u", "01000000020000000300000004000000"),
    ("st.global.b8 [%0], %1;", "0x77u", "77"),
    ("st.global.b16 [%0], %1;", "std::uint16_t(0x6677)", "7766"),
    ("st.relaxed.sys.global.u64 [%0], %1;", "std::uint64_t(5)", "0500000000000000"),
    ("st.relaxed.sys.v4.u32 [%0],{%1,%3,%2,%3};", "1u, 3u, 9u", "01000000090000000300000009000000"),
]
# On a word of 5, 6 and 7 in the three members.
REDUCTIONS = [
    ("multimem.red.release.sys.add.u32 [%0],1;", "u32", "", (6, 7, 8)),
    ("multimem.red.relaxed.sys.add.u32 [%0],1;", "u32", "", (6, 7, 8)),
    (
        "multimem.red.relaxed.sys.global.add.u64 [%0], %1;",
        "u64",
        ", std::uint64_t(1) << 40",
        tuple((1 << 40) + v for v in (5, 6, 7)),
    ),
    ("multimem.red.relaxed.sys.global.max.s32 [%0], %1;", "u32", ", 6", (6, 6, 7)),
    ("multimem.red.relaxed.sys.global.min.u32 [%0], %1;", "u32", ", 6u", (5, 6, 6)),
    ("multimem.red.relaxed.sys.global.or.b32 [%0], %1;", "u32", ", 2u", (7, 6, 7)),
    ("multimem.red.relaxed.sys.global.xor.b64 [%0], %1;", "u64", ", 7", (2, 1, 0)),
]
UNKNOWN = [
    'unsigned a; ptx<"multimem.ld_reduce.global.inc.u32 %0, [%1];">(a, (void*)0);',
    'float a; ptx<"multimem.ld_reduce.global.min.f32 %0, [%1];">(a, (void*)0);',
    'float a; ptx<"multimem.ld_reduce.global.and.b16 %0, [%1];">(a, (void*)0);',
    'unsigned a; ptx<"multimem.ld_reduce.global.add.b32 %0, [%1];">(a, (void*)0);',
    'unsigned a; ptx<"multimem.ld_reduce.global.add.e4m3x4 %0, [%1];">(a, (void*)0);',
    'ptx<"multimem.st.global.b16 [%0], %1;">((void*)0, 1);',
    'ptx<"multimem.red.global.add.f32 [%0], %1;">((void*)0, 1.f);',
    'ptx<"multimem.cp.async.bulk [%0], %1;">((void*)0, 1);',
]  # fmt: skip

PROLOGUE = r"""
#include <string>
#include <vector>
#include "kernels.h"
#include "shim/ptx.h"
#include "windows.h"
using hostcuda::shim::ptx;
char* window;
char* member(int m) { return window + m * hostcuda::rt::kPageBytes; }
char* multicast() { return member(3); }
template <class... R> void put(char*& out, R... values) { ((std::memcpy(out, &values, sizeof values), out += sizeof values), ...); }
// Words of 4 or 8 bytes, one after the other, until 16 bytes are out.
void show(const char* from, int bytes) { for (int i = 0; i < bytes; ++i) std::printf("%02x", (unsigned char)from[i]); std::puts(""); }
"""


def call(text: str, arguments: str) -> str:
    return f'ptx<"{text}">({arguments});'


@pytest.fixture(scope="module")
def program(build) -> Path:
    text = [PROLOGUE]
    for n, (form, ptx_type, vector) in enumerate(LOADS):
        declared = registers(ptx_type, vector)
        names = ", ".join(word.split()[1] for word in declared)
        text.append(
            f"void load_{n}(const char* from, char* out) {{ char* end = out + 16; for (; out != end;) {{\n"
            f"  {'; '.join(declared)}; {call(form, f'{names}, from')} char* before = out; put(out, {names}); from += out - before; }} }}"
        )
    for n, (form, values, _) in enumerate(STORES):
        text.append(f"void store_{n}(char* to) {{ {call(form, f'to, {values}')} }}")
    for n, (form, _, value, _) in enumerate(REDUCTIONS):
        text.append(f"void reduce_{n}(char* to) {{ {call(form, f'to{value}')} }}")
    for kind, count in (("load", len(LOADS)), ("store", len(STORES)), ("reduce", len(REDUCTIONS))):
        signature = "(const char*, char*)" if kind == "load" else "(char*)"
        table = ", ".join(f"{kind}_{n}" for n in range(count))
        text.append(f"void (*{kind}s[]){signature} = {{{table}}};")
    text.append(r"""
    int main(int, char** argv) {
      window = map_windows();
      std::string kind = argv[1];
      int n = std::atoi(argv[2]);
      GridResult result;
      if (kind == "load") {  // standard input: 16 bytes of each member, again and again; standard output: 16 bytes each
        std::vector<char> out;
        char in[3][16];
        while (std::fread(in, 1, sizeof in, stdin) == sizeof in) {
          for (int m = 0; m < 3; ++m) std::memcpy(member(m) + 64, in[m], 16);
          out.resize(out.size() + 16);
          launch([&] { loads[n](multicast() + 64, &*out.end() - 16); }, 1, 1);
        }
        std::fwrite(out.data(), 1, out.size(), stdout);
      } else if (kind == "store") {
        for (int m = 0; m < 3; ++m) std::memset(member(m), 0xee, 256);
        launch([&] { stores[n](multicast() + 64); }, 1, 1);
        for (int m = 0; m < 3; ++m) show(member(m) + 56, 32);
      } else if (kind == "reduce") {
        for (int m = 0; m < 3; ++m) { std::uint64_t v = 5 + m; std::memcpy(member(m) + 64, &v, 8); }
        launch([&] { reduces[n](multicast() + 64); }, 1, 1);
        for (int m = 0; m < 3; ++m) show(member(m) + 64, 8);
      } else {  // what must end the grid and say why
        result = run([&] { loads[0]((kind == "unbound" ? member(4) : window) + 64, member(0)); }, 1, 1);
        if (kind == "plain") result = run([&] { member(0)[0] = *(volatile char*)multicast(); }, 1, 1);
        std::printf("%d %s\n", result.failed, result.error.c_str());
      }
    }
    """)
    return build("multimem", "\n".join(text))


def expected(form: str, ptx_type: str, data: np.ndarray) -> np.ndarray:
    """`data`: members x elements. Sums in the order of the members, in the format that the form names."""
    total = data[0]
    operation = next(word for word in ("add", "min", "max", "and", "or", "xor") if f".{word}." in form)
    with np.errstate(all="ignore"):
        if operation == "add":
            small = "x" in ptx_type
            wide: Any = data.dtype
            if small:
                wide = np.float32 if "acc::f32" in form else np.float16 if ptx_type[0] == "e" else data.dtype
            total = total.astype(wide)
            for more in data[1:]:
                total = (total + more.astype(wide)).astype(wide)
            if ptx_type in LARGEST:
                total = np.clip(total.astype(np.float32), -LARGEST[ptx_type], LARGEST[ptx_type])
            return total.astype(data.dtype)
        function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.fmin, "max": np.fmax}[
            operation
        ]
        for more in data[1:]:
            total = function(total, more)
        return total


@pytest.mark.parametrize(("number", "form"), list(enumerate(LOADS)), ids=[form[0] for form in LOADS])
def test_load(program: Path, number: int, form: tuple[str, str, int]) -> None:
    text, ptx_type, _ = form
    dtype = np.dtype(TYPES[ptx_type])
    rng = np.random.default_rng(number)
    raw = rng.integers(0, 256, (ROUNDS, MEMBERS, 16), np.uint8)
    if "f32" in ptx_type or "f64" in ptx_type:  # exponents near each other, so that rounding shows
        raw = rng.standard_normal((ROUNDS, MEMBERS, 16 // dtype.itemsize)).astype(dtype).view(np.uint8)
    done = subprocess.run(
        [str(program), "load", str(number)], input=raw.tobytes(), capture_output=True, check=True, timeout=60
    )
    got = np.frombuffer(done.stdout, dtype).reshape(-1)
    data = raw.transpose(1, 0, 2).reshape(MEMBERS, -1).view(dtype)
    wanted = expected(text, ptx_type, data)
    assert got.size == wanted.size == ROUNDS * 16 // dtype.itemsize
    if dtype.kind in "iu":
        assert np.array_equal(got, wanted)
        return
    got_wide, wanted_wide = got.astype(np.float64), wanted.astype(np.float64)
    same = (got_wide == wanted_wide) | (np.isnan(got_wide) & np.isnan(wanted_wide))
    assert same.all(), list(zip(data.T[~same][:3], got[~same][:3], wanted[~same][:3], strict=True))
    assert not np.isnan(wanted_wide).all()


@pytest.mark.parametrize(("number", "form"), list(enumerate(STORES)), ids=[form[0] for form in STORES])
def test_store(program: Path, run, number: int, form: tuple[str, str, str]) -> None:
    """The same bytes at every member, and no byte beside them."""
    wanted = ("ee" * 8 + form[2]).ljust(64, "e")
    assert run(program, "store", str(number)).stdout.split() == [wanted] * MEMBERS


@pytest.mark.parametrize(("number", "form"), list(enumerate(REDUCTIONS)), ids=[form[0] for form in REDUCTIONS])
def test_reduction(program: Path, run, number: int, form: tuple[str, str, str, tuple[int, ...]]) -> None:
    lines = run(program, "reduce", str(number)).stdout.split()
    assert tuple(int.from_bytes(bytes.fromhex(line), "little") for line in lines) == form[3]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("unbound", "members are missing"),
        ("ordinary", "on an address that is no multicast address"),
        ("plain", "illegal memory address"),
    ],
)
def test_wrong_addresses_end_the_grid(program: Path, run, kind: str, why: str) -> None:
    """Nothing bound behind the address; a multimem instruction on ordinary memory; an ordinary load of a multicast address."""
    said = run(program, kind, "0").stdout
    assert said.startswith("1 ") and why in said


def test_unknown_forms_do_not_compile(compile_error) -> None:
    """All in one go: each stands on a line of its own, and each of these lines is named in an error."""
    functions = "\n".join(f"void f{n}() {{ {statement} }}" for n, statement in enumerate(UNKNOWN))
    errors = compile_error(f'#include "shim/ptx.h"\nusing hostcuda::shim::ptx;\n{functions}')
    for line in range(3, 3 + len(UNKNOWN)):
        assert f"<stdin>:{line}:" in errors
    assert errors.count("error: static assertion failed: hostcuda: ") >= len(UNKNOWN)
