"""Drive a program through tmux as its documentation advises. A private server runs already; one
session per program. After each step the screen is captured until the last line matches: at
once, then after short sleeps. A model reads only the last capture. `wait-for` waits for the
end of the program without a sleep."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from .account import Account

PAUSE_S = 0.05
PATIENCE_S = 10.0

_numbers = itertools.count(1)


class Server:
    """A private tmux server; `close` ends the server and its sessions."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        # A path as name avoids other users' servers.
        self._argv = ["tmux", "-S", str(folder / "tmux.sock"), "-f", "/dev/null"]
        self._env = dict(env)
        self.run("new-session", "-d", "-s", "idle", "cat")
        self.run("set-option", "-g", "remain-on-exit", "on")

    def run(self, *args: str) -> str:
        """Run tmux; raise on failure or timeout."""
        done = subprocess.run(
            [*self._argv, *args],
            env=self._env,
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
        )
        return done.stdout

    def close(self) -> None:
        self.run("kill-server")


class Tmux:
    """A session with one pane."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.account = Account()
        self._server = server
        self._folder = folder
        self._session = f"drive{next(_numbers)}"
        self._before = ""

    def spawn(self, *argv: str, env: Mapping[str, str] | None = None) -> None:
        """Start a program whose end is announced on a channel of the session's name."""
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        command = shlex.join(["env", *settings, *argv] if settings else argv)
        # fmt: off
        self._tmux(
            "new-session", "-d", "-s", self._session, "-x", "80", "-y", "24", "-c", str(self._folder),
            f"{command}; tmux wait-for -S {self._session}",
        )
        # fmt: on

    def send(self, *keys: str) -> None:
        """Press keys; a name that tmux does not know is typed as text."""
        # A semicolon at the end of a word is tmux's own, unless escaped.
        escaped = [key[:-1] + "\\;" if key.endswith(";") else key for key in keys]
        self._tmux("send-keys", "-t", self._session, *escaped)

    def paste(self, text: str) -> None:
        """Paste, bracketed if the program asked for that."""
        name = self._session
        # fmt: off
        self._tmux(
            "set-buffer", "-b", name, text, ";", "paste-buffer", "-d", "-p", "-b", name, "-t", name,
        )
        # fmt: on

    def until(self, last_line: str) -> str:
        """Capture until the last line of a changed screen matches; return the screen."""
        expected = re.compile(last_line)
        end = time.monotonic() + PATIENCE_S
        while True:
            shown = self._capture()
            if shown != self._before and expected.search(shown.rpartition("\n")[2]):
                return self._read(shown)
            if time.monotonic() > end:
                raise TimeoutError(f"no {last_line!r} in:\n{shown}")
            self._sleep()

    def until_quiet(self, last_line: str, seconds: float) -> str:
        """Capture until the last line matches and nothing has changed for so long."""
        expected = re.compile(last_line)
        shown, since = "", time.monotonic()
        end = since + 6 * PATIENCE_S
        while time.monotonic() < end:
            now = self._capture()
            if now != shown:
                shown, since = now, time.monotonic()
            elif time.monotonic() - since >= seconds and expected.search(now.rpartition("\n")[2]):
                return self._read(now)
            self._sleep()
        raise TimeoutError(f"never quiet:\n{shown}")

    def end(self) -> None:
        """Wait for the end of the program."""
        self._tmux("wait-for", self._session)

    def ended(self) -> str:
        """Wait for the end of the program; return the screen."""
        self.end()
        return self._read(self._capture())

    def close(self) -> None:
        """Not part of the work."""
        self._server.run("kill-session", "-t", self._session)

    def _capture(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self._session).rstrip()

    def _read(self, shown: str) -> str:
        self._before = shown
        return self.account.show(shown)

    def _tmux(self, *args: str) -> str:
        self.account.calls += 1
        return self._server.run(*args)

    def _sleep(self) -> None:
        self.account.sleeps += 1
        time.sleep(PAUSE_S)
