# SPDX-License-Identifier: Apache-2.0
"""Fetching, patching and building NCCL. Standard library only, so that it runs before anything is installed."""
