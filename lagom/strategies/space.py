# SPDX-License-Identifier: Apache-2.0
"""The steps a search may take along each knob."""

from __future__ import annotations

# Chunks are multiples of the protocol's grain, and no larger than its buffers hold: a step of 512 KiB, of which ring
# uses four at once, for Simple; the whole of a smaller buffer for the other two. What a communicator with other buffer
# sizes cannot run, the library refuses by name.
_GRAIN_BYTES = {"simple": 512, "ll": 16, "ll128": 1920}
_MAX_CHUNK_BYTES = {
    ("ring", "simple"): 2 << 20,
    ("tree", "simple"): 512 << 10,
    ("ring", "ll"): 32_768,
    ("tree", "ll"): 32_768,
    ("ring", "ll128"): 576_000,
    ("tree", "ll128"): 576_000,
}

#: Halvings of the largest chunk that the chunk ladder goes down to: a sixteenth.
CHUNK_HALVINGS = 4

#: Roughly a third more at each step: a step of one is lost in the noise of a large count.
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def chunk_ladder(algorithm: str, protocol: str) -> tuple[int, ...]:
    """Chunks in bytes, ascending, for an algorithm and protocol; empty where chunk cannot be chosen."""
    largest = _MAX_CHUNK_BYTES.get((algorithm, protocol))
    if largest is None:
        return ()
    grain = _GRAIN_BYTES[protocol]
    return tuple((largest >> halvings) // grain * grain for halvings in range(CHUNK_HALVINGS, -1, -1))
