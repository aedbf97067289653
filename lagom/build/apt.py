# SPDX-License-Identifier: Apache-2.0
"""The machine's own apt mirror as an origin of NCCL: a source archive, with apt's set-up read but never touched."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

SUITE, COMPONENT = "sid", "contrib"
PACKAGE, VERSION = "nvidia-nccl", "2.29.7-1-1"
NETWORK_TIMEOUT_S, TOTAL_TIMEOUT_S = 20, 300
# Only a mirror of Debian itself can hold its unstable suite; this is how such an entry is told from others.
_DEBIAN_SUITES = re.compile(
    r"(oldstable|stable|testing|unstable|sid|bookworm|trixie|forky|duke)(-updates|-backports)?/?"
)


@dataclass(frozen=True)
class Mirror:
    """One archive that the machine's apt is told to use."""

    uri: str
    signed_by: str  # a keyring's path, an inline key, or "" for apt's default keyrings


def mirrors(folder: Path = Path("/etc/apt")) -> list[Mirror]:
    """Debian mirrors that apt's configuration names, in order, each once."""
    found: list[Mirror] = []
    lists = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    for path in lists:
        if path.is_file():
            found += _from_list(path.read_text())
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        found += _from_deb822(path.read_text())
    return list(dict.fromkeys(found))


def _from_list(text: str) -> list[Mirror]:
    """One-line entries: deb [options] uri suite components."""
    found = []
    for line in text.splitlines():
        match = re.match(
            r"\s*deb(?:-src)?\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<rest>[^#]*)", line
        )
        if match and _DEBIAN_SUITES.fullmatch(match["suite"]) and "main" in match["rest"].split():
            signed = re.search(r"signed-by=(\S+)", match["options"] or "", re.IGNORECASE)
            found.append(Mirror(match["uri"].rstrip("/"), signed[1] if signed else ""))
    return found


def _from_deb822(text: str) -> list[Mirror]:
    """Stanzas of `Field: value`, where a line that begins with a space continues the field."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        suites = fields.get("suites", "").split()
        if any(_DEBIAN_SUITES.fullmatch(suite) for suite in suites) and "main" in fields.get("components", "").split():
            signed = fields.get("signed-by", "").strip("\n")
            found += [Mirror(uri.rstrip("/"), signed) for uri in fields.get("uris", "").split()]
    return found


def _source_entry(mirror: Mirror) -> str:
    """A deb822 stanza for the one suite and component that is wanted."""
    lines = ["Types: deb-src", f"URIs: {mirror.uri}", f"Suites: {SUITE}", f"Components: {COMPONENT}"]
    if mirror.signed_by:
        lines.append(f"Signed-By: {mirror.signed_by}")
    return "\n".join(lines) + "\n"


def download(folder: Path) -> Path:
    """Fetch NCCL's upstream archive into the empty `folder`; returns its path. BuildError: what each mirror gave."""
    if not shutil.which("apt-get"):
        raise BuildError("this machine has no apt-get")
    found = mirrors()
    if not found:
        raise BuildError("apt's configuration names no Debian mirror")
    reasons = []
    for number, mirror in enumerate(found):
        place = folder / str(number)
        try:
            return _from_mirror(mirror, place)
        except BuildError as error:
            reasons.append(str(error))
            shutil.rmtree(place, ignore_errors=True)
    raise BuildError("; ".join(reasons))


def _from_mirror(mirror: Mirror, place: Path) -> Path:
    for name in ("lists/partial", "cache/archives/partial", "parts", "out"):
        (place / name).mkdir(parents=True)
    (place / "parts" / "nccl.sources").write_text(_source_entry(mirror))
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(place / "parts"),
        "Dir::State::lists": str(place / "lists"),
        "Dir::Cache": str(place / "cache"),
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": str(NETWORK_TIMEOUT_S),
        "Acquire::https::Timeout": str(NETWORK_TIMEOUT_S),
    }
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"  # the folder is private; apt's own user could not write to it
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    steps = (["update", "--error-on=any"], ["source", "--download-only", "--tar-only", f"{PACKAGE}={VERSION}"])
    for step in steps:
        try:
            done = subprocess.run(
                ["apt-get", "-q", *flags, *step], cwd=place / "out", capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=TOTAL_TIMEOUT_S, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"apt-get {step[0]} took more than {TOTAL_TIMEOUT_S} s") from error
        if done.returncode:
            complaints = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
            raise BuildError(f"apt-get {step[0]} ({SUITE}/{COMPONENT}): {' '.join(complaints) or done.stderr.strip()}")
    archives = list((place / "out").glob(f"{PACKAGE}_*.orig.tar.*"))
    if not archives:
        raise BuildError(f"apt-get source brought no archive of {PACKAGE} {VERSION}")
    return archives[0]
