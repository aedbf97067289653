# SPDX-License-Identifier: Apache-2.0
"""Dimensions of models, from their published configurations, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParallelBlockModel:
    """A decoder whose layer runs attention and feed-forward beside each other on one layer norm (GPT-J style).

    :param hidden: width of the residual stream. :param ffn: width inside the feed-forward.
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights and biases of one layer.

        Four attention projections h x h, the feed-forward's h x f and f x h, each with its bias, and a layer norm:
        4 (h^2 + h) + (h f + f) + (f h + h) + 2 h.
        """
        h, f = self.hidden, self.ffn
        return 4 * (h * h + h) + (h * f + f) + (f * h + h) + 2 * h


#: microsoft/phi-2, config.json: 32 layers, hidden 2560, intermediate 10240, 32 heads; every projection has a bias.
PHI2 = ParallelBlockModel("phi2", layers=32, hidden=2560, ffn=10240, heads=32)
