"""Definitions as text, tools made of them, and a terminal to run a tool on."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from haft_protocol.errors import RpcError
from haft_protocol.methods import Problem
from haftd.tools.calls.environment import build, make_call_value
from haftd.tools.calls.resolve import CallContext, ResolvedCall, resolve
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.document import parse
from haftd.tools.definitions.load import build_tools, read_layers

PATH = os.environ.get("PATH", os.defpath)


def read(*texts: str) -> tuple[dict[str, Tool], list[Problem]]:
    """Return the tools of some files, in order, and the problems."""
    problems: list[Problem] = []
    layers = [
        layer
        for at, text in enumerate(texts)
        for layer in read_layers(parse(text, f"{at}.toml"), problems)
    ]
    return build_tools(layers, problems), problems


def tool(text: str, name: str = "x") -> Tool:
    """Return the single tool of a valid definition."""
    tools, problems = read(text)
    assert problems == []
    return tools[name]


def packed(name: str) -> Tool:
    """A tool that comes with the daemon."""
    return Catalogue().find(name)


def called(tool: Tool, args: Mapping[str, Any], root: str = "/", path: str = PATH) -> ResolvedCall:
    """The tool resolved for a call, from the arguments as a client sends them."""
    context = CallContext(root=root, session="s", handle="h", path=path)
    return resolve(tool, check_arguments(tool, args), context)


def refused(tool: Tool, args: Mapping[str, Any], root: str = "/") -> RpcError:
    """The error of a call that is refused."""
    with pytest.raises(RpcError) as caught:
        called(tool, args, root)
    return caught.value


def environment(call: ResolvedCall, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that the call's process gets."""
    own = {"PATH": PATH, "HOME": "/nowhere"} if base is None else base
    value = make_call_value(call.context_json, lambda _data: "/dev/null")
    return build(
        own,
        overlay=call.env_overlay,
        terminal=call.launch.terminal,
        socket="/s",
        mark="m",
        call=value,
    )


def run(
    call: ResolvedCall, base: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        call.launch.argv,
        env=environment(call, base),
        cwd=call.launch.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )


class OnTerminal:
    """A call on a terminal of its own."""

    def __init__(self, call: ResolvedCall, base: Mapping[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *call.launch.argv],
            env=environment(call, base),
            cwd=call.launch.cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.seen = ""

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.master)
        self.process.kill()
        self.process.wait()

    def until(self, text: str, timeout_s: float = 20) -> str:
        """Read until `text` shows; return the output before it, and consume both."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], self.seen
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def line(self, text: str) -> None:
        """Type a line."""
        os.write(self.master, f"{text}\r".encode())

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            self.seen += data.decode(errors="replace")
        return self.process.wait(timeout=20)


def program(folder: Path, name: str, text: str) -> Path:
    """Make a script that can be run."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path
