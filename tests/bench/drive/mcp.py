"""Driving through `haft mcp`, as a model in a host does.

Rules: one `haft mcp` in the folder of the work, started before. The scripts are those of `haft`: a spawn is the tool
that starts the definition, all else is `handle_send`, with the fields that this has. The text of a reply is read whole:
header line, output, prompt. There is no `max_bytes`, so a reply that need not be read is read all the same.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.running_daemon import RunningDaemon

from .account import Account
from .haft import Haft, Reply

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_WAIT_S = 50
_UNTIL = {"none": "now"}


def request(method: str, **params: object) -> bytes:
    """A request with the id 1, as a line."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
    return json.dumps(message).encode() + b"\n"


class Server:
    """A `haft mcp` of the daemon's, called with a request to exchange it for the reply."""

    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "haft", "mcp", "--root", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=daemon.env,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._source, self._sink = self._process.stdout, self._process.stdin.fileno()
        self.pid = self._process.pid

    def __call__(self, line: bytes) -> bytes:
        os.write(self._sink, line)
        return self._source.readline()

    def close(self) -> None:
        self._process.communicate()


class McpReply(Reply):
    """The text of a result, and whether its header line names an end."""

    def __init__(self, id: str, text: str) -> None:
        self.text = text
        self._is_held = text.startswith((f"[{id}: running,", f"[{id}: asks,"))

    @property
    def stopped(self) -> bool:
        return not self._is_held

    @property
    def body(self) -> str:
        """The text without its header line."""
        return self.text.partition("\n")[2]


class HaftMcp(Haft):
    """One handle, from its spawn on."""

    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self.account = Account()
        self._server = Server(daemon, folder)
        self._server(request("tools/list"))
        self._id = ""

    def run(self, *argv: str, **fields: Any) -> Reply:
        return self.spawn("run", {"command": shlex.join(argv), "terminal": True}, **fields)

    def spawn(self, tool: str, args: dict[str, Any] | None = None, **fields: Any) -> Reply:
        self._id = "w"
        return self._use(tool, {**(args or {}), "id": self._id}, fields)

    def begin(self, *argv: str, **fields: Any) -> Reply:
        """Spawn a program on a terminal, and read the end only of what it shows until it reads."""
        command = {"command": shlex.join(argv), "terminal": True}
        self.spawn("run", {**command, "wait_s": 0})
        reading = {"id": self._id, "view": "tail", "until": "input"}
        return self._use("handle_read", reading, fields)

    def apply(self, value: object, **fields: Any) -> Reply:
        if isinstance(value, str):
            value = {"text": value}
        assert isinstance(value, dict)
        words = {name: value for name, value in value.items() if name != "secret"}
        until = fields.get("wait")
        reading: dict[str, Any] = {
            name: fields[name] for name in ("pattern", "view") if name in fields
        }
        if until is not None:
            reading["until"] = _UNTIL.get(until, until)
        return self._use("handle_send", {"id": self._id, **words, **reading}, fields)

    def close(self) -> None:
        self._server(request("tools/call", name="handle_stop", arguments={"ids": [self._id]}))
        self._server.close()

    def _use(self, tool: str, arguments: dict[str, Any], fields: dict[str, Any]) -> Reply:
        if (timeout_ms := fields.get("timeout_ms")) is not None:
            arguments = {**arguments, "wait_s": min(timeout_ms / 1000, _WAIT_S)}
        self.account.calls += 1
        line = self._server(request("tools/call", name=tool, arguments=arguments))
        message = json.loads(line)
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        (block,) = message["result"]["content"]
        if message["result"].get("isError"):
            raise RuntimeError(block["text"])
        reply = McpReply(self._id, block["text"])
        self.account.show(reply.text, len(line), reply.body)
        return reply
