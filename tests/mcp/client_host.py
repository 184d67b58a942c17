"""A host on an SDK's client, as a process: each line of standard input is a call, each of standard
output its reply; the first line has the era and the pid of `haft mcp`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.repository import make_repository, staged
from tests.running_daemon import RunningDaemon

_PASSED_ON = ("HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


def find_server(root: Path) -> list[str]:
    """Return the command of `haft mcp` in a folder."""
    return [sys.executable, "-P", "-m", "haft", "mcp", "--root", str(root)]


def environment_of(daemon: RunningDaemon) -> dict[str, str]:
    """Return the few variables that an SDK's client passes on."""
    return {name: daemon.env[name] for name in _PASSED_ON}


class ClientHost:
    """A host with a `haft mcp`; its command gets mode, server and environment as JSON texts."""

    def __init__(
        self, command: Sequence[str], daemon: RunningDaemon, root: Path, mode: Any
    ) -> None:
        words = (mode, find_server(root), environment_of(daemon))
        self._process = subprocess.Popen(
            [*command, *map(json.dumps, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        hello = self._read()
        self.era: str = hello["era"]
        self._server_pid: int = hello["server"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)

    def kill(self) -> None:
        self._process.kill()

    def kill_server(self) -> None:
        os.kill(self._server_pid, signal.SIGKILL)

    def start(self, name: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        return self._read()

    def call(self, name: str, **arguments: Any) -> str:
        self.start(name, **arguments)
        reply = self.finish()
        assert reply.get("isError") is False, reply
        text = reply["text"]
        assert isinstance(text, str)
        return text

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        reply = json.loads(self._process.stdout.readline())
        assert isinstance(reply, dict)
        return reply


def drive_across_two_kills(open_host: Callable[[Path], ClientHost], folder: Path, era: str) -> None:
    """Stage two of three hunks and answer a question, across a kill of `haft mcp` and one of the host."""
    root = make_repository(folder / "repo")
    with open_host(root) as host:
        assert host.era == era
        assert "(1/3)" in host.call("git_stage", id="stage")
        host.start("handle_wait", ids=["stage"], wait_s=50)
        host.kill_server()
        assert "fault" in host.finish()
    with open_host(root) as host:
        assert "(2/3)" in host.call("handle_send", id="stage", line="y")
        host.start("handle_wait", ids=["stage"], wait_s=50)
        host.kill()
    with open_host(root) as host:
        assert host.call("handle_list").startswith("stage: running, ")
        host.start("ask_user", question="Go on?", type="boolean")
        answered = host.finish()
        assert answered["text"].endswith("\ntrue") and answered["asked"] == ["Go on?"]
        assert "(3/3)" in host.call("handle_send", id="stage", line="n")
        host.call("handle_send", id="stage", line="y", until="stopped")
    assert staged(root) == ["line two", "line thirty-nine"]
