# SPDX-License-Identifier: Apache-2.0
"""``kernels.cu`` as machine code for one GPU generation: compiled with nvcc when it is first needed, then kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from lagom.build import cache, toolkit, tools
from lagom.build.errors import BuildError

SOURCES = Path(__file__).parent / "kernels"
#: The matrix product needs bf16 on tensor cores.
FIRST_CAPABILITY = (8, 0)
_FLAGS = ("-cubin", "-std=c++17", "-O3")


def cubin(capability: tuple[int, int]) -> bytes:
    """The kernels for a compute capability, from the cache if they are there.

    Any number of processes may ask at once. nvcc is looked for as ``lagom build --flavour cuda`` does.

    :raises BuildError: where the capability is too low, or there is no nvcc for it, or it fails.
    """
    number = 10 * capability[0] + capability[1]
    if capability < FIRST_CAPABILITY:
        raise BuildError(f"compute capability {capability[0]}.{capability[1]}: the kernels need 8.0 or higher")
    compiler = tools.compiler()
    kit = toolkit.find()
    if 10 * number not in kit.architectures():
        raise BuildError(f"compute capability {capability[0]}.{capability[1]}: {kit.nvcc} does not compile for it")
    key = hashlib.sha256("\n".join([kit.digest(), tools.compiler_id(compiler), *_FLAGS, str(number)]).encode())
    for path in sorted(SOURCES.iterdir()):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache.root() / "kernels"
    made = folder / f"{key.hexdigest()[:16]}-sm_{number}.cubin"
    if made.is_file():
        return made.read_bytes()
    with cache.lock(folder):
        if not made.is_file():
            spare = folder / f".{made.name}.{os.getpid()}"
            command = [kit.nvcc, "-ccbin", compiler, *_FLAGS, f"-arch=sm_{number}", "-o", str(spare)]
            done = subprocess.run([*command, str(SOURCES / "kernels.cu")], capture_output=True, text=True)
            if done.returncode:
                spare.unlink(missing_ok=True)
                words = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()
                raise BuildError(f"{kit.nvcc} cannot compile {SOURCES / 'kernels.cu'}: {words[0]}")
            spare.replace(made)
    return made.read_bytes()
