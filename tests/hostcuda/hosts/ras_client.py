# SPDX-License-Identifier: Apache-2.0
"""A client of NCCL's RAS: lines of text over a socket.

python ras_client.py HOST PORT COMMAND... prints what the job answers to the last command.
"""

import socket
import sys


def ask(host: str, port: int, *commands: str, limit_s: float = 60) -> str:
    """The answer to the last command. RAS closes the connection after a status."""
    with socket.create_connection((host, port), timeout=limit_s) as connection:
        lines = connection.makefile("rw", newline="\n")
        for command in ("client protocol 2", *commands[:-1]):
            print(command, file=lines, flush=True)
            said = lines.readline()
            if not said.startswith(("SERVER PROTOCOL", "OK")):
                raise ValueError(f"RAS answers {said!r} to {command!r}")
        print(commands[-1], file=lines, flush=True)
        return lines.read()


if __name__ == "__main__":
    print(ask(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
