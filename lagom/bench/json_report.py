# SPDX-License-Identifier: Apache-2.0
"""The JSON file of nccl-tests 2.19.6 (-J), key by key."""

import json
import os
import sys
from typing import Any

from .options import Options
from .results import NOT_RUN, Header, Row, Side, Summary

# nccl-tests dumps the whole environment; only what bears upon the run is of use to a reader and harmless to pass on.
_ENVIRONMENT = ("NCCL_", "LAGOM_", "HOSTCUDA_", "CUDA_", "LD_PRELOAD=", "OMP_", "LANG=")


def write(
    path: str, options: Options, facts: Header, rows: list[Row], summary: Summary, start_time: str, end_time: str
) -> None:
    """Write the report; OSError where that fails."""
    report = build(options, facts, rows, summary, start_time, end_time)
    with open(path, "w", encoding="utf-8") as out:
        json.dump(report, out, indent=1)


def build(
    options: Options, facts: Header, rows: list[Row], summary: Summary, start_time: str, end_time: str
) -> dict[str, Any]:
    """The report as plain data."""
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    return {
        "version": 3,
        "start_time": start_time,
        "args": [f"{options.collective}_perf", *_arguments()],
        "env": [entry for entry in environment if entry.startswith(_ENVIRONMENT)],
        "nccl_version": facts.nccl_version,
        "config": _config(options, facts),
        "results": [_row(options, row) for row in rows],
        "out_of_bounds": {"count": summary.wrong, "okay": _text(summary.wrong == 0)},
        "average_bus_bandwidth": {
            "bandwidth": round(summary.average_bus_gbps, 6),
            "okay": "unchecked" if summary.bandwidth_ok is None else _text(summary.bandwidth_ok),
        },
        "errors": [""],
        "end_time": end_time,
    }


def _arguments() -> list[str]:
    """What followed the collective's name on the command line."""
    words = sys.argv[1:]
    return words[2:] if words[:1] == ["bench"] else words


def _config(options: Options, facts: Header) -> dict[str, Any]:
    step: dict[str, int] = (
        {"step_factor": options.step_factor} if options.multiplies else {"step_bytes": options.step_bytes}
    )
    return {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": options.min_bytes,
        "maximum_bytes": options.max_bytes,
        **step,
        "warmup_iters": options.warmup_iterations,
        "iterations": options.iterations,
        "aggregated_iterations": options.aggregated_iterations,
        "validation": options.check_iterations,
        "graph": 0,
        "blocking_collectives": _text(options.blocking),
        "per_iter_timing": _text(options.per_iteration),
        "per_iter_skip": 0,
        "parallel_init": "false",
        "devices": [
            {
                "rank": device.rank,
                "group": 0,
                "pid": device.pid,
                "hostname": device.host,
                "device": device.device,
                "device_hex": device.bus,
                "device_info": device.name,
            }
            for device in facts.devices
        ],
    }


def _row(options: Options, row: Row) -> dict[str, Any]:
    return {
        "size": row.nbytes,
        "count": row.count,
        "type": row.dtype,
        "redop": row.op,
        "root": f"{row.root:6d}",
        "out_of_place": _side(row.out_of_place),
        "in_place": _side(row.in_place),
        "actual_iterations": options.iterations,
        "experiment_name": "",
    }


def _side(side: Side) -> dict[str, Any]:
    if side is NOT_RUN:
        return {"time": None, "alg_bw": None, "bus_bw": None, "nwrong": "N/A"}
    measured: dict[str, Any] = {
        "time": round(side.time_us, 4),
        "alg_bw": round(side.alg_gbps, 6),
        "bus_bw": round(side.bus_gbps, 6),
        "nwrong": "N/A" if side.wrong is None else float(side.wrong),
    }
    if side.knobs is not None:
        measured["knobs"] = side.knobs
    return measured


def _text(value: bool) -> str:
    return "true" if value else "false"
