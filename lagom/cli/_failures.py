# SPDX-License-Identifier: Apache-2.0
"""From exceptions to one line and an exit code."""

import os
import traceback

INTERNAL, CUDA, NCCL, TIME_OUT, NOT_IMPLEMENTED, USAGE, WRONG_DATA = 1, 2, 3, 4, 5, 6, 7

# Exit codes of exceptions. Named here and not imported: a command that needs no library must not import the bindings.
BY_NAME = {
    "LibraryError": INTERNAL,
    "BuildError": INTERNAL,
    "OSError": INTERNAL,
    "CudaError": CUDA,
    "NcclError": NCCL,
    "TimeOutError": TIME_OUT,
    "NotImplementedError": NOT_IMPLEMENTED,
    "PlanError": USAGE,
    "ValueError": USAGE,
}


class CommandError(Exception):
    """A command failed: ``line`` for people and the exit code."""

    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.line = line
        self.code = code


def describe(error: Exception) -> tuple[str, int]:
    """(one line, exit code) of whatever a command raised. LAGOM_TRACEBACK=1 also prints where it came from."""
    if os.environ.get("LAGOM_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, CommandError):
        return error.line, error.code
    code = next((BY_NAME[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in BY_NAME), None)
    text = " ".join(str(error).split()) + "".join(f" ({note})" for note in getattr(error, "__notes__", []))
    if code is None:
        frame = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
        place = f" at {os.path.basename(frame.filename)}:{frame.lineno}" if frame else ""
        return f"lagom: {type(error).__name__}{place}: {text} (LAGOM_TRACEBACK=1 shows more)", INTERNAL
    return f"lagom: {text}", code
