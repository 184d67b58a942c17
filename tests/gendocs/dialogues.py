"""The dialogues of README.md, docs/assistants.md and docs/mcp.md, held with a real daemon and
written down. All shown messages were sent. `…` stands for omitted fields, the middle of long
texts, and the answers of this git's prompt. Values that differ between runs are omitted;
paths stand for those of the test. `modify_file` is the example of docs/definitions.md."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.harness import until
from tests.mcp.transcript import transcript
from tests.repository import make_repository
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

_ROOT = Path(__file__).parents[2]
PAGES = (_ROOT / "README.md", _ROOT / "docs" / "assistants.md", _ROOT / "docs" / "mcp.md")

_TOOLS = """
[tools.deploy]
source = "local"
run = "ask"
output = "raw"
command = ["echo", "deployed to {{ tool.arguments.to }}"]
parameters.to = { type = "string", required = true }

[tools.server]
source = "local"
stateful = true
on_turn_end = "inquire"
command = ["sh", "-c", "echo 'listening on 8000'; exec sleep 300"]
parameters = {}
"""
_SCRIPTS = {
    "build": "echo compiling; read go <gates/build; echo '12 files compiled'",
    "check": "echo 'running 2 tests'; read go <gates/check; echo 'writes: FAILED'; exit 1",
}
_FOLDER = "/home/me/poem"
"""The root of the calls, as the pages show the test's folder."""
_MORE = "…"
_STATE = ("state", "content", "input_wanted", "result", "error")


class _Host:
    """A host's connection, with its messages."""

    def __init__(self, daemon: RunningDaemon, session: str, root: Path) -> None:
        self.wire = Wire(daemon.socket)
        self.root = root
        self.session = session
        self.lines: list[str] = []
        self._id = 0
        able = {"inquiry": True, "approval": True}
        self.wire.call(
            "initialize",
            client={"name": "host"},
            protocol=1,
            session=session,
            capabilities=able,
        )

    def asks(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Send a request or a batch."""
        requests: list[dict[str, Any]] = []
        for method, params in calls:
            self._id += 1
            root = {"root": _FOLDER} if _starts_tool(method, params) else {}
            requests.append({"id": self._id, "method": method, "params": {**params, **root}})
        self.shown("→", requests)
        root = {"root": str(self.root)}
        sent = [
            {"jsonrpc": "2.0", **request, "params": {**request["params"], **root}}
            if "root" in request["params"]
            else {"jsonrpc": "2.0", **request}
            for request in requests
        ]
        self.wire.send(sent if len(sent) > 1 else sent[0])

    def initializes(self, capability: str) -> None:
        """Show the `initialize` without which the daemon sends this connection no request."""
        named = {"client": {"name": "host"}, "protocol": 1, "session": "talk-7"}
        self.asks(("initialize", {**named, "capabilities": {capability: True}}))
        self.hears("session")

    def calls(self, *calls: tuple[str, dict[str, Any]], **more: Any) -> None:
        self.asks(
            *(("tools/call", {"tool": tool, "arguments": given, **more}) for tool, given in calls)
        )

    def hears(self, *fields: str) -> Any:
        """Receive a reply, a batch of replies or a request, and show these fields of its body."""
        message = self.wire.receive()
        shown = message if isinstance(message, list) else [message]
        self.shown("←", [_abridged(message, fields) for message in shown])
        return message

    def replies(self, request: Any, result: dict[str, Any]) -> None:
        self.shown("→", [{"id": request["id"], "result": result}])
        self.wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def says(self, **more: Any) -> None:
        """Call the git tool on the handle, and receive the state."""
        self.calls(("git_stage", {**more}))
        self.hears(*_STATE)

    def shown(self, arrow: str, messages: list[Any]) -> None:
        texts = [_text(message) for message in messages]
        whole = f"[{(',' + chr(10) + '   ').join(texts)}]" if len(texts) > 1 else texts[0]
        self.lines.append(f"{arrow} {whole}")

    def end(self) -> list[str]:
        self.wire.call("session/close")
        self.wire.close()
        return self.lines


def _starts_tool(method: str, params: dict[str, Any]) -> bool:
    """Return true if a request starts a program, which needs a folder to run in."""
    return (
        method == "tools/call"
        and params["tool"] != "await"
        and params["arguments"].get("action", "spawn") == "spawn"
    )


def modify_file() -> str:
    """Return the definition of `modify_file` that docs/definitions.md shows."""
    page = (_ROOT / "docs" / "definitions.md").read_text()
    (example,) = re.findall(r"^```toml\n(\[tools\.modify_file\]\n.*?)^```$", page, re.M | re.S)
    return str(example)


def dialogues(folder: Path) -> dict[str, str]:
    """All of them by name, held with a daemon in this folder."""
    root = make_repository(folder / "poem")
    (root / "gates").mkdir()
    for name, script in _SCRIPTS.items():
        os.mkfifo(root / "gates" / name)
        (root / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / name).chmod(0o755)
    daemon = RunningDaemon(folder / "daemon")
    daemon.tools(_TOOLS + modify_file().replace('"python3"', json.dumps(sys.executable)))
    daemon.start()
    try:
        made = {
            held.__name__.strip("_"): "\n".join(held(_Host(daemon, held.__name__.strip("_"), root)))
            for held in (
                *(_list, _staging, _batch, _question, _pulled),
                *(_approval, _notice, _turn),
            )
        }
        return {**made, "mcp": transcript(daemon, folder)}
    finally:
        daemon.close()


def filled(text: str, made: dict[str, str]) -> str:
    """Return a page with its marked blocks renewed; raise KeyError for an unknown block."""
    return re.sub(
        r"(<!-- made: (\w+) -->\n```\n).*?(```\n<!-- /made -->)",
        lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def _list(host: _Host) -> list[str]:
    host.asks(("tools/list", {"provider": "openai"}))
    listed = host.wire.receive()
    (tool,) = [tool for tool in listed["result"]["tools"] if tool["name"] == "modify_file"]
    shown = {key: tool[key] for key in ("name", "parameters", "stateful")}
    result = {"tools": [{**shown, _MORE: 0}, _MORE]}
    host.shown("←", [{"id": listed["id"], "result": {**result, _MORE: 0}}])
    return host.end()


def _staging(host: _Host) -> list[str]:
    host.says(action="spawn", id="staging")
    for answer in ("y", "n", "y"):
        host.says(action="apply", id="staging", input={"line": answer})
    return host.end()


def _batch(host: _Host) -> list[str]:
    both = ("build", "check")
    host.calls(
        *(("run", {"action": "spawn", "id": id, "argv": [f"./{id}"]}) for id in both),
        ("await", {"all": list(both)}),
    )
    _begun(host, *both)
    for id in both:
        (host.root / "gates" / id).write_text("go\n")
    # On a busy machine the first line comes after the reply of spawn, so that is not shown there.
    host.hears("id", "state", "completed", "pending")
    host.calls(*(("run", {"action": "fetch", "id": id, "view": "all"}) for id in both))
    host.hears("id", *_STATE)
    return host.end()


def _question(host: _Host) -> list[str]:
    host.initializes("inquiry")
    host.calls(("modify_file", {"path": "poem.txt"}), call_id="call_7")
    asked = host.hears("inquiry_id", "question")
    host.replies(asked, {"answer": True})
    host.hears("state", "result", "call_id")
    return host.end()


def _pulled(host: _Host) -> list[str]:
    host.wire.call("initialize", client={"name": "host"}, protocol=1, session=host.session)
    with Wire(host.wire.sock.getpeername()) as other:
        number = other.start(
            "tools/call",
            tool="ask_user",
            arguments={"question": "Which?", "options": ["this", "that"]},
            session=host.session,
            call_id="call_8",
        )
        until(lambda: host.wire.call("inquiries/list")["inquiries"], "it is asked")
        host.asks(("inquiries/list", {}))
        listed = host.wire.receive()
        (inquiry,) = listed["result"]["inquiries"]
        shown = {**{key: inquiry[key] for key in ("inquiry_id", "question", "target")}, _MORE: 0}
        host.shown("←", [{"id": listed["id"], "result": {"inquiries": [shown]}}])
        answer = {"inquiry_id": "tool_call.ask_user.call_8", "answer": "that"}
        host.asks(("inquiries/answer", answer))
        host.hears()
        other.finish(number)
    return host.end()


def _approval(host: _Host) -> list[str]:
    host.initializes("approval")
    host.calls(("deploy", {"to": "prod"}))
    asked = host.hears("tool", "action", "arguments", "rendered")
    host.replies(asked, {"decision": "edit", "arguments": {"to": "staging"}})
    host.hears("state", "result")
    return host.end()


def _notice(host: _Host) -> list[str]:
    spawn = {"tool": "run", "args": {"argv": ["./check"]}, "root": str(host.root)}
    host.wire.call("spawn", id="check", **spawn)
    (host.root / "gates" / "check").write_text("go\n")
    with Wire(host.wire.sock.getpeername()) as other:
        # A read by cursor takes no notices.
        other.call("fetch", session=host.session, id="check", wait="stopped", cursor=0)
    host.calls(("run", {"argv": ["git", "diff", "--stat"]}))
    message = host.wire.receive()
    for notice in message["result"]["notifications"]:
        for key in set(notice) - {"kind", "level", "message"}:
            notice.pop(key)
        notice[_MORE] = 0
    host.shown("←", [_abridged(message, ("state", "result", "notifications"))])
    return host.end()


def _turn(host: _Host) -> list[str]:
    for id in ("web", "old"):
        host.wire.call("spawn", tool="server", id=id)
    host.asks(("turn/end", {}))
    asked = host.wire.receive()
    question = {**asked["params"]["question"], "pre_amble": _MORE}
    for choice in question["answer_type"]["fields"].values():
        choice["text"] = _MORE
    asked["params"]["question"] = question
    host.shown("←", [_abridged(asked, ("inquiry_id", "question"))])
    host.replies(asked, {"answer": {"web": "keep", "old": "abort"}})
    ended = host.wire.receive()
    for row in ended["result"]["handles"]:
        for key in set(row) - {"id", "state", "ended_by"}:
            row.pop(key)
        row[_MORE] = 0
    host.shown("←", [_abridged(ended, ("handles", "inquired"))])
    return host.end()


def _begun(host: _Host, *ids: str) -> None:
    """Wait until the handles have printed."""
    with Wire(host.wire.sock.getpeername()) as other:
        for id in ids:
            until(partial(_is_there, other, host.session, id), f"{id} is spawned")
            other.call("fetch", session=host.session, id=id, wait="output", cursor=0)


def _is_there(wire: Wire, session: str, id: str) -> bool:
    return any(row["id"] == id for row in wire.call("handles/list", session=session)["handles"])


def _abridged(message: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return a message without `jsonrpc`, with only these fields of its body."""
    shown = {key: value for key, value in message.items() if key != "jsonrpc"}
    for part in ("result", "params"):
        if part in shown:
            body = shown[part]
            shown[part] = {key: _cut(key, body[key]) for key in fields if key in body}
            if set(body) - set(fields):
                shown[part][_MORE] = 0
    return shown


def _cut(key: str, value: Any) -> Any:
    """Return a field as shown: a list of handles by ids and states."""
    if key in ("completed", "pending"):
        return [{"id": state["id"], "state": state["state"], _MORE: 0} for state in value]
    if key == "input_wanted" and value is not None:
        return {"kind": value["kind"], _MORE: 0}
    if key == "error":
        return {"message": value["message"], _MORE: 0}
    return value


def _changes(text: str) -> str:
    """Return a hunk's changed lines, and its last line."""
    *lines, last = text.split("\n")
    changed = [line for line in lines if re.match(r"[-+](?![-+])", line)]
    return "\n".join([_MORE, *changed, _MORE, last]) if changed else text


def _text(message: Any) -> str:
    """Return a message as printed."""

    def shortened(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shortened(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [shortened(entry) for entry in value]
        if not isinstance(value, str):
            return value
        # The answers that a prompt offers differ between versions of git.
        value = re.sub(r"\[y,n,[^\]]*\]", "[y,n,…]", value)
        return value if len(value) <= 100 else _changes(value)

    text = json.dumps(shortened(message), ensure_ascii=False, separators=(",", ":"))
    return text.replace(f'"{_MORE}":0', _MORE).replace(f'"{_MORE}"', _MORE)
