"""A real haftd under a fake service manager: descriptors from 3 on, and variables that name its
pid."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.forkserver import Process, fork_haftd
from tests.running_daemon import RunningDaemon

LAUNCHER = """
import os, sys
for name in sys.argv[1].split():
    os.environ[name] = str(os.getpid())
for place, fd in enumerate(map(int, sys.argv[2].split())):
    os.dup2(fd, 3 + place)
os.execv(sys.executable, [sys.executable, "-m", "haftd", "--log-format", "json"])
"""


def start_managed(
    daemon: RunningDaemon,
    *,
    pids: Sequence[str] = (),
    sockets: Sequence[socket.socket] = (),
    env: Mapping[str, str] | None = None,
    executed: bool = False,
) -> Process:
    """Start `daemon` with these variables set to its own pid, and these sockets as 3, 4, …
    Return at once; the process becomes `daemon.process`. The daemon is forked unless it shall be
    `executed`: then it keeps the descriptors over an execve(2) of its own."""
    if not executed:
        with daemon.log.open("ab") as log:
            daemon.process = fork_haftd(
                ["--log-format", "json"],
                env={**daemon.env, **(env or {})},
                cwd="/",
                output=log.fileno(),
                pids=pids,
                sockets=[sock.fileno() for sock in sockets],
            )
        return daemon.process
    fds = [sock.fileno() for sock in sockets]
    # None of them may stand where another descriptor is to go.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in fds]
    with daemon.log.open("ab") as log:
        daemon.process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCHER, " ".join(pids), " ".join(map(str, copies))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**daemon.env, **(env or {})},
            cwd="/",
            pass_fds=copies,
            start_new_session=True,
        )
    for fd in copies:
        os.close(fd)
    return daemon.process


class Manager:
    """The notification socket of a service manager, see sd_notify(3)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.sock.settimeout(20)
        self.sock.bind(str(path))

    def receive(self) -> dict[str, str]:
        """Return the next message as variables; `PID` is the sender."""
        data, ancillary, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(12))
        found = dict(line.split("=", 1) for line in data.decode().splitlines())
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                found["PID"] = str(int.from_bytes(content[:4], sys.byteorder))
        return found

    def until(self, name: str) -> dict[str, str]:
        """Return the next message with `name`; earlier ones are dropped."""
        while True:
            message = self.receive()
            if name in message:
                return message

    def close(self) -> None:
        self.sock.close()
