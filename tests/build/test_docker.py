# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile as far as it can be judged without a Docker engine: its stages hang together, and what it calls is there."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from lagom.build import toolkit
from lagom.build.cli import Parser, add_build_options
from lagom.build.rooms import series

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """(instruction, its words) of the Dockerfile in order, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "docker" / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def stages() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {"": []}
    name = ""
    for word, rest in instructions():
        if word == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest)
            assert match, rest
            assert match[1] in found or match[1].startswith("debian:"), f"{rest}: no such stage before"
            name = match[2]
            found[name] = []
        found[name].append((word, rest))
    return found


def arguments(stage: list[tuple[str, str]]) -> dict[str, str]:
    return {name: value.strip('"') for name, _, value in (rest.partition("=") for word, rest in stage if word == "ARG")}


def test_stages_and_their_arguments() -> None:
    found = stages()
    assert list(found) == ["", "base", "cpu", "cuda-build", "runtime"]
    assert found["runtime"][-1] == ("CMD", '["scripts/gpu-check"]')
    assert {"CUDA_VERSION", "CUDA_ARCHITECTURES", "LAGOM_FUNCTIONS"} == set(arguments(found["cuda-build"]))
    assert arguments(found["cuda-build"])["CUDA_VERSION"] == toolkit.DEFAULT_RELEASE in toolkit.WHEELS
    assert arguments(found["base"])["NCCL_VERSION"] == series().name
    copied = [rest.split()[0] for word, rest in found["runtime"] if word == "COPY"]
    assert copied == ["--from=cuda-build"] * 2


def test_every_variable_is_set_somewhere() -> None:
    known = {"LAGOM_CACHE"}
    for name, stage in stages().items():
        mine = known | set(arguments(stage))
        for word, rest in stage:
            if word == "RUN":
                for used in re.findall(r"\$\{?(\w+)", rest):
                    assert used in mine, f"stage {name!r}: {used}"


def test_what_it_calls_is_there() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    ignored = {line.strip("/") for line in (ROOT / ".dockerignore").read_text().split() if "*" not in line}
    called = set(re.findall(r"\b((?:scripts|docker)/\w[\w-]*)", text)) - {"docker/Dockerfile"}
    assert {"scripts/venv", "scripts/env", "scripts/fetch", "scripts/gpu-check", "docker/entry"} <= called
    for name in called:
        path = ROOT / name
        assert path.is_file() and name.split("/")[0] not in ignored, name
        assert path.name == "env" or os.access(path, os.X_OK), name
        subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize("stage", ["cpu", "cuda-build"])
def test_its_builds_are_asked_for_as_the_command_wants(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell expands the arguments' defaults, and the build's own parser takes the words."""
    found = stages()[stage]
    (run,) = [rest for word, rest in found if word == "RUN"]
    (command,) = re.findall(r"lagom build (.*?) &&", run)
    defaults = arguments(found)
    for functions in ("", "AllGather RING *|SendRecv"):
        values = {**os.environ, **defaults, "LAGOM_FUNCTIONS": functions}
        shell = ["bash", "-c", f"printf '%s\\n' {command}"]
        words = subprocess.run(shell, env=values, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
        parser = Parser(prog="lagom build")
        add_build_options(parser)
        parsed = parser.parse_args([word for word in words if word])
        assert parsed.functions == (functions or None)
        if stage == "cuda-build":
            assert (parsed.flavour, parsed.arch) == ("cuda", [800, 900, 1000])
