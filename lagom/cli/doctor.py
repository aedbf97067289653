# SPDX-License-Identifier: Apache-2.0
"""`lagom doctor`: what is found on this machine, and what to do about what is not."""

import argparse
import json
import os
import platform
import shutil
import sys
from typing import Any


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser("doctor", help="say which NCCL, CUDA runtime, devices, MPI and compiler are found")
    command.add_argument("--json", action="store_true", help="for programs")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    facts, fine = examine()
    if arguments.json:
        print(json.dumps(facts, indent=1))
    else:
        for key, value in facts.items():
            for index, line in enumerate(value if isinstance(value, list) else [value]):
                print(f"{key if index == 0 else '':<10} {line}")
    return 0 if fine else 1


def examine() -> tuple[dict[str, str | list[str]], bool]:
    """(facts by topic, whether collectives can run here)."""
    import lagom

    facts: dict[str, str | list[str]] = {
        "lagom": lagom.__version__,
        "python": f"{platform.python_version()} {sys.executable}",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    fine = _library(facts)
    fine &= _mpi(facts)
    facts["compiler"] = shutil.which("g++") or "no g++ (needed by `lagom build` only)"
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(("LAGOM_", "NCCL_", "HOSTCUDA_"))]
    preload = os.environ.get("LD_PRELOAD")
    facts["settings"] = settings + ([f"LD_PRELOAD={preload}"] if preload else []) or "none"
    return facts, fine


def _library(facts: dict[str, str | list[str]]) -> bool:
    import lagom.nccl as nccl

    try:
        library = nccl.library()
    except nccl.LibraryError as error:
        facts["nccl"] = str(error)
        return False
    kind = f"patched, build {library.build}" if library.patched else "not patched: no knobs, no counters"
    facts["nccl"] = [f"{library.version_text} ({kind})", f"{library.path} (found by: {library.found_by})"]
    runtime = "hostcuda" if library.hostcuda else "CUDA runtime"
    facts["cuda"] = [f"{runtime} {library.cuda_version // 1000}.{library.cuda_version // 10 % 100}", library.cuda_path]
    try:
        devices = [nccl.device_info(index) for index in range(nccl.device_count())]
    except nccl.CudaError as error:
        facts["devices"] = str(error)
        return False
    facts["devices"] = [
        f"{d.index}: {d.name}, {d.sms} SMs, compute capability {d.compute_capability[0]}.{d.compute_capability[1]}, "
        f"{d.pci_bus_id}"
        for d in devices
    ] or "none"
    return bool(devices)


def _mpi(facts: dict[str, str | list[str]]) -> bool:
    # Initialising MPI starts daemons in a process that no launcher started; the version needs no initialisation.
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        facts["mpi"] = f"cannot be used: {error}"
        return False
    library = MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0 ")
    launcher = shutil.which("mpirun")
    facts["mpi"] = [f"{library}, mpi4py {mpi4py.__version__}", launcher or "no mpirun in PATH"]
    return launcher is not None
