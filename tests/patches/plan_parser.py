# SPDX-License-Identifier: Apache-2.0
"""The C plan parser on its own, compiled once a session and driven through ctypes."""

import ctypes
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "nccl_patches"


class Knobs(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("algorithm", ctypes.c_int32),
        ("protocol", ctypes.c_int32),
        ("n_channels", ctypes.c_int32),
        ("n_threads", ctypes.c_int32),
        ("chunk_bytes", ctypes.c_int32),
    )


class Rule(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("collective", ctypes.c_int32),
        ("min_bytes", ctypes.c_int64),
        ("max_bytes", ctypes.c_int64),
        ("n_nodes", ctypes.c_int32),
        ("n_ranks", ctypes.c_int32),
        ("call_index", ctypes.c_int32),
        ("call_period", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("knobs", Knobs),
    )


class Call(ctypes.Structure):
    _fields_ = (
        ("collective", ctypes.c_int32),
        ("n_nodes", ctypes.c_int32),
        ("n_ranks", ctypes.c_int32),
        ("bytes", ctypes.c_uint64),
    )


class CPlan(ctypes.Structure):
    _fields_ = (("rules", ctypes.POINTER(Rule)), ("n_rules", ctypes.c_int), ("digest", ctypes.c_uint64))


class CError(ctypes.Structure):
    _fields_ = (
        ("line", ctypes.c_int),
        ("column", ctypes.c_int),
        ("file", ctypes.c_char * 512),
        ("reason", ctypes.c_char * 512),
    )


class PlanFaultError(Exception):
    """A text that is no plan."""

    def __init__(self, error: CError) -> None:
        self.line, self.column = error.line, error.column
        self.file, self.reason = error.file.decode(), error.reason.decode()
        super().__init__(f"{self.file}:{self.line}:{self.column}: {self.reason}")


def compile_shared(folder: Path) -> Path:
    """Strictly, as C11: what compiles here compiles everywhere."""
    library = folder / "libplan.so"
    subprocess.run(
        ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{SOURCE / 'include'}",
         '-DNCCL_PLAN_API=__attribute__((visibility("default")))', str(SOURCE / "src" / "nccl_plan.c"),
         "-o", str(library)],
        check=True,
    )  # fmt: skip
    return library


class Parser:
    """parse, read, match, format: as nccl_plan.h offers them."""

    def __init__(self, library: Path) -> None:
        self.c = ctypes.CDLL(str(library))
        self.c.ncclPlanDigest.restype = ctypes.c_uint64
        self.c.ncclPlanDigest.argtypes = (ctypes.POINTER(Rule), ctypes.c_int)
        self.c.ncclPlanHeader.restype = ctypes.c_char_p
        self.c.ncclPlanParse.argtypes = (
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.POINTER(CPlan), ctypes.POINTER(CError),
        )  # fmt: skip

    def _rules(self, plan: CPlan) -> list[Rule]:
        copies = [Rule.from_buffer_copy(plan.rules[i]) for i in range(plan.n_rules)]
        self.c.ncclPlanFree(ctypes.byref(plan))
        return copies

    def parse(self, text: str | bytes, file: str = "plan.csv") -> list[Rule]:
        data = text.encode() if isinstance(text, str) else text
        plan, error = CPlan(), CError()
        if self.c.ncclPlanParse(data, len(data), file.encode(), ctypes.byref(plan), ctypes.byref(error)) != 0:
            raise PlanFaultError(error)
        return self._rules(plan)

    def read(self, path: Path) -> list[Rule]:
        plan, error = CPlan(), CError()
        if self.c.ncclPlanRead(str(path).encode(), ctypes.byref(plan), ctypes.byref(error)) != 0:
            raise PlanFaultError(error)
        return self._rules(plan)

    def match(self, rules: list[Rule], call: Call) -> int:
        array = (Rule * len(rules))(*rules)
        return int(self.c.ncclPlanMatch(array, len(rules), ctypes.byref(call)))

    def digest(self, rules: list[Rule]) -> int:
        return int(self.c.ncclPlanDigest((Rule * len(rules))(*rules), len(rules)))

    def format(self, rule: Rule) -> str:
        out = ctypes.create_string_buffer(512)
        length = self.c.ncclPlanFormatRule(ctypes.byref(rule), out, len(out))
        assert length == len(out.value)
        return out.value.decode()
