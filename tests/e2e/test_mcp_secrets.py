"""A server that repeats the secret of its headers in all that it sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused

SECRET = "s3cr3t/with+signs&more"


class Echo(BaseHTTPRequestHandler):
    """MCP of 2025-11-25. The argument `way` of the tool chooses the reply."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = f"seen {self.headers['Authorization']}"
        way = request.get("params", {}).get("arguments", {}).get("way")
        if "id" not in request:
            self.reply(202, b"")
        elif way == "status":
            self.reply(500, seen.encode())
        elif way == "text":
            self.reply(200, seen.encode(), "text/plain")
        elif way == "stream":
            self.reply(200, b"data: %b\n\n" % self.message(request, seen), "text/event-stream")
        else:
            self.reply(200, self.message(request, seen, way))

    def message(self, request: Any, seen: str, way: str | None = None) -> bytes:
        tool = {"name": "echo", "description": seen, "inputSchema": {"type": "object"}}
        answers: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": f"C:\\/ \\u0041 {seen}"}]},
        }
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if way == "error" or request["method"] not in answers:
            reply["error"] = {"code": -32601, "message": seen}
        else:
            reply["result"] = answers[request["method"]]
        text = json.dumps(reply)
        # As some libraries write them.
        return text.replace("/", "\\/").replace("+", "\\u002B").replace("&", "\\u0026").encode()

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_headers_secret_is_shown_by_nothing_that_the_server_sends(
    port: int, make_daemon: Callable[..., RunningDaemon]
) -> None:
    table = f'[mcp.u]\nurl = "http://127.0.0.1:{port}/"\nheaders = {{ Authorization = "Bearer ${{TOKEN}}" }}\n'
    daemon = make_daemon(table, env={"TOKEN": SECRET}).start()
    with daemon.connect() as wire:
        listed = wire.call("tools/list")["tools"]
        (tool,) = [tool for tool in listed if tool["name"] == "u_echo"]
        shown = [tool["description"]]
        for way in ("result", "stream", "error", "status", "text"):
            try:
                state = wire.call("tools/call", tool="u_echo", arguments={"way": way})
                shown.append(state.get("result") or state["error"]["message"])
            except Refused as refused:
                shown.append(refused.message)
    assert all("Bearer ${TOKEN}" in text for text in shown), shown
    assert SECRET not in "".join(shown) + daemon.log_text()
    assert shown[1].startswith("C:\\/ \\u0041 seen")
