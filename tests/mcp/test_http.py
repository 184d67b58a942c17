"""`haft mcp --http`: authorisation, headers, and a question in both protocol versions."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.mcp.host import MODERN
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon

PREFIX = "io.modelcontextprotocol/"


def until(fact: Callable[[], Any]) -> None:
    """Poll for a fact."""
    end = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


class Web:
    """A client of a server, by the standard library alone."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.port = parts.port or 0
        self.path = parts.path
        self._number = 0

    def post(self, message: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Post a message; return status, headers and the messages of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = named.pop("path", self.path)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json", **named})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        if found.get("content-type") == "text/event-stream":
            lines = data.decode().splitlines()
            messages = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
            return response.status, found, messages
        return response.status, found, [json.loads(data)] if data else []

    def modern(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        meta = {PREFIX + "protocolVersion": MODERN}
        meta[PREFIX + "clientCapabilities"] = {"elicitation": {}}  # type: ignore[assignment]
        request = {"id": self._number, "method": method, "params": {**params, "_meta": meta}}
        headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if name := params.get("name") or params.get("uri"):
            headers["Mcp_Name"] = name
        status, _, messages = self.post({"jsonrpc": "2.0", **request}, **headers)
        assert status == 200, messages
        result = messages[-1]["result"]
        assert isinstance(result, dict)
        return result


@pytest.fixture(scope="module")
def web(shared_daemon: RunningDaemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    root = tmp_path_factory.mktemp("web")
    server = subprocess.Popen(
        [sys.executable, "-m", "haft", "mcp", "--http", "--root", str(root)],
        env=shared_daemon.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    yield Web(server.stdout.readline().strip())
    server.kill()
    server.wait()
    server.stdout.close()


DISCOVER = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {"_meta": {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}},
}
NAMED = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "server/discover"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"path": "/wrong/mcp"}, 401),
        ({"path": "/mcp"}, 401),
        ({"path": "/other"}, 404),
        ({"Content_Type": "text/plain"}, 415),
        ({"Mcp_Method": "tools/list"}, 400),
        ({"MCP_Protocol_Version": "2025-11-25"}, 400),
    ],
)
def test_only_local_requests_with_token_and_valid_headers_are_served(
    web: Web, headers: dict[str, str], status: int
) -> None:
    assert web.post(DISCOVER, **{**NAMED, **headers})[0] == status


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"path": "/wrong/mcp"}, "token"),
        ({"Authorization": "Bearer wrong", "path": "/mcp"}, "token"),
        ({"Host": "evil.example"}, "header Host"),
        ({"Origin": "https://evil.example"}, "header Origin"),
        ({"path": "/other"}, "/TOKEN/mcp"),
        ({"Content_Type": "text/plain"}, "application/json"),
    ],
)
def test_a_refusal_names_the_reason_and_never_the_token(
    web: Web, headers: dict[str, str], part: str
) -> None:
    _, found, (reply,) = web.post(DISCOVER, **{**NAMED, **headers})
    assert found["content-type"] == "application/json" and reply["id"] is None
    assert part in reply["error"]["message"]
    assert web.path.split("/")[1] not in reply["error"]["message"]


def test_a_request_of_no_era_is_refused_with_what_it_lacks(web: Web) -> None:
    status, _, [reply] = web.post({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
    assert (status, reply["id"], reply["error"]["code"]) == (400, 7, -32602)
    assert "Mcp-Session-Id" in reply["error"]["message"]
    assert web.post({"jsonrpc": "2.0", "id": 8, "method": "ping"}, Mcp_Session_Id="no")[0] == 404


def test_the_token_may_be_in_a_header(web: Web) -> None:
    token = web.path.split("/")[1]
    more = {**NAMED, "path": "/mcp", "Authorization": f"Bearer {token}"}
    assert web.post(DISCOVER, **more)[0] == 200


def test_a_modern_question_is_answered_by_a_second_request(web: Web) -> None:
    question = {"question": "Sure?", "type": "boolean"}
    asked = web.modern("tools/call", name="ask_user", arguments=question)
    assert asked["resultType"] == "input_required"
    answer = {"answer": {"action": "accept", "content": {"answer": True}}}
    more = {"inputResponses": answer, "requestState": asked["requestState"]}
    done = web.modern("tools/call", name="ask_user", arguments=question, **more)
    assert done["content"][0]["text"].endswith("\ntrue")


def test_a_modified_state_is_refused(web: Web) -> None:
    question = {"question": "Sure?", "type": "boolean"}
    asked = web.modern("tools/call", name="ask_user", arguments=question)
    state = asked["requestState"]
    # One in 64 begins with an x already.
    first = "y" if state[0] == "x" else "x"
    for modified in (state + "-TAMPERED", first + state[1:], ""):
        with pytest.raises(AssertionError, match="requestState"):
            web.modern("tools/call", name="ask_user", arguments=question, requestState=modified)


def test_a_legacy_question_is_asked_on_the_stream_and_answered_by_another_post(web: Web) -> None:
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1"},
    }
    status, headers, _ = web.post(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    )
    session = {"Mcp_Session_Id": headers["mcp-session-id"]}
    assert status == 200
    assert web.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)[0] == 202
    call = {"name": "ask_user", "arguments": {"question": "Sure?", "type": "boolean"}}
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
    more = {"Content-Type": "application/json", "Mcp-Session-Id": headers["mcp-session-id"]}
    connection.request("POST", web.path, body, more)
    response = connection.getresponse()
    lines = iter(response.readline, b"")
    request = json.loads(next(line for line in lines if line.startswith(b"data: "))[6:])
    assert request["method"] == "elicitation/create"
    result = {"action": "accept", "content": {"answer": False}}
    reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    assert web.post(reply, **session)[0] == 202
    last = json.loads(next(line for line in lines if line.startswith(b"data: "))[6:])
    assert last["id"] == 2 and last["result"]["content"][0]["text"].endswith("\nfalse")
    connection.close()
    unknown = web.post({"jsonrpc": "2.0", "id": 3, "method": "ping"}, Mcp_Session_Id="nope")
    assert unknown[0] == 404


def connections(daemon: RunningDaemon) -> int:
    """Return the number of the daemon's connections besides the asking one."""
    with daemon.connect() as wire:
        found = wire.call("daemon/status")["connections"]
    assert isinstance(found, int)
    return found - 1


def test_closing_the_response_ends_the_wait_and_no_handle(
    web: Web, shared_daemon: RunningDaemon
) -> None:
    web.modern("tools/call", name="run", arguments={"id": "cat", "command": "cat"})
    # Only the end of the response ends this request.
    wanted = {"notifications": {"toolsListChanged": True}}
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    meta = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
    method = "subscriptions/listen"
    request = {"jsonrpc": "2.0", "id": 9, "method": method, "params": {**wanted, "_meta": meta}}
    more = {
        "Content-Type": "application/json",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    until(lambda: connections(shared_daemon) == 0)
    connection.request("POST", web.path, json.dumps(request), more)
    until(lambda: connections(shared_daemon) == 1)
    connection.close()
    until(lambda: connections(shared_daemon) == 0)
    listed = web.modern("tools/call", name="handle_list", arguments={})
    assert "cat: running" in listed["content"][0]["text"]


def test_the_roots_of_one_host_are_not_asked_for_where_all_share_a_server(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    """No stream is needed for the list: the server's own folder counts."""
    server = subprocess.Popen(
        [sys.executable, "-m", "haft", "mcp", "--http"],
        env=shared_daemon.env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    with server.stdout:
        web = Web(server.stdout.readline().strip())
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "x", "version": "1"},
        }
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = {"Mcp_Session_Id": web.post(first)[1]["mcp-session-id"]}
        call = {"name": "run", "arguments": {"command": "pwd"}}
        request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        try:
            _, _, [reply] = web.post(request, **session)
        finally:
            server.kill()
            server.wait()
    assert reply["result"]["content"][0]["text"].endswith(f"]\n{tmp_path}")


@pytest.mark.parametrize("params", [{"requestId": [1]}, {}, None, [1]])
def test_a_cancellation_of_nothing_is_taken(web: Web, params: Any) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    session = {"Mcp_Session_Id": web.post(first)[1]["mcp-session-id"]}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert web.post(cancel, **session)[0] == 202
    assert web.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}, **session)[0] == 200


UNSOUND = (
    (b"Host: [\r\n", b"403"),
    (b"Host: localhost\r\nOrigin: http://[\r\n", b"403"),
    (b"Host: localhost\r\nHost: evil.example\r\n", b"400"),
    (b"Host: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n", b"400"),
    (b"Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"411"),
    (b"Host: localhost\r\nContent-Length: \xb2\r\n", b"411"),
    (b"Host: localhost\r\nContent-Length: " + b"9" * 5000 + b"\r\n", b"413"),
    (b"Host: localhost\r\nContent-Length: 9\r\n", b"400"),
)


@pytest.mark.parametrize(("headers", "status"), UNSOUND)
def test_an_unsound_request_is_refused(web: Web, headers: bytes, status: bytes) -> None:
    """Also one whose body is shorter than it says."""
    with socket.create_connection(("127.0.0.1", web.port), 20) as client:
        client.sendall(
            b"POST %b HTTP/1.1\r\nContent-Type: application/json\r\n" % web.path.encode()
        )
        client.sendall(headers + b"\r\n{}")
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").readline().split()[1] == status
