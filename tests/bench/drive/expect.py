"""Drive a program through pexpect as its documentation advises. Patterns instead of sleeps.
Before a send, pexpect pauses for 50 ms, because a prompt does not prove that the program
reads or has turned its echo off; each pause is a sleep. The tuned form leaves the pause out.
TERM is `dumb`, so that line programs send no escapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pexpect

from .account import Account

PATIENCE_S = 10.0


class Expect:
    """A child process; `tuned` leaves out the pause before each send."""

    def __init__(self, folder: Path, env: Mapping[str, str], *, tuned: bool = False) -> None:
        self.account = Account()
        self._tuned = tuned
        self._folder = folder
        self._env = dict(env)
        self._child: pexpect.spawn[str] | None = None

    def spawn(self, *argv: str, term: str = "dumb", env: Mapping[str, str] | None = None) -> None:
        """Start a program on a terminal of the usual size."""
        self.account.calls += 1
        self._child = pexpect.spawn(
            argv[0],
            list(argv[1:]),
            cwd=str(self._folder),
            env={**self._env, "TERM": term, **(env or {})},
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE_S,
            dimensions=(24, 80),
        )
        if self._tuned:
            self._child.delaybeforesend = None

    def expect(self, pattern: str) -> str:
        """Wait for a match; return all output up to the end of the match."""
        self.account.calls += 1
        self._the_child.expect(pattern)
        return self._read()

    def expect_quiet(self, pattern: str, seconds: float) -> str:
        """Wait until the last line matches and no output comes for a while; return all output."""
        child, text = self._the_child, ""
        while True:
            self.account.calls += 1
            child.expect(pattern + r"\Z", timeout=6 * PATIENCE_S)
            text += self._read()
            self.account.calls += 1
            self.account.sleeps += 1
            if child.expect([pexpect.TIMEOUT, r"[\s\S]"], timeout=seconds) == 0:
                return text
            text += self._read()

    def sendline(self, text: str) -> None:
        self._send(self._the_child.sendline, text)

    def send(self, text: str) -> None:
        self._send(self._the_child.send, text)

    def end(self) -> None:
        """Wait for the end of the program and drop the output."""
        self.account.calls += 1
        self._the_child.expect(pexpect.EOF)

    def ended(self) -> str:
        """Wait for the end of the program; return the output."""
        self.end()
        return self._read()

    def close(self) -> None:
        """Not part of the work."""
        if self._child is not None:
            self._child.delayafterclose = 0
            self._child.close(force=True)

    @property
    def _the_child(self) -> pexpect.spawn[str]:
        if self._child is None:
            raise AssertionError("nothing was spawned")
        return self._child

    def _send(self, send: Callable[[str], int], text: str) -> None:
        self.account.calls += 1
        self.account.sleeps += not self._tuned
        send(text)

    def _read(self) -> str:
        child = self._the_child
        after = child.after if isinstance(child.after, str) else ""
        return self.account.show((child.before or "") + after)
