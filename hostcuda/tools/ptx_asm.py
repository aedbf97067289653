# SPDX-License-Identifier: Apache-2.0
"""Turns inline PTX statements into calls of the shim's compile-time dispatcher.

``asm volatile("text" : "=r"(a) : "l"(b) : "memory")`` becomes ``::hostcuda::shim::ptx<"text">(a, b)``. The text may be
glued together from literals and macro arguments, inside macro bodies as well, because nothing but tokens moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ASM = re.compile(r"\basm\b(\s+volatile\b)?\s*\(")
_BLANK = " \t\n\\"  # lines of a macro end in a backslash
_CONSTRAINT = re.compile(r'^[\s"#\w=+&]*?(?=\()', re.DOTALL)


class AsmError(ValueError):
    """An asm statement that cannot be taken apart; the text says which."""


def rewrite_asm(text: str) -> tuple[str, int]:
    """Rewrites every asm statement of ``text``; returns the new text and how many there were."""
    out: list[str] = []
    end = count = 0
    for match in _ASM.finditer(text):
        if match.start() < end or _in_comment(text, match.start()):
            continue
        close = _closing(text, match.end() - 1)
        out.append(text[end : match.start()])
        out.append(_call(text[match.end() : close], text.count("\n", 0, match.start()) + 1))
        end = close + 1
        count += 1
    out.append(text[end:])
    return "".join(out), count


def _in_comment(text: str, position: int) -> bool:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return "//" in line


def _scan(text: str, start: int) -> Iterator[tuple[int, str, int]]:
    """Characters outside of string literals with their depth of parentheses, from ``start`` on."""
    depth = 0
    i = start
    while i < len(text):
        c = text[i]
        if c == '"':
            i += 1
            while text[i] != '"':
                i += 2 if text[i] == "\\" else 1
        else:
            if c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
            yield i, c, depth
        i += 1


def _closing(text: str, opening: int) -> int:
    for i, c, depth in _scan(text, opening):
        if c == ")" and depth == 0:
            return i
    raise AsmError(f"line {text.count(chr(10), 0, opening) + 1}: asm without closing parenthesis")


def _split(text: str, separator: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for i, c, depth in _scan(text, 0):
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return parts


def _call(body: str, line: int) -> str:
    sections = _split(body, ":")
    if len(sections) > 4:
        raise AsmError(f"line {line}: asm with {len(sections)} sections")
    arguments: list[str] = []
    for section in sections[1:3]:
        for part in _split(section, ","):
            operand = part.strip(_BLANK)
            if not operand:
                continue
            constraint = _CONSTRAINT.match(operand)
            if constraint is None or not operand.endswith(")"):
                raise AsmError(f"line {line}: asm operand {operand!r}")
            arguments.append(operand[constraint.end() :])
    return f"::hostcuda::shim::ptx<{sections[0].strip(_BLANK)}>({', '.join(arguments)})"
