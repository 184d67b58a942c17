from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.question_tools import asking, tool
from tests.running_daemon import RunningDaemon

Model = tuple[str, list[dict[str, Any]]]


@pytest.fixture
def model() -> Iterator[Model]:
    """A fake OpenAI server that answers every question with yes; return the request bodies."""
    bodies: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies.append(body)
            names = body["response_format"]["json_schema"]["schema"]["properties"]
            message = {"content": json.dumps(dict.fromkeys(names, True))}
            reply = {"choices": [{"message": message, "finish_reason": "stop"}]}
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
        server.shutdown()
        thread.join()


def test_parallel_questions_are_one_request_to_the_model(
    make_daemon: Callable[..., RunningDaemon], model: Model
) -> None:
    url, bodies = model
    settings = f'provider = "openai"\nmodel = "m"\nurl = "{url}"\ngather_ms = 4000\n'
    daemon = make_daemon(f'[inquiry]\nbackends = ["llm"]\n[inquiry.llm]\n{settings}')
    daemon.tools(tool("one", asking("a")) + tool("two", asking("b")))
    names = ("one", "two")
    calls = [
        {"id": f"c.{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]
    context = {"messages": [{"role": "assistant", "tool_calls": calls}]}
    with daemon.start().connect() as wire:
        wire.send(
            [
                {
                    "jsonrpc": "2.0",
                    "id": name,
                    "method": "tools/call",
                    "params": {"tool": name, "call_id": f"c.{name}", "context": context},
                }
                for name in names
            ]
        )
        results = [reply["result"]["result"] for reply in wire.receive()]
    assert results == ['{"a": true}', '{"b": true}']
    (body,) = bodies
    schema = body["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {f"tool_call.{name}.c.{name}" for name in names}
    paused = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    assert paused == ["Tool paused: a?", "Tool paused: b?"]
