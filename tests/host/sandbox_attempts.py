"""Run the attempts of `attacks` with and without a sandbox.

The surroundings of the sandbox: a neighbour, sockets that listen, files that are open to all.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from haftd.launch_spec import Grant, Sandbox
from tests.host.launch_helpers import plan, run

from . import attacks

OWN_PYTHON = os.path.realpath(sys.executable)
READ = frozenset({"read"})
WRITE = frozenset({"read", "create", "update", "delete"})
INTERPRETER = Grant(sys.base_prefix, READ | {"execute"})


def make_folders(base: Path) -> None:
    for name in ("root", "readable", "secret"):
        (base / name).mkdir()
        (base / name).chmod(0o777)
    (base / "root/inside").write_text("inside")
    (base / "root/link").symlink_to("../secret")
    for name in ("file", "leased"):
        (base / "readable" / name).write_text("read me")
    for name in ("file", "movable", "over", "deletable"):
        (base / "secret" / name).write_text("secret")
    shutil.copy("/bin/true", base / "secret/program")
    (base / "secret/empty").mkdir()
    for path in base.glob("*/*"):
        if not path.is_symlink():
            path.chmod(0o777)


@contextmanager
def surroundings(base: Path) -> Iterator[dict[str, Any]]:
    """Yield the setting of the attempts."""
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen(
            ["sleep", "1000"], env={"PATH": os.defpath, "PRIVATE": attacks.PRIVATE}
        ) as neighbour,
    ):
        try:
            name = f"haft-test-{os.getpid()}"
            abstract.bind(f"\0{name}")
            path.bind(str(base / "root/socket"))
            datagrams.bind(str(base / "root/datagrams"))
            abstract.listen(8)
            path.listen(8)
            yield {
                "root": str(base / "root"),
                "readable": str(base / "readable"),
                "secret": str(base / "secret"),
                "neighbour": neighbour.pid,
                "address": ctypes.addressof(ctypes.create_string_buffer(8)),
                "abstract": name,
                "path": str(base / "root/socket"),
                "datagrams": str(base / "root/datagrams"),
                "port": server.getsockname()[1],
            }
        finally:
            neighbour.kill()
            assert neighbour.wait() == -signal.SIGKILL, "the neighbour was signalled"


def sandbox_of(base: Path) -> Sandbox:
    root, readable = str(base / "root"), str(base / "readable")
    return Sandbox(root, (Grant(root, WRITE), Grant(readable, READ), INTERPRETER))


def attack(
    base: Path, sandbox: Sandbox | None, only: Sequence[str] = (), python: str = OWN_PYTHON
) -> dict[str, str]:
    """Make the attempts, or `only` some, in the root; return the outcomes by name."""
    with surroundings(base) as at:
        code = Path(attacks.__file__).read_text()
        words = json.dumps({**at, "only": list(only)})
        launch = plan(python, "-c", code, words, cwd=base / "root")
        printed = trio.run(run, launch._replace(sandbox=sandbox))
    outcomes: dict[str, str] = json.loads(printed.splitlines()[-1])
    return outcomes


def attack_as(uid: int, base: Path, sandbox: Sandbox, python: str) -> dict[str, str]:
    """Make the attempts as another user, from a child of this process."""
    return in_child_as(uid, lambda: attack(base, sandbox, python=python))


def in_child_as(uid: int, attempt: Callable[[], dict[str, str]]) -> dict[str, str]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(write, json.dumps(attempt()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        printed = answer.read()
    os.waitpid(pid, 0)
    assert printed, "the child that changes its user has failed"
    document: dict[str, str] = json.loads(printed)
    return document
