# SPDX-License-Identifier: Apache-2.0
"""The one exception of this package."""


class BuildError(Exception):
    """Fetching, patching or building failed. The text says what was wrong, where, and what is allowed."""
