"""A program on a terminal, to be inspected while reading or working."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from haftd.host.input_state.read_state import ReadState, read_terminal_state
from haftd.host.launch.launched_process import LaunchedProcess
from tests.host.launch_helpers import plan, running

DEADLINE_S = 20
PYTHON = (sys.executable, "-I", "-S", "-c")


class Stage:
    """A program on a terminal, with its output so far."""

    def __init__(self, it: LaunchedProcess) -> None:
        assert it.master is not None
        self.it, self.master, self.slave = it, it.master, it.slave
        self.printed = b""

    def look(self) -> ReadState:
        """Take the output, then inspect."""
        try:
            while part := os.read(self.master, 65_536):
                self.printed += part
        except OSError:
            pass  # there is no more
        return read_terminal_state(self.master, self.slave, (self.it.pid,), self.it.began_s)

    def type(self, text: str) -> None:
        self.printed = b""
        assert os.write(self.master, text.encode()) == len(text.encode())

    async def until(
        self, wanted: Callable[[ReadState], bool] = lambda now: now.state == "reads", says: str = ""
    ) -> ReadState:
        """Inspect until the wanted state is seen, and `says` was printed."""
        now = ReadState("unknown")
        with trio.move_on_after(DEADLINE_S):
            while True:
                now = self.look()
                if wanted(now) and re.search(says.encode(), self.printed):
                    return now
                await trio.sleep(0.002)
        raise AssertionError(f"{now} after {self.printed!r}")

    async def stays(self, state: str, looks: int = 20) -> None:
        """Inspect several times, with the same result each time."""
        for _ in range(looks):
            now = self.look()
            assert (now.state, now.certain) == (state, True), (now, self.printed)
            await trio.sleep(0.002)


@asynccontextmanager
async def stage(
    *argv: str, cwd: str | Path = "/", env: dict[str, str] | None = None
) -> AsyncIterator[Stage]:
    needs(argv[0])
    usual = {"TERM": "xterm", "HOME": str(cwd), "PS1": "$ ", "LC_ALL": "C.UTF-8"}
    spec = plan(*argv, cwd=cwd, env={**usual, **(env or {})}, terminal=True)
    async with running(spec) as (it, _):
        yield Stage(it)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def python(*lines: str) -> tuple[str, ...]:
    return (*PYTHON, "\n".join(lines))


def syscall_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/syscall").read_text().split()
