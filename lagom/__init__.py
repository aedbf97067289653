# SPDX-License-Identifier: Apache-2.0
"""Lagom: exact run-time knobs for NCCL collectives, tuned beside the computation they overlap."""

__version__ = "0.1.0"
