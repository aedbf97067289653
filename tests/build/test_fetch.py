# SPDX-License-Identifier: Apache-2.0
"""Fetching NCCL: every origin, verified as a tree; failures leave nothing behind and say what was tried."""

import http.server
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lagom.build import apt, cache, fetch
from lagom.build.errors import BuildError


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree that stands for NCCL's release, and an empty cache."""
    tree = tmp_path / "released"
    (tree / "makefiles").mkdir(parents=True)
    (tree / "makefiles" / "version.mk").write_text("NCCL_MAJOR := 2\n")
    (tree / "src").mkdir()
    (tree / "src" / "init.cc").write_text("int main() {}\n")
    (tree / "src" / "link.cc").symlink_to("init.cc")
    monkeypatch.setattr(fetch, "TREE_DIGEST", fetch.tree_digest(tree))
    monkeypatch.setenv("LAGOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LAGOM_NCCL_SOURCE", raising=False)
    return tree


def archive(tree: Path, name: str = "nccl.tar.gz") -> Path:
    path = tree.parent / name
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, "nccl-2.29.7-1")
    return path


def left_behind() -> list[str]:
    return [p.name for p in cache.sources().glob("*") if p.name != ".lock"] + [
        p.name for p in cache.sources().glob(".*") if p.name != ".lock"
    ]


@pytest.fixture
def serve() -> Iterator[Callable[[bytes, int | None], str]]:
    """A web server on this machine; serve(body, length) gives a URL that announces `length` bytes and sends `body`."""
    servers = []

    def start(body: bytes, length: int | None = None) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/nccl.tar.gz"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_a_path_that_the_user_names(released: Path, form: str) -> None:
    source = released if form == "folder" else archive(released)
    tree = fetch.pristine(source)
    assert tree == cache.sources() / fetch.TREE_DIGEST
    assert (tree / "src" / "link.cc").is_symlink()
    assert left_behind() == [fetch.TREE_DIGEST]


def test_the_environment_names_a_path(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOM_NCCL_SOURCE", str(archive(released)))
    assert (fetch.pristine() / "src" / "init.cc").is_file()


def test_a_wrong_tree_is_refused(released: Path) -> None:
    (released / "src" / "init.cc").write_text("int main() { return 1; }\n")
    with pytest.raises(BuildError, match=r"is not NCCL v2\.29\.7-1 as released"):
        fetch.pristine(released)
    assert left_behind() == []


@pytest.mark.parametrize("text", ["not an archive", ""])
def test_not_an_archive(released: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "junk").write_text(text)
    with pytest.raises(BuildError, match="cannot be unpacked") as refused:
        fetch.pristine(tmp_path / "junk")
    assert left_behind() == []
    (line,) = (line for line in str(refused.value).splitlines() if "junk" in line or line.startswith("-"))
    assert line.endswith(("file could not be opened successfully", "empty file"))


def test_members_outside_the_folder(released: Path, tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(released / "src" / "init.cc", "nccl/../../evil.cc")
    with pytest.raises(BuildError, match="outside the folder"):
        fetch.pristine(path)
    assert not (tmp_path / "evil.cc").exists()
    assert left_behind() == []


def test_offline_once_cached(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch.pristine(released)
    monkeypatch.setattr(fetch, "URL", "http://127.0.0.1:1/none")
    monkeypatch.setattr(apt, "download", lambda folder: pytest.fail("asked apt although cached"))
    assert fetch.pristine().is_dir()


def test_a_damaged_cache_is_fetched_again(
    released: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., str]
) -> None:
    tree = fetch.pristine(released)
    (tree / "src" / "init.cc").write_text("damaged")
    monkeypatch.setattr(fetch, "URL", serve(archive(released).read_bytes()))
    assert (fetch.pristine() / "src" / "init.cc").read_text() == "int main() {}\n"


def test_download(released: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., str]) -> None:
    monkeypatch.setattr(fetch, "URL", serve(archive(released).read_bytes()))
    assert fetch.pristine().is_dir()


def test_a_download_cut_short(released: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., str]) -> None:
    body = archive(released).read_bytes()
    monkeypatch.setattr(fetch, "URL", serve(body[:100], len(body)))
    monkeypatch.setattr(apt, "mirrors", list)
    with pytest.raises(BuildError) as caught:
        fetch.pristine()
    assert "download failed" in str(caught.value) or "ended after 100 of" in str(caught.value)
    assert left_behind() == []


def test_everything_that_was_tried_is_named(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "URL", "http://127.0.0.1:1/nccl.tar.gz")
    monkeypatch.setattr(apt, "mirrors", list)
    with pytest.raises(BuildError) as caught:
        fetch.pristine()
    text = str(caught.value)
    assert "http://127.0.0.1:1/nccl.tar.gz: download failed" in text
    assert "apt source nvidia-nccl 2.29.7-1-1: " in text
    assert "LAGOM_NCCL_SOURCE" in text
    assert left_behind() == []


def test_falls_back_to_apt(released: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for apt-get checks that it is pointed away from the machine's own set-up, and delivers."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "apt-get").write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'case "$*" in *Dir::State::lists=*Dir::Cache=*) ;; *) echo "E: would touch the machine" >&2; exit 9;; esac\n'
        f'case "$*" in *" source "*) cp {archive(released)} nvidia-nccl_2.29.7-1.orig.tar.gz;; esac\n'
    )
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(fetch, "URL", "http://127.0.0.1:1/none")
    monkeypatch.setattr(apt, "mirrors", lambda: [apt.Mirror("http://127.0.0.1/debian", "")])
    assert fetch.pristine().is_dir()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].endswith(" update --error-on=any")
    assert calls[1].endswith("--download-only --tar-only nvidia-nccl=2.29.7-1-1")


def test_killed_in_the_middle(released: Path, tmp_path: Path, serve: Callable[..., str]) -> None:
    """SIGKILL during a download: nothing looks finished, and the next attempt clears the rest away."""
    stuck = tmp_path / "stuck.py"
    stuck.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom lagom.build import fetch\n"
        f"fetch.TREE_DIGEST = {fetch.TREE_DIGEST!r}\n"
        "def slow(source, tree):\n"
        "    (tree / 'half').write_text('x'); print('in the middle', flush=True); time.sleep(60)\n"
        "fetch._from_user = slow\n"
        "fetch.pristine(Path(sys.argv[1]))\n"
    )
    with subprocess.Popen([sys.executable, stuck, released], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "in the middle\n"
        process.send_signal(signal.SIGKILL)
    assert not (cache.sources() / fetch.TREE_DIGEST).exists()
    deadline = time.monotonic() + 10
    while Path("/proc", str(process.pid)).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    fetch.pristine(released)
    assert left_behind() == [fetch.TREE_DIGEST]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "sources.list",
            "deb http://m/debian bookworm main\n# deb http://no/debian sid main\n",
            [("http://m/debian", "")],
        ),
        (
            "sources.list",
            "deb [arch=amd64 signed-by=/k.gpg] http://m/debian/ trixie main contrib # note\n",
            [("http://m/debian", "/k.gpg")],
        ),
        ("sources.list", "deb http://other/apt cloud-sdk main\n", []),
        ("sources.list", "deb http://s/debian-security bookworm-security main\n", []),
        (
            "sources.list.d/debian.sources",
            "Types: deb\n# comment\nURIs: http://m/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
            "Signed-By: /k.gpg\n\nTypes: deb\nURIs: http://s/debian-security\nSuites: bookworm-security\n"
            "Components: main\n",
            [("http://m/debian", "/k.gpg")],
        ),
        ("sources.list.d/a.sources", "Enabled: no\nTypes: deb\nURIs: http://m\nSuites: sid\nComponents: main\n", []),
        (
            "sources.list.d/inline.sources",
            "Types: deb\nURIs: http://m/debian\nSuites: stable\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n",
            [("http://m/debian", " -----BEGIN\n .\n abc")],
        ),
    ],
)
def test_the_machines_mirrors(tmp_path: Path, file: str, text: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / file).write_text(text)
    assert apt.mirrors(tmp_path) == [apt.Mirror(*pair) for pair in expected]
