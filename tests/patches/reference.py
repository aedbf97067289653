# SPDX-License-Identifier: Apache-2.0
"""What must come out, worked out here and not taken from the library: parts of channels, largest element counts."""

import math

GRAIN_BYTES = {"ll": 16, "ll128": 1920, "simple": 512}
# Default buffers: 8 steps of 64 KiB (LL, half of it flags), 600 KiB (LL128, one word in 16 is a flag), 512 KiB.
STEP_BYTES = {"ll": 32768, "ll128": 576000, "simple": 524288}
SIMPLE_STEPS = {"allreduce": 4, "allgather": 4, "reducescatter": 4, "broadcast": 1, "reduce": 1}
THREADS = {
    ("ring", "ll"): range(64, 513, 32),
    ("ring", "ll128"): range(96, 641, 32),
    ("ring", "simple"): range(64, 545, 32),
    ("tree", "ll"): range(64, 641, 32),
    ("tree", "ll128"): range(96, 641, 32),
    ("tree", "simple"): range(64, 641, 64),
}


def max_chunk_bytes(collective: str, algorithm: str, protocol: str) -> int:
    steps = SIMPLE_STEPS[collective] if (algorithm, protocol) == ("ring", "simple") else 1
    return STEP_BYTES[protocol] * steps


def parts(count: int, element_bytes: int, n_channels: int) -> list[int]:
    """Elements of each channel, first to last.

    Whole units of 16 bytes. All channels but the last get the same number of units: the average rounded up if that
    leaves nothing negative for the last, otherwise rounded down. The last channel gets what is over.
    """
    per_unit = 16 // element_bytes
    units = math.ceil(count / per_unit)
    each = math.ceil(units / n_channels)
    if each * per_unit * (n_channels - 1) > count:
        each = units // n_channels
    all_but_last = [each * per_unit] * (n_channels - 1)
    return [*all_but_last, count - sum(all_but_last)]


def largest_count(collective: str, algorithm: str, n_ranks: int, part: int, chunk: int, element_bytes: int) -> int:
    """Play the algorithm's loop over one part and return the largest count it hands to a primitive. In elements."""
    largest = 0
    done = 0
    while done < part:
        left = part - done
        if (collective, algorithm) != ("allreduce", "ring"):
            step, loop = min(chunk, left), chunk
            largest = max(largest, step)
        else:
            loop = n_ranks * chunk
            step = chunk
            if left < loop:  # the last, short loop is dealt out evenly, in units of 16 bytes
                per_unit = 16 // element_bytes
                step = math.ceil(math.ceil(left / n_ranks) / per_unit) * per_unit
            largest = max(largest, *(min(step, left - r * step) for r in range(n_ranks)))
        done += loop
    return largest
