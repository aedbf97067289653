# SPDX-License-Identifier: Apache-2.0
"""The table of nccl-tests 2.19.6, character by character, so that scripts that read it keep working."""

from .options import Options
from .results import NOT_RUN, Header, Row, Side, Summary

FORMAT_VERSION = "2.19.6"


def header(options: Options, facts: Header) -> str:
    """Everything above the first row, without a final newline."""
    name = f"{options.collective}_perf"
    step = f"{options.step_factor}(factor)" if options.multiplies else f"{options.step_bytes}(bytes)"
    lines = [
        f"# nccl-tests version {FORMAT_VERSION} nccl-headers={facts.nccl_version} nccl-library={facts.nccl_version}",
        f"# Collective test starting: {name}",
        f"# nThread 1 nGpus 1 minBytes {options.min_bytes} maxBytes {options.max_bytes} step: {step} "
        f"warmup iters: {options.warmup_iterations} iters: {options.iterations} "
        f"agg iters: {options.aggregated_iterations} validation: {options.check_iterations} graph: 0 unalign: 0",
    ]
    if options.per_iteration:
        lines.append("# Per-Iteration Report: CUDA event timing; i_* uses max over process rows ")
    lines += [f"# Printed in nccl-tests' format by lagom; {facts.library}", "#", "# Using devices"]
    lines += [
        f"#  Rank {d.rank:2d} Group  0 Pid {d.pid:6d} on {d.host:>10s} device {d.device:2d} [{d.bus}] {d.name}"
        for d in facts.devices
    ]
    return "\n".join([*lines, "#", *_titles(options)])


def _titles(options: Options) -> list[str]:
    time = "cputime" if options.report_cpu_time else "time"
    names = f"  {time:>7}   algbw   busbw  #wrong"
    units = "     (us)  (GB/s)  (GB/s)        "
    top = "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place" + " " * 10
    if options.per_iteration:
        names += "    i_min    i_max    i_p99    i_cv%"
        units += "     (us)     (us)     (us)      (%)"
        top = "#" + " " * 65 + "out-of-place (+ per-iteration)" + " " * 32 + "in-place (+ per-iteration)"
    names = f"#{'size':>11}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}" + 2 * names
    units = f"#{'(B)':>11}  {'(elements)':>12}" + " " * 26 + 2 * units
    if options.report_timestamps:
        return [top, names + "           timestamp", units + "   %Y-%m-%d %H:%M:%S"]
    return [top, names + " ", units + " "]


def row(options: Options, row: Row) -> str:
    """One line a size, and with --knobs a comment line below it."""
    line = f"{row.nbytes:12d}  {row.count:12d}  {row.dtype:>8}  {row.op:>6}  {row.root:6d}"
    line += _side(row.out_of_place) + _side(row.in_place)
    if options.report_timestamps:
        line += f"  {row.finished}"
    if options.show_knobs:
        line += f"\n#   knobs used: out-of-place {row.out_of_place.knobs}; in-place {row.in_place.knobs}"
    return line


def _side(side: Side) -> str:
    if side is NOT_RUN:
        return f"  {'N/A':>7}  {'N/A':>6}  {'N/A':>6}    N/A"
    # Not as wide as a number: nccl-tests does so, and readers may count columns.
    wrong = "  N/A" if side.wrong is None else f"{side.wrong:6g}"
    text = f"  {number(side.time_us, 7)}  {number(side.alg_gbps, 6)}  {number(side.bus_gbps, 6)}  {wrong}"
    if side.spread is not None:
        values = (side.spread.min_us, side.spread.max_us, side.spread.p99_us, side.spread.cv_percent)
        text += "".join(f"  {number(value, 7)}" for value in values)
    return text


def number(value: float, width: int) -> str:
    """``value`` in ``width`` columns with two decimals, one, or none: as many as fit."""
    before = 1
    while value >= 10**before:
        before += 1
    decimals = 2 if before < width - 2 else 1 if before < width - 1 else 0
    return f"{value:{width}.{decimals}f}"


def footer(options: Options, summary: Summary) -> str:
    """Everything below the last row, without a final newline."""
    okay = {None: "", True: "OK", False: "FAILED"}[summary.bandwidth_ok]
    return "\n".join(
        [
            f"# Out of bounds values : {summary.wrong} {'OK' if summary.wrong == 0 else 'FAILED'}",
            f"# Avg bus bandwidth    : {summary.average_bus_gbps:g} {okay}",
            "#",
            f"# Collective test concluded: {options.collective}_perf",
            "#",
        ]
    )
