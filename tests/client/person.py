"""A terminal user for tests: `haft attach` runs on a pseudo-terminal, keys are typed, and output
is fed into a screen. No sleeps; `until` reads until the condition holds."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from haftd.runtimes.terminal.screen import Screen
from tests.forkserver import ForkedProcess, can_fork, fork_haft_on_terminal
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

DETACH = b"\x1cd"
STARTED = b"\x1b[22;0t"
"""The first that is drawn: before that, the terminal is not taken."""
_READS = 64
"""Reads between two looks, more than the terminal holds."""
ASKS = 'x=$("$SUDO_ASKPASS" "The word: ") && printf "got %s" "$x" | rev; echo; cat'
"""What a shell does to ask for a secret through its environment, and to show it backwards."""


class Person:
    """A pseudo-terminal and the attach in it; `close` ends both."""

    def __init__(
        self,
        daemon: RunningDaemon,
        *arguments: str,
        rows: int = 24,
        cols: int = 80,
        env: dict[str, str] | None = None,
        module: str = "haft",
        command: str = "attach",
    ) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.drawn = b""
        self.replies: list[bytes] = []
        self.terminal = Screen(rows, cols, self.replies.append)
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.status: int | None = None
        env = {**daemon.env, "TERM": "xterm-256color", "NO_COLOR": "1", **(env or {})}
        words = [command, *arguments]
        self._process: ForkedProcess | subprocess.Popen[bytes]
        if module == "haft" and can_fork(env):
            self._process = fork_haft_on_terminal(words, self.slave, env=env)
            self._end = os.dup(self._process.fileno())
        else:
            # Takes the terminal as its own when opened first.
            take = 'exec "$@" <"$0" >"$0" 2>&1'
            self._process = subprocess.Popen(
                ["sh", "-c", take, os.ttyname(self.slave), sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )
            self._end = os.pidfd_open(self._process.pid)
        self.pid = self._process.pid

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the attach in any state, and close the terminal."""
        if self.status is None:
            self._process.kill()
            self.status = self._process.wait()
        for fd in (self.master, self.slave, self._end):
            if fd >= 0:
                os.close(fd)
        self.terminal.close()

    def resize(self, rows: int, cols: int) -> None:
        """Resize the terminal; the kernel notifies the attach."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.terminal.resize(rows, cols)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.master)
        os.close(self.slave)
        self.master = self.slave = -1

    def type(self, keys: bytes | str) -> None:
        """Type text of any length; output meanwhile is read."""
        data = memoryview(keys.encode() if isinstance(keys, str) else keys)
        end = time.monotonic() + 60
        while data:
            assert time.monotonic() < end, "the attach does not read its keys"
            _, room, _ = select.select([self.master], [self.master], [], 1)
            self._take()
            if room:
                try:
                    data = data[os.write(self.master, data) :]
                except BlockingIOError:
                    pass

    def until(
        self, condition: str | bytes | Callable[[], Any], timeout: float = PATIENCE_S
    ) -> None:
        """Read until the screen has a text, bytes were drawn, or a condition holds."""
        end = time.monotonic() + timeout
        while not self._holds(condition):
            if time.monotonic() > end or self.has_ended():
                self._take()
                if self._holds(condition):
                    return
                raise AssertionError(
                    f"{condition!r} does not come: {self.lines} {self.drawn[-2000:]!r}"
                )
            select.select([self.master], [], [], 0.2)
            self._take()

    def ends(self, timeout: float = PATIENCE_S) -> int:
        """Wait for the end of the attach; return the exit status, or the signal, negative."""
        end = time.monotonic() + timeout
        while not self.has_ended():
            assert time.monotonic() < end, f"it goes on: {self.lines} {self.drawn[-2000:]!r}"
            select.select([self._end, *([self.master] if self.master >= 0 else [])], [], [], 0.2)
            self._take()
        self.status = self._process.wait()
        self._take()
        return self.status

    def has_ended(self, timeout: float = 0) -> bool:
        """Wait for the end of the attach, without reading the terminal."""
        return self.status is not None or bool(select.select([self._end], [], [], timeout)[0])

    def stops(self, timeout: float = PATIENCE_S) -> None:
        """Wait until a signal has suspended the attach."""
        end = time.monotonic() + timeout
        state = Path(f"/proc/{self.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end, "it is not suspended"
            time.sleep(0.01)

    @property
    def lines(self) -> list[str]:
        """Return the rows on the terminal, without empty ones at the end."""
        lines = [line.rstrip() for line in self.terminal.snapshot().lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def restored(self) -> bool:
        """Return true if the modes for keys and screen are restored."""
        same = termios.tcgetattr(self.slave) == self.before
        return same and not self.terminal.snapshot().alt and not self.terminal.bracketed_paste

    def _holds(self, condition: str | bytes | Callable[[], Any]) -> bool:
        if isinstance(condition, str):
            return any(condition in line for line in self.lines)
        return condition in self.drawn if isinstance(condition, bytes) else bool(condition())

    def _take(self) -> None:
        if self.master < 0:
            return
        try:
            # Not until nothing comes: a flood comes faster than it is drawn here.
            for _ in range(_READS):
                data = os.read(self.master, 65_536)
                if not data:
                    break
                self.drawn += data
                self.terminal.feed(data)
        except (BlockingIOError, OSError):
            pass


class Place:
    """A handle `h` in its own session, with the assistant's connection."""

    def __init__(self, daemon: RunningDaemon, session: str) -> None:
        self.daemon = daemon
        self.session = session
        self.wire = Wire(daemon.socket)

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, session=self.session, **params)

    def shell(self, **args: Any) -> None:
        self.call("spawn", tool="shell", id="h", args=args)

    def run(self, *argv: str, wait: str = "input", **args: Any) -> Any:
        args = {"argv": list(argv), "terminal": True, **args}
        return self.call("spawn", tool="run", id="h", args=args, wait=wait)

    def python(self, program: str, wait: str = "input", **args: Any) -> Any:
        return self.run(sys.executable, "-c", program, wait=wait, **args)

    def attach(self, *arguments: str, **options: Any) -> Person:
        return Person(self.daemon, "--session", self.session, "h", *arguments, **options)

    @property
    def screen(self) -> list[str]:
        shown = self.call("fetch", id="h", view="screen")["screen"]
        lines = [line.rstrip() for line in shown["lines"]]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def size(self) -> tuple[int, int]:
        shown = self.call("fetch", id="h", view="screen")["screen"]
        return shown["rows"], shown["cols"]


def same(person: Person, place: Place) -> Callable[[], bool]:
    """Return true if the user sees the handle's screen."""
    return lambda: person.lines == place.screen
