# SPDX-License-Identifier: Apache-2.0
"""The build whose host side runs under AddressSanitizer and UndefinedBehaviorSanitizer, and what it reports."""

import subprocess
from pathlib import Path

from builds import host_build
from nccl_dump.jobs import built_functions

from lagom.build.flavour import SANITIZERS


def sanitized() -> Path:
    """`lagom build --sanitize address,undefined`, which nothing takes by default."""
    return host_build(built_functions(), sanitize=SANITIZERS)


def preloads() -> dict[str, str]:
    """Puts that build, and the sanitizer, into a program that is not instrumented itself.

    The sanitizer's own dlopen does not follow a library's runpath, and NCCL would not find libnvidia-ml.
    """
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return {"LD_PRELOAD": found.stdout.strip(), "LD_LIBRARY_PATH": str(sanitized())}


def settings(folder: Path) -> dict[str, str]:
    """Reports of AddressSanitizer go to files in ``folder``, the other's to standard error whatever it is told.

    Python and Open MPI leak; tests/leaks is about what Lagom would.
    """
    return {"ASAN_OPTIONS": f"detect_leaks=0:log_path={folder}/asan", "UBSAN_OPTIONS": "print_stacktrace=1"}


def reports(folder: Path, done: subprocess.CompletedProcess[str]) -> str:
    """All that was reported in a run with these settings."""
    found = [file.read_text() for file in sorted(folder.glob("asan.*"))]
    return "\n".join([*found, done.stderr if "runtime error: " in done.stderr else ""]).strip()
