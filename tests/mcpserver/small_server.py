"""A small MCP server for tests, of both protocol versions, conforming or not: `server.py
[FLAG…]`. Flags: `legacy` knows no `server/discover`; `modern` knows no `initialize`; `touchy`
ends at an unknown method; `silent` answers nothing; `banner` prints a greeting first, `glued`
a log text before each message, `latin` bytes that are no UTF-8; `noisy` writes 256 KiB to
standard error before each reply; `deaf` ignores the end of its input and TERM; `pages` lists
a tool per page; `haft` has the name of haft; `none` has no tools. `http` serves a port
instead, which is written to the notes; `json` answers there without a stream; `token`
requires a header, `stream` asks by a stream of its own, slow to open. `NOTES` names a file for its notes, `TOOLS` the tools as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from binascii import b2a_base64

# Imports of a third of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

FLAGS = frozenset(sys.argv[1:])
MODERN = "2026-07-28"
PIXEL = b2a_base64(b"\x89PNG not really", newline=False).decode()
ANY = {"type": "object"}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 2},
        "sure": {"type": "boolean", "title": "Sure"},
    },
    "required": ["name", "sure"],
}
CHOICES = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"]},
        "sure": {"type": "boolean"},
    },
    "required": ["size", "sure"],
}

_lock = threading.Lock()
_local = threading.local()
_answers: dict[str, Any] = {}
_answered = threading.Condition()
_cancelled: set[Any] = set()
_listeners: list[Any] = []
_tasks: dict[str, int] = {}
_streams: list[Any] = []
_called = threading.Event()
_state = {"extra": False, "count": 0, "old": False}


def note(text: str) -> None:
    if path := os.environ.get("NOTES"):
        with open(path, "a") as file:
            file.write(text + "\n")


def send(message: dict[str, Any]) -> None:
    if (write := getattr(_local, "send", None)) is not None:
        write({"jsonrpc": "2.0", **message})
        return
    if "noisy" in FLAGS:
        sys.stderr.write("x" * 262_144)
        sys.stderr.flush()
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with _lock:
        sys.stdout.buffer.write((b"[log] {a} " if "glued" in FLAGS else b"") + line)
        sys.stdout.buffer.flush()


def tools() -> list[dict[str, Any]]:
    if given := os.environ.get("TOOLS"):
        return list(json.loads(given))
    names = (
        "echo sleep die kill count fail ask choose ask_url ask_secret picture link structured sample change pid big "
        "task twice late fault env mute asks"
    )
    found: list[dict[str, Any]] = [
        {"name": name, "description": f"The tool {name}.", "inputSchema": ANY}
        for name in names.split()
    ]
    found[0]["inputSchema"] = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text."},
            "times": {"type": "integer"},
        },
        "required": ["text"],
    }
    found[0]["annotations"] = {"readOnlyHint": True}
    if _state["extra"]:
        found.append({"name": "extra", "description": "Came later.", "inputSchema": ANY})
    return found


def text(message: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], **more}


class Call:
    """A call of a tool."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.id = message["id"]
        self.params = message["params"]
        self.arguments = self.params.get("arguments", {})
        meta = self.params.get("_meta", {})
        self.token = meta.get("progressToken")
        self.modern = "io.modelcontextprotocol/protocolVersion" in meta

    def run(self) -> None:
        try:
            result = getattr(self, self.params["name"])()
        except AttributeError:
            send({"id": self.id, "error": {"code": -32602, "message": "no such tool"}})
            return
        if result is not None:
            self.reply(result)

    def reply(self, result: dict[str, Any]) -> None:
        send(
            {
                "id": self.id,
                "result": {"resultType": "complete", **result} if self.modern else result,
            }
        )

    def elicit(self, params: dict[str, Any]) -> Any:
        """Return the answer; None where the call is to be made again."""
        if self.modern:
            if "inputResponses" in self.params:
                assert self.params["requestState"] == "state"
                return self.params["inputResponses"]["q"]
            request = {"method": "elicitation/create", "params": params}
            result = {
                "resultType": "input_required",
                "inputRequests": {"q": request},
                "requestState": "state",
            }
            send({"id": self.id, "result": result})
            return None
        return self.request("elicitation/create", params)["result"]

    def request(self, method: str, params: dict[str, Any]) -> Any:
        name = f"s{self.id}"
        if "stream" in FLAGS:
            _called.set()
            if not _streams:
                note("nobody listens")
                return {"result": {"action": "cancel"}}
        write = _streams[-1] if _streams else send
        write({"id": name, "method": method, "params": params})
        with _answered:
            _answered.wait_for(lambda: name in _answers)
            return _answers.pop(name)

    def progress(self, *steps: tuple[float, str | None]) -> None:
        for done, message in steps:
            params = {"progressToken": self.token, "progress": done, "total": 3}
            send(
                {
                    "method": "notifications/progress",
                    "params": {**params, **({"message": message} if message else {})},
                }
            )

    def echo(self) -> dict[str, Any]:
        return text(json.dumps(self.arguments))

    def pid(self) -> dict[str, Any]:
        return text(str(os.getpid()))

    def env(self) -> dict[str, Any]:
        return text(json.dumps({"cwd": os.getcwd(), **os.environ}))

    def sleep(self) -> None:
        note("sleeping")
        gone = getattr(_local, "gone", lambda: False)
        while self.id not in _cancelled and not gone():
            time.sleep(0.01)
        note("cancelled")

    def late(self) -> None:
        """Answer in spite of the cancellation."""
        self.sleep()
        self.reply(text("too late"))

    def die(self) -> None:
        sys.stderr.write("first\nlast words\n")
        sys.stderr.flush()
        os._exit(3)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def mute(self) -> None:
        """Close the output, and live on."""
        os.close(1)

    def count(self) -> dict[str, Any]:
        self.progress((1, "one"), (1, "again"), (2, None), (3, "three"))
        self.reply(text("counted"))
        self.progress((4, "after the end"))
        return {}

    def fail(self) -> dict[str, Any]:
        return text("no luck", isError=True)

    def fault(self) -> None:
        send({"id": self.id, "error": {"code": -32603, "message": "it broke"}})

    def twice(self) -> dict[str, Any]:
        self.reply(text("first"))
        send({"id": 987654, "result": text("for nobody")})
        return text("second")

    def ask(self) -> dict[str, Any] | None:
        answer = self.elicit({"mode": "form", "message": "Tell me.", "requestedSchema": FORM})
        return None if answer is None else text(json.dumps(answer))

    def asks(self) -> dict[str, Any] | None:
        """Return the answers in the form of the runtime checker."""
        answer = self.elicit({"message": "Tell me.", "requestedSchema": FORM})
        if answer is None:
            return None
        given = answer["content"]
        return text(f"{given['name']} {json.dumps(given['sure'])}")

    def choose(self) -> dict[str, Any] | None:
        answer = self.elicit({"message": "Choose.", "requestedSchema": CHOICES})
        return None if answer is None else text(json.dumps(answer))

    def ask_secret(self) -> dict[str, Any] | None:
        form = {
            "type": "object",
            "properties": {"api_key": {"type": "string"}},
            "required": ["api_key"],
        }
        answer = self.elicit({"message": "A key, please.", "requestedSchema": form})
        return (
            None
            if answer is None
            else text(f"{answer['action']} {len(answer['content']['api_key'])}")
        )

    def ask_url(self) -> dict[str, Any] | None:
        answer = self.elicit(
            {"mode": "url", "message": "Log in.", "url": "https://example.org/login?x=1"}
        )
        return None if answer is None else text(json.dumps(answer))

    def sample(self) -> dict[str, Any]:
        if self.modern:
            request = {"method": "sampling/createMessage", "params": {}}
            return {"resultType": "input_required", "inputRequests": {"q": request}}
        said = self.request("sampling/createMessage", {"messages": [], "maxTokens": 1})
        return text(said["error"]["message"])

    def picture(self) -> dict[str, Any]:
        block = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": "Look:"}, block]}

    def link(self) -> dict[str, Any]:
        inner = {"uri": "note://1", "mimeType": "text/plain", "text": "a note"}
        return {
            "content": [
                {
                    "type": "resource_link",
                    "uri": "file:///x",
                    "name": "x",
                    "mimeType": "text/plain",
                },
                {"type": "resource", "resource": inner},
                {"type": "hologram"},
            ]
        }

    def structured(self) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"n": 1}}

    def big(self) -> dict[str, Any]:
        return text("x" * int(self.arguments.get("length", 10 << 20)))

    def change(self) -> dict[str, Any]:
        _state["extra"] = not _state["extra"]
        changed = "notifications/tools/list_changed"
        if not self.modern:
            send({"method": changed})
        for id, write in _listeners:
            meta = {"io.modelcontextprotocol/subscriptionId": id}
            write({"jsonrpc": "2.0", "method": changed, "params": {"_meta": meta}})
        return text("changed")

    def task(self) -> dict[str, Any]:
        if not self.modern:
            return text("no tasks here")
        _tasks["t1"] = 0
        return {
            "resultType": "task",
            "taskId": "t1",
            "status": "working",
            "ttlMs": None,
            "pollIntervalMs": 50,
        }


def look_at_task(id: str) -> dict[str, Any]:
    _tasks[id] += 1
    said: dict[str, Any] = {"resultType": "complete", "taskId": id, "pollIntervalMs": 50}
    if _tasks[id] == 1:
        return {**said, "status": "working", "statusMessage": "at work"}
    if "answered" not in _tasks:
        request = {
            "method": "elicitation/create",
            "params": {"message": "Tell me.", "requestedSchema": FORM},
        }
        return {**said, "status": "input_required", "inputRequests": {"q": request}}
    return {**said, "status": "completed", "result": text("the task is done")}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    found = tools()
    if "pages" not in FLAGS:
        return {"tools": found}
    at = int(params.get("cursor", 0))
    more = {"nextCursor": str(at + 1)} if at + 1 < len(found) else {}
    return {"tools": found[at : at + 1], **more}


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        with _answered:
            _answers[message["id"]] = message
            _answered.notify_all()
        return
    name = "haft" if "haft" in FLAGS else "small"
    can = {} if "none" in FLAGS else {"tools": {"listChanged": True}}
    info = {"name": name, "version": "0"}
    modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    if method == "notifications/cancelled":
        _cancelled.add(params["requestId"])
    elif id is None or "silent" in FLAGS:
        return
    elif method == "server/discover" and "legacy" not in FLAGS and "touchy" not in FLAGS:
        meta = {"io.modelcontextprotocol/serverInfo": info}
        result = {
            "supportedVersions": [MODERN],
            "capabilities": can,
            "ttlMs": 0,
            "cacheScope": "private",
        }
        send({"id": id, "result": {"resultType": "complete", **result, "_meta": meta}})
    elif method == "initialize" and "modern" not in FLAGS:
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": can,
            "serverInfo": info,
        }
        send({"id": id, "result": result})
    elif method == "tools/list":
        send(
            {
                "id": id,
                "result": {**({"resultType": "complete"} if modern else {}), **listed(params)},
            }
        )
    elif method == "tools/call":
        if "http" in FLAGS:
            Call(message).run()
        else:
            threading.Thread(target=Call(message).run, daemon=True).start()
    elif method == "subscriptions/listen":
        _listeners.append((id, getattr(_local, "send", send)))
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        method = "notifications/subscriptions/acknowledged"
        send(
            {"method": method, "params": {"_meta": meta, "notifications": params["notifications"]}}
        )
        while not getattr(_local, "gone", lambda: True)():
            time.sleep(0.01)
    elif method == "tasks/get":
        send({"id": id, "result": look_at_task(params["taskId"])})
    elif method == "tasks/update":
        note(json.dumps(params["inputResponses"]))
        _tasks["answered"] = 1
        send({"id": id, "result": {"resultType": "complete"}})
    elif method == "tasks/cancel":
        note("task cancelled")
        send({"id": id, "result": {"resultType": "complete"}})
    elif "touchy" in FLAGS:
        os._exit(1)
    else:
        send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})


def http_server(port: int) -> Any:
    """Return the server; the import of `http.server` takes longer than the start of all else."""
    import select
    import socket
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        """Streamable HTTP: one request per connection, its messages as events."""

        protocol_version = "HTTP/1.1"
        sessions: ClassVar[set[str]] = set()

        def log_message(self, *_: object) -> None:
            pass

        def refuse(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            if "stream" not in FLAGS:
                self.refuse(405)
                return
            _called.wait(0.5)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            # Before the headers leave: the client calls as soon as it has them.
            _streams.append(lambda message: self.write({"jsonrpc": "2.0", **message}))
            self.end_headers()
            while not self.gone():
                time.sleep(0.01)

        def do_POST(self) -> None:
            self.close_connection = True
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "token" in FLAGS and self.headers["Authorization"] != "Bearer t0ken":
                self.refuse(401)
                return
            modern = "io.modelcontextprotocol/protocolVersion" in message.get("params", {}).get(
                "_meta", {}
            )
            if modern:
                assert self.headers["Mcp-Method"] == message["method"]
                assert self.headers["MCP-Protocol-Version"] == MODERN
                assert self.headers["Mcp-Name"] == message["params"].get("name")
            elif (
                message.get("method") != "initialize"
                and self.headers["Mcp-Session-Id"] not in self.sessions
            ):
                self.refuse(404)
                return
            if "id" not in message or "method" not in message:
                serve(message)
                self.refuse(202)
                return
            self.send_response(200)
            self.send_header(
                "Content-Type", "application/json" if "json" in FLAGS else "text/event-stream"
            )
            if message["method"] == "initialize":
                session = f"session{len(self.sessions)}-{os.getpid()}"
                self.sessions.add(session)
                self.send_header("Mcp-Session-Id", session)
            self.send_header("Connection", "close")
            self.end_headers()
            _local.send, _local.gone = self.write, self.gone
            serve(message)

        def write(self, message: dict[str, Any]) -> None:
            data = json.dumps(message)
            self.wfile.write(
                (data if "json" in FLAGS else f": hello\r\nid: 1\r\ndata: {data}\r\n\r\n").encode()
            )
            self.wfile.flush()

        def gone(self) -> bool:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    note(f"started {os.getpid()}")
    if "http" in FLAGS:
        web = http_server(int(os.environ.get("PORT", "0")))
        note(f"port {web.server_address[1]}")
        web.serve_forever()
    if "deaf" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "banner" in FLAGS:
        sys.stdout.buffer.write(b"Server v1 {starting}\n\n")
    if "latin" in FLAGS:
        sys.stdout.buffer.write(b"\xff\xfe{\n")
    sys.stdout.buffer.flush()
    for line in sys.stdin:
        if line.strip():
            serve(json.loads(line))
    while "deaf" in FLAGS:
        time.sleep(1)
