"""A command of `haft` at a terminal of its own, for the expectations of pexpect. Forked, as a
start of the interpreter takes longer than most commands."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pexpect.fdpexpect import fdspawn

from tests.forkserver import fork_haft_on_terminal
from tests.patience import PATIENCE_S

# Generic in its stub alone.
if TYPE_CHECKING:
    Expectations = fdspawn[str]
else:
    Expectations = fdspawn

_INTERRUPT = "\x03"


class HaftTerminal(Expectations):
    def __init__(self, *words: str, env: Mapping[str, str], cwd: Path | None = None) -> None:
        terminal, commands = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._process = fork_haft_on_terminal(words, commands, env=env, cwd=cwd)
        os.close(commands)
        super().__init__(terminal, encoding="utf-8", timeout=20)

    def sendintr(self) -> None:
        """Type Ctrl-C."""
        self.send(_INTERRUPT)

    def close(self) -> None:
        """Hang up, and wait for the end of the command."""
        if not self.closed:
            super().close()
            self.exitstatus = self._process.wait(PATIENCE_S)

    def __del__(self) -> None:
        self.close()
