# SPDX-License-Identifier: Apache-2.0
"""Plans: rules in a file.

The one parser is C, compiled into libnccl and into the bindings; this package reads files for it, writes them and
asks it questions. The format is in docs/knobs.md.
"""

from lagom.nccl._plan import PlanError

from .plan import Plan, parse_plan, read_plan, write_plan

__all__ = ["Plan", "PlanError", "parse_plan", "read_plan", "write_plan"]
