# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of collectives that print what nccl-tests 2.19.6 prints, and check their results."""
