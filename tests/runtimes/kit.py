"""What the tests of the real runtimes share: calls of shell scripts, and who of them lives."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

from haftd.host.group import become_subreaper
from haftd.host.identity import every_pid, read_environ, read_stat
from haftd.host.mark import Mark, new_instance
from haftd.runtimes.base import Call

__all__ = ["HERE", "TERMINAL", "call", "fds", "lives", "python", "shell"]

HERE = Path(__file__).parent
TERMINAL: dict[str, Any] = {"terminal": True}

# As the daemon does: what loses its parent becomes ours, and is found.
become_subreaper()

_instance = new_instance()
_numbers = itertools.count(1)


def call(*argv: str, env: dict[str, str] | None = None, **fields: Any) -> Call:
    """A call of a program, with a mark of its own."""
    mark = str(Mark("0" * 12, _instance, next(_numbers)))
    whole = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", **(env or {})}
    return Call("test", argv, fields.pop("cwd", "/"), whole, mark, **fields)


def shell(script: str, **fields: Any) -> Call:
    """A call of a shell script."""
    return call("sh", "-c", script, **fields)


def python(script: str, **fields: Any) -> Call:
    """A call of a Python script."""
    return call(sys.executable, "-I", "-c", script, **fields)


def lives(of: Call) -> list[int]:
    """The processes that carry the mark of `of` and live, found without the daemon's rooms."""
    needle = b"\0HAFT_HANDLE=" + of.mark.encode() + b"\0"
    found = []
    for pid in every_pid():
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":
            continue
        if needle in b"\0" + (read_environ(pid) or b""):
            found.append(pid)
    return found


def fds() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
