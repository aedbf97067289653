# SPDX-License-Identifier: Apache-2.0
"""Command lines of fetch, patch and build, shared by scripts/ and by `lagom build`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from . import cuda, fetch, flavour, functions, host, patch, resources
from .errors import BuildError
from .flavour import Build, Request

USAGE_ERROR = 6
FLAVOURS: dict[str, type[Build]] = {"host": host.HostBuild, "cuda": cuda.CudaBuild}


class Parser(argparse.ArgumentParser):
    """argparse with one clear line and the project's exit code for usage errors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, allow_abbrev=False)

    def error(self, message: str) -> "None":  # type: ignore[override]
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """The options of `scripts/build` and `lagom build`."""
    parser.add_argument(
        "--flavour",
        choices=list(FLAVOURS),
        default="host",
        help="host: runs on CPUs (default); cuda: for GPUs, with nvcc",
    )
    parser.add_argument(
        "--arch",
        type=int,
        nargs="+",
        default=[800],
        metavar="N",
        help="GPU generation, e.g. 800, 900 (default 800); cuda: one or several",
    )
    parser.add_argument(
        "--functions",
        metavar="PATTERN",
        help="device functions, e.g. 'AllGather RING *|AllReduce Sum f32 * *' (default all)",
    )
    parser.add_argument("--stock", action="store_true", help="NCCL without the patches; never becomes the default")
    parser.add_argument(
        "--extra-patch",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a folder of further patches (series, *.patch, include/, src/), applied last; never becomes the default",
    )
    parser.add_argument(
        "--sanitize",
        metavar="NAMES",
        help=f"for development: {' and/or '.join(flavour.SANITIZERS)}, with commas; for hostcuda and what the patches"
        " touch; never becomes the default",
    )
    parser.add_argument(
        "--resources",
        action="store_true",
        help="cuda: compile stock NCCL's device code as well; print registers, stack and spills of each function beside it",
    )
    parser.add_argument(
        "--source", type=Path, metavar="PATH", help="a NCCL 2.29.7 archive or folder, instead of fetching"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="compile steps at a time (default: one a core)")
    parser.add_argument(
        "--target",
        nargs="+",
        default=["all"],
        metavar="NAME",
        help="all (default), or for development host-objects, device-objects, hostcuda-libraries or a file of the work",
    )


def build(args: argparse.Namespace) -> int:
    """Build as asked and print the folder of the finished libraries."""
    if args.jobs is not None and args.jobs < 1:
        raise BuildError(f"--jobs {args.jobs}: must be 1 or more")
    if args.functions is not None and not args.functions.strip():
        raise BuildError("--functions: the pattern is empty; leave the option out for all functions")
    if args.resources and (args.flavour != "cuda" or args.stock or args.target not in (["all"], ["device-objects"])):
        raise BuildError(
            "--resources: only with --flavour cuda, without --stock, and with --target device-objects or none"
        )
    if args.resources and len(set(args.arch)) > 1:
        raise BuildError("--resources: one --arch at a time, because what a function takes differs")
    FLAVOURS[args.flavour].require_machine()
    request = Request(
        source=fetch.pristine(args.source),
        arch=args.arch[0],
        more_archs=tuple(args.arch[1:]),
        functions=functions.select(args.functions) if args.functions else (),
        stock=args.stock,
        extra_patches=tuple(folder.resolve() for folder in args.extra_patch),
        sanitize=_sanitizers(args.sanitize),
        jobs=args.jobs or 0,
    )
    build = FLAVOURS[args.flavour](request)
    done = build.run(args.target)
    if isinstance(build, cuda.CudaBuild) and args.resources:
        kept = done / "resources.json"  # of a finished build
        patched = resources.read(kept) if kept.is_file() else build.resources()
        stock = cuda.CudaBuild(replace(request, stock=True))
        stock.run(("device-objects",))
        print(resources.table(stock.resources(), patched))
    print(done)
    return 0


def _sanitizers(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    asked = text.split(",")
    for name in asked:
        if name not in flavour.SANITIZERS:
            raise BuildError(f"--sanitize {text}: {name!r} is none of {', '.join(flavour.SANITIZERS)}")
    return tuple(name for name in flavour.SANITIZERS if name in asked)


def _patch(args: argparse.Namespace) -> int:
    if args.check:
        failures = patch.check(args.tree)
        for line in failures:
            print(line)
        print(
            f"{len(failures)} of the series' hunks and files do not apply" if failures else "the whole series applies"
        )
        return 1 if failures else 0
    print("patched" if patch.apply(args.tree) else "already patched", args.tree)
    return 0


def _run(
    prog: str, describe: Callable[[argparse.ArgumentParser], None], command: Callable[[argparse.Namespace], int]
) -> int:
    parser = Parser(prog=prog)
    describe(parser)
    try:
        return command(parser.parse_args())
    except BuildError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{prog}: interrupted; run it again to go on where it stopped", file=sys.stderr)
        return 130


def _describe_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source", type=Path, metavar="PATH", help="an archive or folder of NCCL 2.29.7 to take it from"
    )


def _fetch(args: argparse.Namespace) -> int:
    print(fetch.pristine(args.source))
    return 0


def _describe_patch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", type=Path, help="a NCCL tree")
    parser.add_argument("--check", action="store_true", help="only list what does not apply; exit 1 if anything")


def main(argv: Sequence[str] | None = None) -> int:
    """python3 -m lagom.build {fetch,patch,build} ..."""
    commands = {
        "fetch": (_describe_fetch, _fetch),
        "patch": (_describe_patch, _patch),
        "build": (add_build_options, build),
    }
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in commands:
        print(f"usage: lagom.build {{{','.join(commands)}}} ...", file=sys.stderr)
        return USAGE_ERROR
    sys.argv[1:] = words[1:]
    return _run(words[0], *commands[words[0]])
