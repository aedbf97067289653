# SPDX-License-Identifier: Apache-2.0
"""Options and rules shared by all tests, and the library that many of them are about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import full_journal
import pytest

if TYPE_CHECKING:
    import lagom.nccl as nccl

_JOURNAL = pytest.StashKey[full_journal.Journal]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run what is marked full: hours instead of minutes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full"):
        config.stash[_JOURNAL] = full_journal.journal(Path(__file__).parent)


def pytest_report_header(config: pytest.Config) -> str | None:
    if _JOURNAL not in config.stash:
        return None
    journal = config.stash[_JOURNAL]
    return f"full sampling: {len(journal.passed)} tests have passed before, listed in {journal.path}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = pytest.mark.skip(reason="part of the full sampling: scripts/test --full")
    done = pytest.mark.skip(reason="passed before in this state of the project")
    for item in items:
        if "full" not in item.keywords:
            continue
        if _JOURNAL not in config.stash:
            item.add_marker(left_out)
        elif item.nodeid in config.stash[_JOURNAL].passed:
            item.add_marker(done)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]  # pluggy's wrapper protocol
    report = yield
    if "full" in item.keywords and _JOURNAL in item.config.stash and report.when == "call" and report.passed:
        item.config.stash[_JOURNAL].add(item.nodeid)
    return report


@pytest.fixture(scope="session")
def hostcuda() -> nccl.Library:
    """The NCCL that runs on CPUs; tests that need it are skipped where it has not been built."""
    import lagom.nccl as nccl

    try:
        library = nccl.library()
    except nccl.LibraryError as error:
        pytest.skip(str(error))
    if not library.hostcuda:
        pytest.skip(f"{library.path} does not run on hostcuda")
    return library


@pytest.fixture(scope="session")
def patched(hostcuda: nccl.Library) -> nccl.Library:
    """The patched NCCL on CPUs."""
    if not hostcuda.patched:
        pytest.skip(f"{hostcuda.path} is not patched")
    return hostcuda
