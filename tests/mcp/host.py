"""An MCP host written from the specification alone: a process and lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.forkserver import ForkedProcess, can_fork, fork_haft
from tests.running_daemon import RunningDaemon

MODERN = "2026-07-28"
_READ_S = 60.0
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}


class McpError(Exception):
    """An error reply."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.data: Any = error.get("data")


def text_of(result: dict[str, Any]) -> str:
    """Return the single text block of a result."""
    (block,) = result["content"]
    assert block["type"] == "text"
    text = block["text"]
    assert isinstance(text, str)
    return text


class Host:
    """A `haft mcp` process and the host's end of its pipes."""

    def __init__(
        self,
        daemon: RunningDaemon,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = "/",
        capabilities: dict[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> None:
        """Start `haft mcp` with `arguments` and the daemon's environment, forked; or, as a real
        host does, by `entry` of the host's configuration, with only `env`."""
        command = [sys.executable, "-m", "haft", "mcp", *arguments]
        environment = {**daemon.env, **(env or {})}
        if entry is not None:
            command = [entry["command"], *entry["args"]]
            environment = {**(env or {}), **entry.get("env", {})}
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if entry is None and can_fork(environment):
            self.process = fork_haft(["mcp", *arguments], env=environment, cwd=str(cwd))
        else:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=cwd
            )
        self.capabilities = FORMS if capabilities is None else capabilities
        self.seen: list[dict[str, Any]] = []
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.close()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def close(self) -> int:
        """Close the server's input, as a host that ends normally."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(20)

    def kill(self) -> None:
        """Kill the server as a crash of the host would."""
        self.process.kill()
        self.process.wait()

    def write(self, message: Any) -> None:
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Return the next message of any kind."""
        assert self.process.stdout is not None
        # A message that does not come fails the test, and does not hold up the suite.
        bound = threading.Timer(_READ_S, self.process.kill)
        bound.start()
        try:
            line = self.process.stdout.readline()
        finally:
            bound.cancel()
        assert line.endswith(b"\n"), f"haft mcp wrote nothing or ended: {self.process.poll()}"
        message = json.loads(line)
        assert isinstance(message, dict) and message["jsonrpc"] == "2.0"
        return message

    def start(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self.write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, **params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def finish(self, number: int) -> dict[str, Any]:
        """Return the result of a request; earlier messages are kept in `seen`. Raise `McpError`
        for an error."""
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                break
            self.seen.append(message)
            if "method" in message and "id" in message:
                self.serve(message)
        if "error" in message:
            raise McpError(message["error"])
        result = message["result"]
        assert isinstance(result, dict)
        return result

    def serve(self, request: dict[str, Any]) -> None:
        """Answer a request of the server's."""
        raise AssertionError(f"a server of this era sends no requests: {request}")

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        return self.finish(self.start(method, params))

    def ask(self, name: str, arguments: dict[str, Any], answers: dict[str, Any]) -> str:
        """Call a tool that asks, answer the question, and return the text of the result."""
        raise NotImplementedError

    def call(self, name: str, **arguments: Any) -> str:
        """Call a tool; return the text of its result."""
        return text_of(self.request("tools/call", name=name, arguments=arguments))


class Modern(Host):
    """A host of the revision 2026-07-28."""

    def start(self, method: str, params: dict[str, Any]) -> int:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            **params.get("_meta", {}),
        }
        return super().start(method, {**params, "_meta": meta})

    def finish(self, number: int) -> dict[str, Any]:
        result = super().finish(number)
        assert result["resultType"] in ("complete", "input_required")
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "haft"
        return result

    def ask(self, name: str, arguments: dict[str, Any], answers: dict[str, Any]) -> str:
        result = self.request("tools/call", name=name, arguments=arguments)
        while result["resultType"] == "input_required":
            result = self.retry(name, arguments, result, answers)
        return text_of(result)

    def retry(
        self, name: str, arguments: dict[str, Any], asked: dict[str, Any], answers: dict[str, Any]
    ) -> dict[str, Any]:
        """Call again with the answers."""
        responses = {
            key: {"action": "accept", "content": {key: answers[key]}}
            for key in asked["inputRequests"]
        }
        return self.request(
            "tools/call",
            name=name,
            arguments=arguments,
            inputResponses=responses,
            requestState=asked["requestState"],
        )


class Legacy(Host):
    """A host that opens with `initialize`."""

    version = "2025-11-25"
    answers: Mapping[str, Any] = {}
    roots: tuple[str, ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.hello = self.request(
            "initialize",
            protocolVersion=self.version,
            capabilities=self.capabilities,
            clientInfo={"name": "test", "version": "1"},
        )
        self.notify("notifications/initialized")

    def serve(self, request: dict[str, Any]) -> None:
        result: dict[str, Any]
        if request["method"] == "roots/list":
            result = {"roots": [{"uri": f"file://{root}"} for root in self.roots]}
        else:
            assert request["method"] == "elicitation/create"
            names = request["params"]["requestedSchema"]["properties"]
            if set(names) <= set(self.answers):
                content = {name: self.answers[name] for name in names}
                result = {"action": "accept", "content": content}
            else:
                result = {"action": "decline"}
        self.write({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def ask(self, name: str, arguments: dict[str, Any], answers: dict[str, Any]) -> str:
        self.answers = answers
        return self.call(name, **arguments)
