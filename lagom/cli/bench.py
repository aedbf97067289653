# SPDX-License-Identifier: Apache-2.0
"""`lagom bench`: nccl-tests' options; an option that has no meaning here is refused and not ignored."""

import argparse
from collections.abc import Callable
from typing import Any

from ._failures import NOT_IMPLEMENTED, USAGE, WRONG_DATA, CommandError

COLLECTIVE = True
_NAMES = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("alltoall", "gather", "scatter", "sendrecv"),
)


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser(
        "bench",
        help="measure a collective and check its results, as nccl-tests does",
        description="Start it with MPI, one rank a device: mpirun -n 4 lagom bench all_reduce -b 8 -e 16M -f 2",
        epilog="Exit codes: 0 fine, 1 internal, 2 CUDA, 3 NCCL, 4 time-out, 5 not implemented, 6 usage, 7 wrong data.",
    )
    command.add_argument(
        "collective", choices=[*_NAMES, "host"], metavar="COLLECTIVE", help=f"{', '.join(_NAMES)}; or host"
    )
    size, number, flag = _size, _number, _flag
    for names, kind, default, metavar, words in (
        (("-b", "--minbytes"), size, 32 << 20, "SIZE", "smallest size in bytes; K, M, G are 1024-based (32M)"),
        (("-e", "--maxbytes"), size, 32 << 20, "SIZE", "largest size in bytes (32M)"),
        (("-i", "--stepbytes"), size, 1 << 20, "SIZE", "size increment in bytes (1M)"),
        (("-f", "--stepfactor"), number, 1, "N", "factor from size to size; 1: use -i (1)"),
        (("-n", "--iters"), number, 20, "N", "timed iterations (20)"),
        (("-w", "--warmup_iters"), number, 1, "N", "warm-up iterations (1)"),
        (("-m", "--agg_iters"), number, 1, "N", "operations in a group (1)"),
        (("-N", "--run_cycles"), number, 1, "N", "times to run all sizes; 0: for ever (1)"),
        (("-c", "--check"), number, 1, "N", "checked calls a size; 0: none (1)"),
        (("-z", "--blocking"), flag, False, "0|1", "wait after each operation (0)"),
        (("-y", "--stream_null"), flag, False, "0|1", "use the default stream (0)"),
        (("-T", "--timeout"), number, 0, "SECONDS", "give up on an operation after that time; 0: never (0)"),
        (("-C", "--report_cputime"), flag, False, "0|1", "host time of the calls instead of device time (0)"),
        (("-S", "--report_timestamps"), flag, False, "0|1", "add the time of day to each row (0)"),
        (("-a", "--average"), number, 1, "0..3", "time shown: 0 rank 0's, 1 average, 2 smallest, 3 largest (1)"),
    ):
        command.add_argument(*names, type=kind, default=default, metavar=metavar, help=words)
    command.add_argument("-o", "--op", default="sum", help="sum, prod, max, min, avg, mulsum or all (sum)")
    command.add_argument("-d", "--datatype", default="float", metavar="TYPE", help="element type or all (float)")
    command.add_argument("-r", "--root", type=_root, default=0, metavar="RANK", help="root rank or all (0)")
    command.add_argument("-I", "--per_iter", action="store_true", help="add the spread of single iterations")
    command.add_argument("-J", "--output_file", metavar="FILE", help="also write FILE.json")
    for names, value in (
        (("-t", "--nthreads"), 1),
        (("-g", "--ngpus"), 1),
        (("-p", "--parallel_init"), 0),
        (("-G", "--cudagraph"), 0),
        (("-R", "--local_register"), 0),
        (("-u", "--unalign"), 0),
    ):
        command.add_argument(*names, type=_only(names[0], value), default=value, help=argparse.SUPPRESS)
    knobs = command.add_argument_group("knobs (patched NCCL)")
    knobs.add_argument("--knobs", action="store_true", help="print the knobs used, as the device saw them")
    knobs.add_argument("--plan", metavar="FILE", help="set the rules of a plan")
    knobs.add_argument("--algorithm", metavar="NAME", help="ring or tree")
    knobs.add_argument("--protocol", metavar="NAME", help="ll, ll128 or simple")
    knobs.add_argument("--channels", type=number, metavar="N", help="CTAs, 1 to 64")
    knobs.add_argument("--threads", type=number, metavar="N", help="threads of a CTA, a multiple of 32")
    knobs.add_argument("--chunk", type=size, metavar="SIZE", help="chunk in bytes")
    command.set_defaults(run=_run, parser=command)


def _run(arguments: argparse.Namespace) -> int:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.Get_size() < 2:
        raise CommandError(
            f"lagom bench: one rank only; start at least 2, e.g. mpirun -n 2 lagom bench {arguments.collective}", USAGE
        )
    if arguments.collective == "host":
        own = vars(arguments).items() - {("collective", "host"), ("command", "bench")}
        given = sorted(f"--{name}" for name, value in own if value != arguments.parser.get_default(name))
        if given:
            raise CommandError(f"lagom bench host: it has no options, but {', '.join(given)} is given", USAGE)
        from lagom.bench import host

        return host.run(world)
    from lagom.bench import runner

    summary = runner.run(_options(arguments, world.Get_size()), world)
    return WRONG_DATA if summary.wrong or summary.bandwidth_ok is False else 0


def _options(arguments: argparse.Namespace, ranks: int) -> Any:
    from lagom.bench.options import Options
    from lagom.nccl import Knobs

    root = arguments.root
    if root is not None and not 0 <= root < ranks:
        raise CommandError(f"lagom bench: -r {root}: allowed is 0 to {ranks - 1}, or all", USAGE)
    return Options(
        collective=arguments.collective,
        min_bytes=arguments.minbytes,
        max_bytes=arguments.maxbytes,
        step_bytes=arguments.stepbytes,
        step_factor=arguments.stepfactor,
        iterations=arguments.iters,
        warmup_iterations=arguments.warmup_iters,
        aggregated_iterations=arguments.agg_iters,
        run_cycles=arguments.run_cycles,
        check_iterations=arguments.check,
        op=arguments.op,
        dtype=arguments.datatype,
        root=root,
        blocking=arguments.blocking,
        stream_null=arguments.stream_null,
        timeout_s=arguments.timeout,
        report_cpu_time=arguments.report_cputime,
        report_timestamps=arguments.report_timestamps,
        per_iteration=arguments.per_iter,
        average=arguments.average,
        output_file=arguments.output_file,
        show_knobs=arguments.knobs,
        knobs=Knobs(arguments.algorithm, arguments.protocol, arguments.channels, arguments.threads, arguments.chunk),
        plan=arguments.plan,
    )


def _size(text: str) -> int:
    from lagom.bench.sizes import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None


def _root(text: str) -> int | None:
    return None if text == "all" else _number(text)


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"'{text}': 0 or 1")
    return text == "1"


def _only(option: str, value: int) -> Callable[[str], int]:
    """An option of nccl-tests of which only one value is possible here."""

    def check(text: str) -> int:
        if _number(text) != value:
            raise CommandError(f"lagom bench: {option} {text} is not implemented; only {value}", NOT_IMPLEMENTED)
        return value

    return check
