# SPDX-License-Identifier: Apache-2.0
"""What two runs launched, read from the files that dump.patch writes, and where they differ."""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Record = dict[str, Any]


class Difference(NamedTuple):
    field: str  # e.g. "launch.works.nWarps"
    where: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field} of {self.where}: {self.before} -> {self.after}"


def read(path: Path) -> dict[tuple[str, int, str], list[Record]]:
    """Launches and proxy operations of one process, each by communicator and rank in the order in which they happened.

    They are apart because a host callback of a captured graph hands proxy operations over in a thread of its own, and
    because the order of several communicators in one group follows from their hashes, which NCCL draws anew in every
    run.
    """
    found: dict[tuple[str, int, str], list[Record]] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        found.setdefault((record.pop("comm"), record.pop("rank"), record.pop("kind")), []).append(record)
    return found


def _compare(field: str, where: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            yield from _compare(f"{field}.{name}", where, before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and before and isinstance(before[0], dict):
        if len(before) != len(after):
            yield Difference(f"{field}.length", where, len(before), len(after))
        for index, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from _compare(field, f"{where}[{index}]", one, other)
    elif before != after:
        yield Difference(field, where, before, after)


def differences(before: Path, after: Path, ignored: Collection[str] = ()) -> list[Difference]:
    """Everything that two runs of one process launched differently, but for the ``ignored`` fields."""
    one, other = read(before), read(after)
    found = []
    for key in sorted(one.keys() | other.keys()):
        comm, rank, kind = key
        records, others = one.get(key, []), other.get(key, [])
        where = f"{after.name}, communicator {comm}, rank {rank}"
        if len(records) != len(others):
            found.append(Difference(f"{kind}.number", where, len(records), len(others)))
        for index, (mine, theirs) in enumerate(zip(records, others, strict=False)):
            found += _compare(kind, f"{where}, {kind} {index}", mine, theirs)
    return [difference for difference in found if difference.field not in ignored]


def contents(paths: Collection[Path]) -> Counter[str]:
    """How often the files hold what: launches by kind of work, proxy operations by pattern."""
    counted: Counter[str] = Counter()
    work_types = ("p2p", "coll", "registered coll", "bcast")
    for path in paths:
        for (*_, kind), records in read(path).items():
            counted[kind] += len(records)
            for record in records:
                if kind == "proxy":
                    counted[f"proxy pattern {record['pattern']}"] += 1
                    continue
                counted["symmetric"] += record["symmetric"]
                counted["fifo"] += record["workStorageType"] == 1
                counted["several works"] += len(record["works"]) > 1
                for work in record["works"]:
                    counted["not uploaded"] += work.get("uploaded") == 0
                    counted[work_types[work["workType"]] if "workType" in work else "symmetric work"] += 1
    return counted
