"""The recorded conversation of each provider, replayed: a host, a real daemon, and a local
server with the provider's rules. The host sends haft's own list of tools and gets a call; the
tool asks, the daemon puts the question to the same model, the tool is run again with the
answer, and the host goes on with its result."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from haftd.config.inquiry_settings import ProviderName
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

from .recorded_conversations import NAMES, Recorded, recorded
from .request_judges import KEY, judge
from .scripted_provider import Raw, Server, serving

MODIFIES = """
import json, os
call = json.loads(os.environ["HAFT_CALL"])["tool"]
if "backup" not in call["answers"]:
    question = {"id": "backup", "text": "Create backup files?", "answer_type": {"type": "boolean"}}
    raise SystemExit(print(json.dumps({"type": "needs_input", "question": question})))
path = call["arguments"]["path"]
kept = f", backup in {path}.bak" if call["answers"]["backup"] else ""
print(json.dumps({"type": "success", "content": f"{path} modified{kept}"}))
"""
TOOLS = f"""
[tools.modify_file]
source = "local"
summary = "Change a file by patterns."
output = "outcome"
command = ["{sys.executable}", "-I", "-S", "-c", '''{MODIFIES}''']

[tools.modify_file.parameters]
path = {{ type = "string", required = true }}
patterns = {{ type = "array", required = true, items = {{ type = "object", properties = {{ old = {{ type = "string" }}, new = {{ type = "string" }} }} }} }}

[tools.modify_file.questions]
backup = {{ target = "assistant" }}
"""
ARGUMENTS = {"path": "report.py", "patterns": [{"old": "Total", "new": "Sum"}]}
DONE = "report.py modified, backup in report.py.bak"


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Serve from a thread."""
    up, stop = threading.Event(), trio.Event()
    token: list[trio.lowlevel.TrioToken] = []

    async def serve() -> None:
        async with serving(server):
            token.append(trio.lowlevel.current_trio_token())
            up.set()
            await stop.wait()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    try:
        assert up.wait(20)
        yield server
    finally:
        token[0].run_sync_soon(stop.set)
        thread.join(20)


def begin(
    make_daemon: Callable[..., RunningDaemon], said: Recorded, server: Server, more: str = ""
) -> RunningDaemon:
    """Start a daemon whose questions go to the model at that server, with the key in a file."""
    settings = said.settings(server.url)
    daemon = make_daemon()
    key = daemon.base / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o600)
    daemon.tools(TOOLS)
    (daemon.config / "haft" / "config.toml").write_text(
        f"""
[inquiry]
backends = ["client", "llm"]
[inquiry.llm]
provider = "{settings.provider}"
model = "{settings.model}"
url = "{settings.url}"
key_file = "{key}"
{more}
"""
    )
    return daemon.start()


def shown(daemon: RunningDaemon) -> str:
    """All that the daemon has written down."""
    return daemon.log_text() + (daemon.state / "haft" / "audit.jsonl").read_text()


def post(said: Recorded, server: Server, body: Any) -> Any:
    """Send a host's request to the provider; return the reply."""
    key = {"anthropic": "x-api-key", "google": "x-goog-api-key"}.get(said.provider, "authorization")
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    headers[key] = f"Bearer {KEY}" if key == "authorization" else KEY
    path = {
        "openai": "/v1/chat/completions",
        "anthropic": "/v1/messages",
        "google": f"/v1beta/models/{said.said['model']}:generateContent",
        "ollama": "/api/chat",
    }[said.provider]
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=20) as reply:
        return json.load(reply)


@pytest.mark.parametrize("provider", NAMES)
def test_a_recorded_conversation_is_replayed(
    make_daemon: Callable[..., RunningDaemon], provider: ProviderName
) -> None:
    recording = recorded(provider)
    steps = [recording.reply(part) for part in ("opens", "inquires", "goes_on")]
    with served(Server(steps, judge(provider))) as server:
        daemon = begin(make_daemon, recording, server)
        with daemon.connect() as wire:
            assert wire.call("daemon/status")["problems"] == []
            tools = wire.call("tools/list", provider=provider)["tools"]
            assert {"modify_file", "run", "await"} <= {tool["name"] for tool in tools}
            wrapped = recording.wrapped(tools)
            called = post(recording, server, recording.asks("opens", wrapped))
            assert called == recording.reply("opens")
            done = wire.call(
                "tools/call",
                tool="modify_file",
                arguments=ARGUMENTS,
                call_id=recording.said["call"],
                context=recording.context(wrapped),
            )
            assert done["result"] == DONE
            last = post(recording, server, recording.asks("goes_on", wrapped))
            assert last == recording.reply("goes_on")
        assert server.faults == []
        assert server.asked[1].body == recording.asks("inquires", wrapped)
        written = shown(daemon)
        assert f'"by":"llm","provider":"{provider}"' in written.replace(", ", ",").replace(
            ": ", ":"
        )
        assert KEY not in written and "Rename" not in written


def test_an_unavailable_model_stops_the_tool_without_asking_a_user(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """A missing key is listed among the problems, and corrected without a restart."""
    recording = recorded("openai")
    refuses = Raw(400, b'{"error": {"message": "canary", "type": "invalid_request_error"}}')
    with served(Server([recording.reply("inquires"), refuses], judge("openai"))) as server:
        daemon = begin(make_daemon, recording, server)
        key: Path = daemon.base / "key"
        key.chmod(0o644)
        with daemon.connect() as wire:

            def call(name: str) -> str:
                arguments = {"tool": "modify_file", "arguments": ARGUMENTS, "call_id": name}
                with pytest.raises(Refused) as refused:
                    result = wire.call("tools/call", **arguments)
                    raise Refused({"code": 0, "message": result["error"]["message"]})
                return refused.value.message

            assert "mode 0644" in call("a") and server.asked == []
            (problem,) = wire.call("daemon/reload")["problems"]
            assert problem["key"] == "inquiry.llm" and "chmod 600" in problem["message"]
            key.chmod(0o600)
            assert wire.call("daemon/reload")["problems"] == []
            name = recording.said["call"]
            done = wire.call("tools/call", tool="modify_file", arguments=ARGUMENTS, call_id=name)
            assert done["result"] == DONE
            message = call("c")
            assert "HTTP 400 invalid_request_error" in message and "canary" not in message
            assert wire.call("inquiries/list")["inquiries"] == []
        assert KEY not in shown(daemon) and "canary" not in shown(daemon)
