"""Shared by the tests of the real runtimes: calls of scripts, and their living processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from haftd.host import readiness
from haftd.host.process.identity import every_pid, read_environ, read_stat
from haftd.host.process.own_tag import make_instance
from haftd.host.process.process_tag import ProcessTag
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call
from haftd.runtimes.terminal import library

HERE = Path(__file__).parent
TERMINAL: dict[str, Any] = {"terminal": True}

_instance = make_instance()
_numbers = itertools.count(1)


def call(*argv: str, env: dict[str, str] | None = None, **fields: Any) -> Call:
    """Return a call of a program, with its own tag."""
    mark = str(ProcessTag(f"{os.getpid():012x}", _instance, next(_numbers)))
    whole = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        **(env or {}),
        "HAFT_HANDLE": mark,
    }
    own = {name: fields.pop(name) for name in Call.__struct_fields__ if name in fields}
    return Call("test", LaunchSpec(argv, fields.pop("cwd", "/"), whole, **fields), mark, **own)


def asking(first: Call) -> Call:
    """Return a call whose tool may ask: the answers are in `tool.answers` of HAFT_CALL."""

    def again(answers: Mapping[str, Any]) -> Call:
        report = json.loads(first.launch.env.get("HAFT_CALL", '{"tool": {}}'))
        report["tool"]["answers"] = dict(answers)
        env = {**first.launch.env, "HAFT_CALL": json.dumps(report)}
        return replace(first, launch=first.launch._replace(env=env))

    return replace(first, with_answers=again)


def shell(script: str, **fields: Any) -> Call:
    """A call of a shell script."""
    return call("sh", "-c", script, **fields)


def python(script: str, **fields: Any) -> Call:
    """A call of a Python script."""
    return call(sys.executable, "-I", "-c", script, **fields)


def lives(of: Call) -> list[int]:
    """Return the living processes with the tag of `of`, found without the daemon's rooms."""
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
    """Return the number of this process's descriptors; those of an import and of the loop exist by then."""
    if library.is_loading():
        library.load()
    with contextlib.suppress(RuntimeError):  # no loop runs
        readiness._watch.get()
    return len(os.listdir("/proc/self/fd"))
