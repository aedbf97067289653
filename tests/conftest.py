# SPDX-License-Identifier: Apache-2.0
"""Options and rules shared by all tests."""

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run what is marked full: hours instead of minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full") or os.environ.get("LAGOM_FULL") == "1":
        return
    skip = pytest.mark.skip(reason="part of the full sampling: scripts/test --full")
    for item in items:
        if "full" in item.keywords:
            item.add_marker(skip)
