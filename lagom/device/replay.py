# SPDX-License-Identifier: Apache-2.0
"""A program that runs an overlap workload once with whatever NCCL it finds: ``python -m lagom.device.replay``.

It knows nothing of plans, knobs or counters and makes its communicator without MPI, the way NCCL programs do: rank 0
writes the unique id to a file that the others wait for. Whatever knobs it runs with come from outside, by preloading.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import lagom.nccl as nccl
from lagom.device import kinds
from lagom.device.group import GroupRunner, LocalRun
from lagom.device.protocol import DeviceError, Span
from lagom.files import write_whole
from lagom.workload import WorkloadError, load

_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> None:
    """Let the kernel end this process when process `parent` ends, so that no rank is left behind waiting."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)


def _unique_id(path: Path, rank: int, limit_s: float) -> bytes:
    if rank == 0:
        identity = nccl.unique_id()
        write_whole(path, identity)
        return identity
    end = time.monotonic() + limit_s
    while not path.exists():
        if time.monotonic() > end:
            raise DeviceError(f"rank 0 has not written {path} within {limit_s:g} s")
        time.sleep(0.01)
    return path.read_bytes()


def run_to_json(run: LocalRun) -> str:
    """A run as text; :func:`run_from_json` reads it back."""
    return json.dumps(asdict(run))


def run_from_json(text: str) -> LocalRun:
    """The reverse of :func:`run_to_json`."""
    fields = json.loads(text)
    spans = tuple(Span(**span) for span in fields["spans"])
    return LocalRun(tuple(fields["x_ns"]), fields["y_ns"], fields["z_ns"], fields["exposed_ns"], spans)


def main(arguments: list[str] | None = None) -> int:
    """Run the workload, check its data, write the times; 0, or 1 with one line on standard error."""
    parser = argparse.ArgumentParser(prog="lagom.device.replay", description="Run an overlap workload once.")
    parser.add_argument("workload", help="name of a preset, or path of a YAML file")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--device", type=int, required=True)
    parser.add_argument("--id-file", type=Path, required=True, help="where rank 0 leaves the unique id for the others")
    parser.add_argument("--result", type=Path, required=True, help="where to write this rank's times, as JSON")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds to wait for rank 0's id")
    parser.add_argument("--parent", type=int, metavar="PID", help="process with which this one ends")
    args = parser.parse_args(arguments)
    if args.parent is not None:
        _die_with(args.parent)
    try:
        workload = load(args.workload)
        identity = _unique_id(args.id_file, args.rank, args.limit)
        with nccl.init(unique_id=identity, rank=args.rank, size=args.ranks, device=args.device) as comm:
            runner = GroupRunner(comm, workload, kinds.backend(nccl.library(), args.device))
            runner.prepare()
            runner.enqueue()
            run = runner.finish()
            runner.check_data()
        write_whole(args.result, run_to_json(run).encode())
    except (
        DeviceError,
        WorkloadError,
        OSError,
        ValueError,
        nccl.LibraryError,
        nccl.NcclError,
        nccl.CudaError,
    ) as error:
        print(f"rank {args.rank}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
