# SPDX-License-Identifier: Apache-2.0
"""Reading, writing and asking plans."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lagom.nccl import _plan
from lagom.nccl._plan import PlanError
from lagom.nccl.knobs import Rule


@dataclass(frozen=True)
class Plan:
    """Rules in order, and the comment lines (without '#') that say where they came from."""

    rules: tuple[Rule, ...] = ()
    comments: tuple[str, ...] = field(default=(), compare=False)

    @property
    def digest(self) -> int:
        """A number that plans share when they mean the same; the plan id in the counters' records."""
        return _plan.digest([rule.as_tuple() for rule in self.rules])

    def match(self, collective: str, nbytes: int, *, nodes: int, ranks: int) -> Rule | None:
        """The rule that a call would get, None where none matches. ``nbytes`` as in :class:`lagom.nccl.Rule`."""
        code = Rule(collective).as_tuple()[0]
        index = _plan.match([rule.as_tuple() for rule in self.rules], code, nodes, ranks, nbytes)
        return None if index < 0 else self.rules[index]

    def text(self) -> str:
        """The file's contents: comments, the column names as a comment, then one line a rule."""
        lines = [f"# {line}".rstrip() for comment in self.comments for line in comment.split("\n")]
        header = _plan.header()
        lines.append(header if header.startswith("#") else f"# {header}")
        lines += [_plan.format_rule(rule.as_tuple()) for rule in self.rules]
        return "\n".join(lines) + "\n"


def parse_plan(text: str, file: str = "plan") -> Plan:
    """The plan in ``text``; ``file`` names it in errors. PlanError with line, column and reason where it is wrong."""
    rules, _ = _plan.parse(text.encode("utf-8", "surrogateescape"), file)
    return _plan_of(rules, text)


def _plan_of(rules: list[tuple[int, ...]], text: str) -> Plan:
    header = _plan.header().lstrip("# ")
    comments = (line[1:].strip() for line in text.removeprefix("\ufeff").splitlines() if line.startswith("#"))
    return Plan(tuple(Rule.from_tuple(numbers) for numbers in rules), tuple(c for c in comments if c != header))


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan in a file. PlanError where it is wrong or cannot be read (then with line 0)."""
    name = os.fspath(path)
    rules, _ = _plan.read(name)
    # The rules are NCCL's own reading. Comments mean nothing to it, so they may come from a second look.
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise PlanError(name, 0, 0, f"cannot be read: {error.strerror}") from error
    return _plan_of(rules, data.decode("utf-8", "surrogateescape"))


def write_plan(path: str | os.PathLike[str], plan: Plan) -> None:
    """Write so that readers see the old file or the whole new one, also after a crash. OSError where that fails."""
    target = Path(path)
    text = plan.text()
    parse_plan(text, os.fspath(path))
    descriptor, spare = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as out:
            out.write(text)
            out.flush()
            # mkstemp makes private files; a plan is as readable as any new file of this user.
            os.fchmod(out.fileno(), 0o666 & ~_umask())
            os.fsync(out.fileno())
        os.replace(spare, target)
    except BaseException:
        Path(spare).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
