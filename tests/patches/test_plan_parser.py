# SPDX-License-Identifier: Apache-2.0
"""The one plan parser: what it accepts, what it refuses and where, and a fuzzer under the sanitizers."""

import subprocess
from pathlib import Path

import pytest
from patches.plan_parser import SOURCE, Call, Parser, PlanFaultError, compile_shared

GOOD = "allreduce,0,65536,tree,ll128,4,1,8,-1,-1,640,1920,-1"


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Parser:
    return Parser(compile_shared(tmp_path_factory.mktemp("plan")))


def test_every_column(parser: Parser) -> None:
    (rule,) = parser.parse(GOOD)
    knobs = rule.knobs
    assert (rule.collective, rule.min_bytes, rule.max_bytes, rule.n_nodes, rule.n_ranks) == (4, 0, 65536, 1, 8)
    assert (knobs.algorithm, knobs.protocol, knobs.n_channels, knobs.n_threads, knobs.chunk_bytes) == (
        0, 1, 4, 640, 1920,
    )  # fmt: skip
    assert (rule.call_index, rule.call_period, rule.line) == (-1, -1, 1)


def test_what_is_written_reads_back_the_same(parser: Parser) -> None:
    rules = parser.parse(f"{GOOD}\nbroadcast,-1,-1,ring,-1,-1,-1,-1\nreduce,7,7,-1,simple,64,-1,2,-1,-1,544,2097152\n")
    again = parser.parse("\n".join(parser.format(r) for r in rules))
    assert [parser.format(r) for r in again] == [parser.format(r) for r in rules]
    assert parser.digest(again) == parser.digest(rules)
    assert all(field != "" for r in rules for field in parser.format(r).split(","))


def test_digest_ignores_comments_and_sees_order_and_values(parser: Parser) -> None:
    one, two = GOOD, "allgather,-1,-1,ring,simple,2,-1,-1"
    digest = parser.digest(parser.parse(f"# x\n{one}\n{two}\n"))
    assert digest == parser.digest(parser.parse(f"\n{one}\n  # y\n{two}"))
    assert digest != parser.digest(parser.parse(f"{two}\n{one}\n"))
    assert digest != parser.digest(parser.parse(f"{one.replace('640', '608')}\n{two}\n"))


def test_comments_header_blanks_and_line_ends(parser: Parser) -> None:
    header = parser.c.ncclPlanHeader().decode()
    text = f"# a plan\r\n\r\n{header}\r\n  allgather , 1 ,\t2 , ring,simple,1,-1,-1 \r\n#end"
    (rule,) = parser.parse(text)
    assert (rule.min_bytes, rule.max_bytes, rule.line) == (1, 2, 4)
    assert parser.parse("") == []


def test_files_of_the_example_tuner_read_unchanged(parser: Parser) -> None:
    """Its rows have eight to ten columns; those that match on its last two are refused, see below."""
    rules = parser.parse("# c\nallreduce,0,65536,tree,simple,2,1,-1,-1,-1\nbroadcast,0,32768,ring,simple,1,-1,-1\n")
    assert [r.knobs.n_channels for r in rules] == [2, 1]


# text, line, column, words of the reason
BAD = [
    ("allredux,0,1,ring,ll,1,-1,-1", 1, 1, "unknown collective 'allredux'; allowed: broadcast, reduce"),
    ("AllReduce,0,1,ring,ll,1,-1,-1", 1, 1, "unknown collective"),
    ("alltoall,0,1,ring,ll,1,-1,-1", 1, 1, "'alltoall' has no knobs"),
    ("sendrecv,0,1,ring,ll,1,-1,-1", 1, 1, "'sendrecv' has no knobs"),
    ("-1,0,1,ring,ll,1,-1,-1", 1, 1, "unknown collective '-1'"),
    ("# fine\nallreduce,0,1,rang,ll,1,-1,-1", 2, 15, "unknown algorithm 'rang'; allowed: tree, ring"),
    ("allreduce,0,1,ring,lll,1,-1,-1", 1, 20, "unknown protocol 'lll'; allowed: ll, ll128, simple, or -1"),
    ("allreduce,x,1,ring,ll,1,-1,-1", 1, 11, "min_bytes is 'x': a whole number"),
    ("allreduce,-2,1,ring,ll,1,-1,-1", 1, 11, "min_bytes is '-2'"),
    ("allreduce,1K,1,ring,ll,1,-1,-1", 1, 11, "min_bytes is '1K'"),
    ("allreduce,0,9223372036854775808,ring,ll,1,-1,-1", 1, 13, "at most 9223372036854775807"),
    ("allreduce,0,1e6,ring,ll,1,-1,-1", 1, 13, "max_bytes is '1e6'"),
    ("allreduce,8,4,ring,ll,1,-1,-1", 1, 13, "max_bytes=4 is less than min_bytes=8"),
    ("allreduce,0,1,ring,ll,0,-1,-1", 1, 23, "channels=0: -1 or 1 to 64"),
    ("allreduce,0,1,ring,ll,65,-1,-1", 1, 23, "channels=65"),
    ("allreduce,0,1,ring,ll,99999999999,-1,-1", 1, 23, "channels is 99999999999: at most 2147483647"),
    ("allreduce,0,1,ring,ll,1,0,-1", 1, 25, "nNodes=0"),
    ("allreduce,0,1,ring,ll,1,-1,0", 1, 28, "nRanks=0"),
    ("allreduce,0,1,ring,ll,1,-1,-1,1", 1, 31, "numPipeOps is '1': only -1"),
    ("allreduce,0,1,ring,ll,1,-1,-1,-1,0", 1, 34, "regBuff is '0': only -1"),
    ("allreduce,0,1,ring,ll,1,-1,-1,-1,-1,48", 1, 37, "threads=48: -1 or 64 to 640"),
    ("allreduce,0,1,ring,ll,1,-1,-1,-1,-1,544", 1, 37, "threads=544: ring/ll runs with 64 to 512"),
    ("allreduce,0,1,tree,simple,1,-1,-1,-1,-1,96", 1, 41, "tree/simple runs with 64 to 640, in multiples of 64"),
    ("allreduce,0,1,ring,ll128,1,-1,-1,-1,-1,64", 1, 40, "ring/ll128 runs with 96 to 640"),
    ("allreduce,0,1,ring,ll128,1,-1,-1,-1,-1,-1,2048", 1, 43, "a multiple of 1920 with protocol ll128"),
    ("allreduce,0,1,ring,simple,1,-1,-1,-1,-1,-1,16", 1, 44, "a multiple of 512 with protocol simple"),
    ("allreduce,0,1,-1,-1,1,-1,-1,-1,-1,-1,0", 1, 38, "chunk_bytes=0: -1 or a multiple of 16"),
    ("allreduce,0,1,ring,ll,1,-1,-1,-1,-1,-1,-1,0/2", 1, 43, "call is '0/2': only -1"),
    ("allgather,0,1,tree,ll,1,-1,-1", 1, 15, "algorithm=tree: NCCL has it for allreduce only"),
    ("allreduce,0,1,nvls,ll,1,-1,-1", 1, 20, "protocol=ll: algorithm nvls has simple only"),
    ("allreduce,,1,ring,ll,1,-1,-1", 1, 11, "min_bytes is empty; write -1"),
    ("allreduce,0,1,ring,ll,1,-1,", 1, 28, "nRanks is empty"),
    ("allreduce,0,1,ring,ll,1,-1", 1, 1, "7 fields; at least the first 8"),
    (GOOD + ",1", 1, len(GOOD) - 1, "14 fields; at most 13"),
    ("collective,min_bytes,max_byte", 1, 22, "unknown column 'max_byte'; column 3 is 'max_bytes'"),
    (f"{GOOD}\ncollective,min_bytes", 2, 1, "2 fields"),
    ("allreduce,0,1,ring,ll,\x00,-1,-1", 1, 23, "a zero byte"),
    ("allreduce,0,\xff\x01,ring,ll,1,-1,-1", 1, 13, "max_bytes is '???'"),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), BAD, ids=range(len(BAD)))
def test_refused_with_place_and_reason(parser: Parser, text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(PlanFaultError) as fault:
        parser.parse(text, "some/plan.csv")
    assert (fault.value.file, fault.value.line, fault.value.column) == ("some/plan.csv", line, column)
    assert reason in fault.value.reason


def test_files(parser: Parser, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text(GOOD + "\n")
    assert len(parser.read(tmp_path / "plan.csv")) == 1
    for path, reason in [(tmp_path / "none.csv", "No such file"), (tmp_path, "is not a file")]:
        with pytest.raises(PlanFaultError) as fault:
            parser.read(path)
        assert (fault.value.line, fault.value.column) == (0, 0)
        assert reason in fault.value.reason


def test_first_match_wins(parser: Parser) -> None:
    rules = parser.parse(
        "allreduce,1000,2000,ring,ll,1,-1,-1\nallreduce,-1,1500,ring,ll,2,-1,4\n"
        "allreduce,-1,-1,ring,ll,3,2,-1\nallgather,-1,-1,ring,ll,4,-1,-1\n"
    )

    def match(collective: int, n_bytes: int, nodes: int, ranks: int) -> int:
        return parser.match(rules, Call(collective, nodes, ranks, n_bytes))

    assert match(4, 1000, 1, 4) == 0
    assert match(4, 2000, 1, 4) == 0
    assert match(4, 2001, 1, 4) == -1
    assert match(4, 999, 1, 4) == 1
    assert match(4, 999, 2, 5) == 2
    assert match(4, 999, 1, 5) == -1
    assert match(2, 2**63, 9, 9) == 3
    assert match(3, 1, 1, 1) == -1


FUZZER = r"""
#include "nccl_plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint64_t state = 88172645463325252ull;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static const char* words[] = {"allreduce", "allgather", "broadcast", "reduce", "ring", "tree", "nvls", "pat", "ll",
  "ll128", "simple", "-1", "0", "1", "64", "96", "512", "640", "1920", "2097152", "9223372036854775807",
  "99999999999999999999", "", " ", "\t", "\r", "#", "collective", "call", "0/2", "-", "--1", "\xff", "alltoall"};
int main(int argc, char** argv) {
  long lines = atol(argv[1]), accepted = 0;
  (void)argc;
  for (long i = 0; i < lines; i++) {
    char text[512];
    size_t n = 0;
    int fields = (int)(next() % 4 == 0 ? next() % 16 : 8 + next() % 6);
    static const int likely[13][3] = {{0, 1, 2}, {12, 13, 11}, {11, 20, 19}, {4, 5, 11}, {8, 9, 10}, {13, 14, 11},
      {11, 13, 11}, {11, 13, 14}, {11, 11, 11}, {11, 11, 11}, {15, 16, 17}, {18, 16, 11}, {11, 11, 29}};
    for (int f = 0; f < fields && n < 400; f++) {
      size_t w = f < 13 && next() % 8 != 0 ? (size_t)likely[f][next() % 3] : next() % (sizeof(words) / sizeof(*words));
      n += (size_t)sprintf(text + n, "%s%s", f ? "," : "", words[w]);
    }
    for (int m = (int)(next() % 3) * (next() % 4 == 0); m > 0 && n > 0; m--) text[next() % n] = (char)next();
    if (next() % 16 == 0 && n > 0) n = next() % n;
    char* exact = malloc(n + !n);   /* so that one byte too far is seen */
    memcpy(exact, text, n);
    ncclPlan plan;
    ncclPlanError error;
    memset(&error, 0x55, sizeof(error));
    if (ncclPlanParse(exact, n, "fuzz", &plan, &error) == 0) {
      accepted += plan.nRules;
      for (int r = 0; r < plan.nRules; r++) {
        char line[256], again[256];
        ncclPlan second;
        int length = ncclPlanFormatRule(&plan.rules[r], line, sizeof(line));
        if (ncclPlanParse(line, (size_t)length, "again", &second, &error) != 0 || second.nRules != 1) return 2;
        ncclPlanFormatRule(&second.rules[0], again, sizeof(again));
        if (strcmp(line, again) != 0) return 3;
        ncclPlanFree(&second);
      }
      ncclPlanFree(&plan);
    } else if (error.line < 1 || error.column < 1 || error.reason[0] == 0 || strcmp(error.file, "fuzz") != 0) {
      return 4;
    }
    free(exact);
  }
  printf("%ld of %ld lines were rules\n", accepted, lines);
  return accepted * 20 > lines ? 0 : 5;
}
"""


def run_fuzzer(folder: Path, lines: int, flags: list[str]) -> None:
    (folder / "fuzz.c").write_text(FUZZER)
    subprocess.run(
        ["gcc", "-std=gnu11", "-g", *flags, "-DNCCL_PLAN_API=", f"-I{SOURCE / 'include'}",
         str(SOURCE / "src" / "nccl_plan.c"), str(folder / "fuzz.c"), "-o", str(folder / "fuzz")],
        check=True,
    )  # fmt: skip
    subprocess.run([str(folder / "fuzz"), str(lines)], check=True, timeout=500)


def test_fuzzed_under_the_sanitizers(tmp_path: Path) -> None:
    """No crash; what is rejected says where and why; what is accepted reads back as it was written."""
    run_fuzzer(tmp_path, 200_000, ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"])


@pytest.mark.full
def test_fuzzed_with_ten_million_lines(tmp_path: Path) -> None:
    run_fuzzer(tmp_path, 10_000_000, ["-O2"])
