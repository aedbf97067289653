# SPDX-License-Identifier: Apache-2.0
"""MPI tests and benchmarks on a cluster, with a stock and the patched NCCL side by side, both preloaded."""
