# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""Every PTX form that NCCL's device code uses means on the CPU what it means on a GPU; an unknown one does not compile.

Most statements are loads and stores, whose checks are written by rule; the others have their own C++.
"""

import itertools
import re
from pathlib import Path

import pytest
from hostcuda.simt.test_rewrite import ptx_asm

from lagom.build import fetch

LETTER = {8: "r", 16: "h", 32: "r", 64: "l"}
REGISTER = {8: "std::uint32_t", 16: "std::uint16_t", 32: "std::uint32_t", 64: "std::uint64_t"}


def scalar_load(text: str, bits: int) -> str:
    wide = max(bits, 16)
    return f"""
        {REGISTER[bits]} v = {REGISTER[bits]}(-1);
        ptx<"{text}">(v, {{address}});
        CHECK(v == (pattern(3) & (~0ull >> (64 - {bits}))) && sizeof v * 8 >= {wide});
    """


def scalar_store(text: str, bits: int) -> str:
    return f"""
        {REGISTER[bits]} v = {REGISTER[bits]}(pattern(5));
        ptx<"{text}">({{address}}, v);
        std::uint64_t expected = pattern(3);
        std::memcpy(&expected, &v, {bits // 8});
        CHECK(at(3) == expected);
    """


def load_pair(text: str) -> str:
    return f'std::uint64_t a, b; ptx<"{text}">(a, b, {{address}}); CHECK(a == pattern(2) && b == pattern(3));'


def store_pair(text: str, address_first: bool = True) -> str:
    arguments = "{address}, pattern(7), pattern(8)" if address_first else "pattern(7), pattern(8), {address}"
    return f'ptx<"{text}">({arguments}); CHECK(at(2) == pattern(7) && at(3) == pattern(8) && at(4) == pattern(4));'


FORMS: dict[str, str] = {}


def add(text: str, check: str, address: str) -> None:
    FORMS[text] = check.replace("{address}", address).replace("{{", "{").replace("}}", "}")


# A scalar goes to word 3 of memory, a pair to words 2 and 3. Shared addresses have 32 bits, or 64 in a pointer.
for space, bits in itertools.product(
    ("global", "shared", "volatile.global", "volatile.shared", "relaxed.gpu.global"), (8, 16, 32, 64)
):
    place = "std::uint32_t(shared(3))" if "shared" in space else "global(3)"
    add(f"ld.{space}.b{bits} %0, [%1];", scalar_load(f"ld.{space}.b{bits} %0, [%1];", bits), place)
    if space != "volatile.shared":
        add(f"st.{space}.b{bits} [%0], %1;", scalar_store(f"st.{space}.b{bits} [%0], %1;", bits), place)
for text in ("ld.volatile.global.b8 %0,[%1];", "ld.shared.b32 %0,[%1];", "ld.shared.b64 %0,[%1];"):
    size = int(text.split(".b")[1].split()[0])
    add(text, scalar_load(text, size), "(const void*)" + ("shared(3)" if "shared" in text else "global(3)"))
for qualifier in ("volatile.global", "relaxed.sys.global", "relaxed.gpu.global", "acquire.sys.global", "relaxed.gpu"):
    add(f"ld.{qualifier}.u64 %0, [%1];", scalar_load(f"ld.{qualifier}.u64 %0, [%1];", 64), "global(3)")
add("ld.relaxed.gpu.u64 {%0}, [%1];", scalar_load("ld.relaxed.gpu.u64 {%0}, [%1];", 64), "global(3)")
add("ld.volatile.global.u32 %0, [%1];", scalar_load("ld.volatile.global.u32 %0, [%1];", 32), "(int*)global(3)")
add("ld.volatile.global.u64 {%0}, [%1];", scalar_load("ld.volatile.global.u64 {%0}, [%1];", 64), "global(3)")
for qualifier in ("volatile.global", "relaxed.sys.global", "release.sys.global"):
    add(f"st.{qualifier}.u64 [%0], %1;", scalar_store(f"st.{qualifier}.u64 [%0], %1;", 64), "global(3)")
for space in ("global", "shared", "volatile.global", "volatile.shared", "relaxed.gpu.global"):
    place = "std::uint32_t(shared(2))" if "shared" in space else "global(2)"
    add(f"ld.{space}.v2.b64 {{%0,%1}}, [%2];", load_pair(f"ld.{space}.v2.b64 {{%0,%1}}, [%2];"), place)
    if "volatile" not in space:
        add(f"st.{space}.v2.b64 [%0], {{%1,%2}};", store_pair(f"st.{space}.v2.b64 [%0], {{%1,%2}};"), place)
add("ld.v2.u64 {%0,%1},[%2];", load_pair("ld.v2.u64 {%0,%1},[%2];"), "(const char*)global(2)")
for space in ("global", "shared"):
    place = f"(std::uint64_t*){space}(2)"
    add(
        f"ld.volatile.{space}.v2.u64 {{%0,%1}}, [%2];", load_pair(f"ld.volatile.{space}.v2.u64 {{%0,%1}}, [%2];"), place
    )
    text = f"st.volatile.{space}.v2.u64 [%2], {{%0,%1}};"
    add(text, store_pair(text, address_first=False), place)
add("st.shared.v2.u64 [%0],{%1,%2};", store_pair("st.shared.v2.u64 [%0],{%1,%2};"), "std::uint32_t(shared(2))")

for text in (
    "ld.volatile.v4.u32 {%0,%1,%2,%3},[%4];",
    "ld.relaxed.sys.v4.u32 {%0,%1,%2,%3},[%4];",
    "ld.acquire.sys.v4.u32 {%0,%1,%2,%3},[%4];",
):
    FORMS[text] = f"""
        std::uint32_t a, b, c, d;
        ptx<"{text}">(a, b, c, d, global(2));
        CHECK((std::uint64_t(b) << 32 | a) == pattern(2) && (std::uint64_t(d) << 32 | c) == pattern(3));
    """
for text in ("st.relaxed.sys.v4.u32 [%0],{%1,%3,%2,%3};", "st.volatile.v4.u32 [%0],{%1,%3,%2,%3};"):
    FORMS[text] = f"""
        ptx<"{text}">(global(2), 1u, 3u, 9u);
        CHECK(at(2) == 0x900000001 && at(3) == 0x900000003);
    """
for text in ("barrier.sync.aligned", "barrier.sync"):
    FORMS[f"{text} %0;"] = f'static int n = 0; n++; ptx<"{text} %0;">(2); CHECK(n == 96);'
    FORMS[f"{text} %0, %1;"] = (
        f'static int n = 0; if (tid() < 64) {{ n++; ptx<"{text} %0, %1;">(2, 64); CHECK(n == 64); }}'
    )

FORMS |= {
    "ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];": """
        std::uint32_t a, b, c, d;
        ptx<"ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];">(a, b, c, d, global(2));
        CHECK((std::uint64_t(b) << 32 | a) == pattern(2) && (std::uint64_t(d) << 32 | c) == pattern(3));
    """,
    "st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};": """
        ptx<"st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};">(global(2), 1u, 2u, 3u, 4u);
        CHECK(at(2) == 0x200000001 && at(3) == 0x400000003);
    """,
    "barrier.red.or.pred": """
        int any = 5;
        constexpr int name = 3;
        for (int vote : {0, 1}) {
          ptx<"{ .reg .pred p;" "  setp.ne.s32 p, %1, 0;" "  barrier.red.or.pred p, %2, p; " "  selp.s32 %0, 1, 0, p; }">(
              any, (int)(vote && tid() == 70), name);
          CHECK(any == vote);
        }
    """,
    "barrier.red.or.pred with threads": """
        if (tid() >= 64) return;
        int any = 5;
        for (int vote : {0, 1}) {
          ptx<"{ .reg .pred p;" "  setp.ne.s32 p, %1, 0;" "  barrier.red.or.pred p, %2, %3, p; " "  selp.s32 %0, 1, 0, p; }">(
              any, (int)(vote && tid() == 7), 3, 64);
          CHECK(any == vote);
        }
    """,
    "fence.acq_rel.sys;": 'auto t = self().vt_ps; ptx<"fence.acq_rel.sys;">(); CHECK(self().vt_ps == t + 700);',
    "fence.acq_rel.gpu;": 'auto t = self().vt_ps; ptx<"fence.acq_rel.gpu;">(); CHECK(self().vt_ps == t);',
    "membar.sys;": 'auto t = self().vt_ps; ptx<"membar.sys;">(); CHECK(self().vt_ps == t + 700);',
    "cvta.to.shared.u64 %0, %1;": """
        std::uint64_t* out; volatile std::uint64_t* in = shared(3);
        ptx<"cvta.to.shared.u64 %0, %1;">(out, in); CHECK(out == in);
    """,
    "cvta.shared.u64 %0, %1;": """
        int* out; ptx<"cvta.shared.u64 %0, %1;">(out, std::uint64_t(std::uint32_t(shared(3)))); CHECK(out == (int*)shared(3));
    """,
    "cvta.global.u64 %0, %1;": """
        int* out; ptx<"cvta.global.u64 %0, %1;">(out, (std::uintptr_t)global(3)); CHECK(out == (int*)global(3));
    """,
    "mov.u64 %0, %%globaltimer;": """
        unsigned long long t; self().vt_ps = 1234567; ptx<"mov.u64 %0, %%globaltimer;">(t);
        CHECK(t == (1ull << 63 | 77ull << 40 | 1234));
    """,
    "mov.u32 %0, %%smid;": 'unsigned sm; ptx<"mov.u32 %0, %%smid;">(sm); CHECK(sm == 41);',
    "mov.u32 %0, %%laneid;": 'unsigned l; ptx<"mov.u32 %0, %%laneid;">(l); CHECK(l == tid() % 32);',
    "mov.u32 %0, %%lanemask_lt;": 'unsigned m; ptx<"mov.u32 %0, %%lanemask_lt;">(m); CHECK(m == (1u << tid() % 32) - 1);',
    "mad.lo.u32 %0, %1, %2, %0;": """
        std::uint32_t x = 5; ptx<"mad.lo.u32 %0, %1, %2, %0;">(x, 0x80000001u, 7u); CHECK(x == 0x80000001u * 7u + 5u);
    """,
    "mul.hi.u32 %0, %1, %2;": """
        std::uint32_t x = 5; ptx<"mul.hi.u32 %0, %1, %2;">(x, 0xff000000u, 0xfe0000u); CHECK(x == 0xfd0200u);
    """,
    "mad.hi.u32 %0, %1, %2, %0;": """
        std::uint32_t x = 5; ptx<"mad.hi.u32 %0, %1, %2, %0;">(x, 0xff000000u, 0xfe0000u); CHECK(x == 0xfd0205u);
    """,
}

# Texts of NCCL's that are not above, and why.
ELSEWHERE = {
    r"multimem\.": "NVLink SHARP, in tests of its own",
    r"red\.relaxed\.": "in kernels for GIN only, which a build for CPUs leaves out: it does not compile",
    r"ld\.volatile\.sys\.global\.u64%0,\[%1\];membar\.gl;|membar\.sys;st\.volatile|membar\.gl;": "before sm_70",
}

UNKNOWN = [
    'unsigned long long t; ptx<"mov.u64 %0, %%clock_hi;">(t);',
    'ptx<"prefetch.global.L2 [%0];">((void*)0);',
    'ptx<"st.global.v4.u32 [%0], {%1,%2,%3,%3};">((void*)0, 1, 2, 3);',
    'int a; ptx<"ld.global.b32 [%1], %0;">(a, (void*)0);',
    'unsigned a; ptx<"mad.wide.u32 %0, %1, %2, %0;">(a, 1u, 2u);',
]

PROLOGUE = """
#include <cstring>
#include "kernels.h"
#include "shim/ptx.h"
#include "shim/warp.h"
#include "windows.h"
using hostcuda::shim::ptx;
using namespace hostcuda::simt;
char* window;
std::uint64_t pattern(int i) { return 0x1122334455667788ull * (2 * i + 1); }
// Each device thread has its own memory; words 0 to 7 are pattern(0) to pattern(7) at first.
std::uint64_t* global(int i) { return reinterpret_cast<std::uint64_t*>(window) + 8 * tid() + i; }
std::uint64_t* shared(int i) { return reinterpret_cast<std::uint64_t*>(self().dynamic_shared) + 8 * tid() + i; }
bool in_shared;
std::uint64_t at(int i) { return in_shared ? *shared(i) : *global(i); }
void fill() { for (int i = 0; i < 8; ++i) *global(i) = *shared(i) = pattern(i); }
"""


@pytest.fixture(scope="module")
def ptx_program(build) -> Path:
    text = [PROLOGUE]
    for number, check in enumerate(FORMS.values()):
        text.append(f"[[maybe_unused]] void form_{number}() {{ {check} }}")
    text.append("int main(int, char** argv) {\n  window = map_windows();\n  int n = std::atoi(argv[1]);")
    text.append('  in_shared = std::strstr(argv[2], "shared") != nullptr;')
    table = ", ".join(f"form_{number}" for number in range(len(FORMS)))
    text.append(
        f"  void (*forms[])() = {{{table}}};\n"
        "  GridSpec grid = spec([&] { fill(); __syncthreads(); forms[n](); }, 1, 96);\n"
        "  grid.dynamic_shared_bytes = 96 * 64;\n  grid.clock.launch_id = 77;\n  grid.clock.fence_ps = 700;\n"
        "  grid.clock.sm_of_cta[0] = 41;\n"
        "  GridResult result = finish(std::move(grid));\n"
        '  if (result.failed) std::printf("%s\\n", result.error.c_str());\n  return result.failed;\n}'
    )
    return build("ptx", "\n".join(text).replace("std::uint32_t(shared(", "std::uint32_t((std::uintptr_t)shared("))


@pytest.mark.parametrize("form", FORMS)
def test_form(ptx_program: Path, run, form: str) -> None:
    run(ptx_program, str(list(FORMS).index(form)), form)


def squeezed(text: str) -> str:
    return re.sub(r'[\s"]', "", text)


def test_every_text_of_nccl_is_here() -> None:
    """Texts that macros glue together are those of FORMS by construction; op128.h says which spaces and sizes."""
    tested = {squeezed(text) for text in FORMS}
    tested |= {squeezed(text) for check in FORMS.values() for text in re.findall(r'ptx<((?:"[^"]*"\s*)+)>', check)}
    source = fetch.pristine() / "src"
    files = [path for top in ("device", "include/nccl_device") for path in (source / top).rglob("*")]
    texts = set()
    for path in files:
        if path.suffix in (".h", ".cu", ".cuh"):
            rewritten, _ = ptx_asm.rewrite_asm(path.read_text())
            texts |= set(re.findall(r"::hostcuda::shim::ptx<(.*?)>\(", rewritten, re.DOTALL))
    assert len(texts) > 60
    texts = {text.replace("PTX_relaxed_gpu", "relaxed.gpu") for text in texts if "#" not in text}
    left = {squeezed(text) for text in texts} - tested
    assert {text for text in left if not any(re.match(why, text) for why in ELSEWHERE)} == set()


@pytest.mark.parametrize("statement", UNKNOWN)
def test_unknown_form_does_not_compile(compile_error, statement: str) -> None:
    errors = compile_error(f'#include "shim/ptx.h"\nusing hostcuda::shim::ptx;\nvoid f() {{ {statement} }}')
    assert "hostcuda: " in errors and "shim/ptx.h does not know" in errors
