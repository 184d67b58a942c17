"""The script of the conversation: each method at least once, and each error that a client can
cause. No step depends on the speed of the machine: each waits for its own effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

from .comparable import comparable, joined

CONFIG = """\
[daemon]
approval_timeout_s = 60
max_batch = 8

[toolpack]
enable = ["run", "shell"]
"""

TOOLS = r"""
[tools.greet]
source = "local"
summary = "Greet somebody."
command = ["printf", "hello %s", "{{ tool.arguments.name }}"]
parameters.name = { type = "string", required = true }
parameters.times = { type = "integer", default = 1 }

[tools.careful]
source = "local"
run = "ask"
command = ["echo", "{{ tool.arguments.what }}"]
parameters.what = { type = "string", default = "done" }

[tools.asks]
source = "local"
stateful = true
output = "outcome"
on_turn_end = "inquire"
command = ["sh", "-c", '''
case "$1" in *backup*) echo "{\"type\":\"success\",\"content\":\"answered\"}";;
*) echo "{\"type\":\"needs_input\",\"question\":{\"id\":\"backup\",\"text\":\"Back up?\",\"answer_type\":\"Boolean\"}}";; esac
''', "asks", "{{ tool.answers }}"]

[tools.waits]
source = "local"
stateful = true
on_turn_end = "abort"
command = ["cat"]
"""

_ROOTED = "[tools.rooted]\nsource = 'local'\ncommand = 'true'\n"


class _Talk:
    """A connection, with its messages in order."""

    def __init__(self, name: str, daemon: RunningDaemon) -> None:
        self.name = name
        self._daemon = daemon
        self.wire = daemon.connect()
        self.lines: list[dict[str, Any]] = []
        self._number = 0

    def send(self, message: Any) -> None:
        """Send a message without an immediate reply."""
        self._note("sent", message)
        self.wire.send(message)

    def ask(self, method: str, /, **params: Any) -> Any:
        """Send a request and take the next message of any kind."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self.hear()

    def hear(self) -> Any:
        """Take the next message."""
        message = self.wire.receive()
        self._note("received", message)
        return message

    def hear_until_stopped(self) -> None:
        """Take pushes up to the last state of a handle and the notification of its end."""
        messages: list[Any] = []
        ends = {"stopped", "tool.stopped"}
        while ends:
            messages.append(self.wire.receive())
            params = messages[-1].get("params", {})
            ends -= {params.get("state"), params.get("kind")}
        for message in joined(messages):
            self._note("received", message)

    def _note(self, direction: str, message: Any) -> None:
        folder = str(self._daemon.base)
        self.lines.append({"on": self.name, direction: comparable(message, folder)})


def converse(daemon: RunningDaemon) -> Iterator[dict[str, Any]]:
    """Hold the conversation with a daemon that has `CONFIG` and `TOOLS`, and stop the daemon."""
    root = daemon.base / "project"
    (root / ".haft" / "tools").mkdir(parents=True)
    (root / ".haft" / "tools" / "own.toml").write_text(_ROOTED)
    yield from _said(_hello(daemon))
    yield from _said(_handles(daemon))
    yield from _said(_errors(daemon))
    yield from _said(_tools(daemon, root))
    yield from _said(_questions(daemon))
    yield from _said(_approvals(daemon))
    yield from _said(_turns(daemon))
    yield from _said(_pushes(daemon))
    yield from _said(_open_inquiries(daemon))
    yield from _said(_ends(daemon))


def _said(talk: _Talk) -> list[dict[str, Any]]:
    talk.wire.close()
    return talk.lines


def _hello(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("hello", daemon)
    talk.ask("initialize", client={"name": "recorder", "version": "1"}, protocol=1)
    talk.ask("ping")
    talk.wire.send({"jsonrpc": "2.0", "id": 1, "method": "rpc.discover"})
    document = talk.wire.receive()["result"]
    talk.lines.append(
        {"on": "hello", "discovered": [method["name"] for method in document["methods"]]}
    )
    return talk


def _handles(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("handles", daemon)
    cat = {"tool": "run", "session": "h", "args": {"argv": ["cat"]}}
    talk.ask("spawn", id="cat", wait="none", call_id="c1", **cat)
    talk.ask("apply", session="h", id="cat", input={"line": "one"}, wait="output")
    talk.ask("output/timeline", session="h", id="cat", max_points=1)
    talk.ask("apply", session="h", id="cat", input="two\n", wait="pattern", pattern="tw(o)")
    talk.ask("fetch", session="h", id="cat")
    talk.ask("fetch", session="h", id="cat", cursor=4, view="raw")
    talk.ask("output/search", session="h", pattern="^t")
    talk.ask("apply", session="h", id="cat", input={"eof": True}, wait="stopped")
    talk.ask("spawn", id="cat", wait="stopped", call_id="c1", **cat)
    failing = {"argv": ["sh", "-c", "echo out; exit 3"]}
    talk.ask("spawn", session="h", tool="run", id="fails", args=failing, wait="stopped")
    talk.ask("await", session="h", all=["cat", "fails"])
    talk.ask("apply", session="h", id="fails", input="more")
    shell = {"rows": 5, "cols": 20}
    talk.ask("spawn", session="h", tool="shell", id="sh", args=shell, wait="input", view="screen")
    talk.ask("apply", session="h", id="sh", input={"line": "echo $((6*7))"}, view="answer")
    talk.ask("apply", session="h", id="sh", input={"resize": {"rows": 4, "cols": 30}}, wait="input")
    talk.ask("abort", session="h", id="sh", grace_ms=100)
    talk.ask("session/close", session="h")
    return talk


def _errors(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("errors", daemon)
    cat = {"tool": "run", "session": "e", "args": {"argv": ["cat"]}, "wait": "none"}
    talk.ask("spawn", id="cat", **cat)
    talk.ask("spawn", id="cat", **cat)
    talk.ask("spawn", id="bad id", **cat)
    talk.ask("fetch", session="e", id="nobody")
    talk.ask("fetch", session="e", id="cat", unknown=1)
    talk.ask("no/such")
    talk.send([])
    talk.hear()
    talk.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(9)])
    talk.hear()
    talk.wire.send_raw(b"{]\n")
    talk.hear()
    talk.ask("spawn", session="e", tool="gret", id="g")
    talk.ask("spawn", session="e", tool="run", id="g", args={"argv": ["/no/such/program"]})
    talk.ask("spawn", session="e", tool="greet", id="g", args={"nmae": "x", "times": "many"})
    talk.ask("apply", session="e", id="cat", input={"keys": ["F5"]})
    talk.ask("apply", session="e", id="cat", input={"line": 3})
    waits = {"session": "e", "id": "cat", "wait": "pattern", "pattern": "never"}
    talk.send({"jsonrpc": "2.0", "id": 7, "method": "fetch", "params": waits})
    talk.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 7}})
    talk.hear()
    talk.ask("session/close", session="e")
    talk.ask("apply", session="e", id="cat", input="x")
    return talk


def _tools(daemon: RunningDaemon, root: Path) -> _Talk:
    talk = _Talk("tools", daemon)
    talk.ask("tools/list")
    talk.ask("tools/list", provider="openai")
    talk.ask("tools/describe", tools=["greet", "waits"])
    talk.ask("tools/call", session="t", tool="greet", arguments={"name": "you"}, call_id="k1")
    talk.ask("tools/call", session="t", tool="greet", arguments={"action": "spawn", "id": "x"})
    spawned = {"action": "spawn", "id": "w"}
    talk.ask("tools/call", session="t", tool="waits", arguments=spawned, call_id="k2")
    batch = [
        {"tool": "waits", "arguments": {"action": "apply", "id": "w", "input": {"eof": True}}},
        {"tool": "await", "arguments": {"all": ["w"]}},
    ]
    talk.send(
        [
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"session": "t", "call_id": f"b{number}", **call},
            }
            for number, call in enumerate(batch)
        ]
    )
    talk.hear()
    talk.ask("notifications/drain", session="t")
    talk.ask("tools/reload")
    talk.ask("trust/show", root=str(root))
    talk.ask("spawn", session="t", root=str(root), tool="rooted", id="r")
    talk.wire.send(
        {"jsonrpc": "2.0", "id": 1, "method": "trust/show", "params": {"root": str(root)}}
    )
    digest = talk.wire.receive()["result"]["digest"]
    talk.ask("trust/grant", root=str(root), digest=digest)
    talk.ask("trust/list")
    talk.ask("spawn", session="t", root=str(root), tool="rooted", id="r", wait="stopped")
    talk.ask("trust/revoke", root=str(root))
    talk.ask("session/close", session="t")
    return talk


def _questions(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("questions", daemon)
    talk.ask("spawn", session="q", tool="asks", id="a", call_id="q1", wait="input")
    talk.ask("inquiries/list", session="q")
    inquiry = {"session": "q", "inquiry_id": "tool_call.asks.q1"}
    talk.ask("inquiries/answer", answer="perhaps", **inquiry)
    talk.ask("inquiries/answer", answer=True, **inquiry)
    talk.ask("fetch", session="q", id="a", wait="stopped")
    answering = _Talk("answering", daemon)
    client = {"client": {"name": "answerer"}, "protocol": 1, "session": "q"}
    answering.ask("initialize", capabilities={"inquiry": True}, **client)
    answering.ask("tools/call", tool="asks", arguments={}, call_id="q2")
    answering.send({"jsonrpc": "2.0", "id": "haft.1", "result": {"answer": True}})
    answering.hear()
    talk.lines += _said(answering)
    own = {"id": "own", "text": "Own?", "answer_type": {"type": "select", "options": [1]}}
    talk.ask("inquiries/ask", session="q", question=own, target="user", timeout_s=0)
    talk.ask("askpass", mark="0", prompt="Password: ")
    talk.ask("session/close", session="q")
    return talk


def _approvals(daemon: RunningDaemon) -> _Talk:
    talk, deciding = _Talk("approvals", daemon), _Talk("deciding", daemon)
    deciding.ask(
        "initialize",
        client={"name": "decider"},
        protocol=1,
        session="p",
        capabilities={"approval": True},
    )
    for number, reply in enumerate(
        (
            {"decision": "allow"},
            {"decision": "edit", "arguments": {"what": "changed"}},
            {"decision": "skip", "reason": "not now"},
            {"decision": "deny", "reason": "never"},
        )
    ):
        call = {"session": "p", "tool": "careful", "arguments": {}, "call_id": f"p{number}"}
        talk.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
        asked = deciding.hear()
        deciding.send({"jsonrpc": "2.0", "id": asked["id"], "result": reply})
        talk.hear()
    talk.lines += _said(deciding)
    spawn = {"session": "p", "tool": "careful", "id": "later", "wait": "stopped"}
    talk.send({"jsonrpc": "2.0", "id": 9, "method": "spawn", "params": spawn})
    with daemon.connect() as other:
        while not (open_now := other.call("approvals/list", session="p")["approvals"]):
            pass
        talk.lines.append({"on": "approvals", "open": comparable(open_now, str(daemon.base))})
        other.call(
            "approvals/decide",
            session="p",
            approval_id=open_now[0]["approval_id"],
            decision="allow",
        )
    talk.hear()
    talk.ask("approvals/decide", approval_id="gone", decision="allow")
    talk.ask("session/close", session="p")
    return talk


def _turns(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("turns", daemon)
    talk.ask("turn/begin", session="u")
    talk.ask("spawn", session="u", tool="waits", id="w", wait="none")
    talk.ask("session/list")
    talk.ask("turn/end", session="u")
    talk.ask("session/close", session="u")
    return talk


def _pushes(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("pushes", daemon)
    events = ["state", "output", "notification"]
    talk.ask("subscribe", session="s", events=["screen"])
    talk.ask("unsubscribe", subscription="sub.1")
    with daemon.connect() as wire:
        prints = {"argv": ["sh", "-c", "read x; echo one; echo two"]}
        wire.call("spawn", session="s", tool="run", id="p", args=prints, wait="none")
        talk.ask("subscribe", session="s", events=events, handles=["p"], **{"from": {"p": 0}})
        talk.hear()  # the state as it is
        _call(wire, "apply", session="s", id="p", input={"line": ""}, wait="none", max_bytes=0)
        talk.hear_until_stopped()
    talk.wire.close()
    talk.wire = daemon.connect()
    with daemon.connect() as wire:  # until the execution is cleared up, its use is in the row
        while "cpu_s" in wire.call("handles/list", session="s")["handles"][0]:
            pass
    talk.ask("handles/list", session="s")
    talk.ask("session/close", session="s")
    return talk


def _open_inquiries(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("open inquiries", daemon)
    with daemon.connect() as wire:
        _call(wire, "spawn", session="o", tool="asks", id="a", call_id="o1", wait="input")
        talk.ask("subscribe", session="*", events=["inquiries", "approvals"])
        talk.hear()  # the question that is open already
        _call(wire, "apply", session="o", id="a", input=True, wait="stopped")
        talk.hear()
        spawn = wire.start("spawn", session="o", tool="careful", id="c", wait="stopped")
        opened = talk.wire.receive()
        talk._note("received", opened)
        decided = {"approval_id": opened["params"]["approval_id"], "decision": "skip"}
        _call(wire, "approvals/decide", session="o", **decided)
        talk.hear()
        wire.finish(spawn)
    talk.ask("subscribe", session="*", events=["state"], handles=["a"])
    talk.ask("session/close", session="o")
    return talk


def _call(wire: Wire, method: str, **params: Any) -> None:
    wire.call(method, **params)


def _ends(daemon: RunningDaemon) -> _Talk:
    talk = _Talk("ends", daemon)
    talk.wire.send({"jsonrpc": "2.0", "id": 1, "method": "daemon/status"})
    status = talk.wire.receive()["result"]
    status.pop("path", None)  # there once the user's login shell has reported it
    talk.lines.append({"on": "ends", "status": _shape(status)})
    talk.ask("daemon/reload")
    talk.ask("daemon/shutdown", policy="abort")
    return talk


def _shape(value: Any) -> Any:
    """Return the names and types of fields that differ between runs."""
    if isinstance(value, dict):
        return {name: _shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [json.loads(one) for one in sorted({json.dumps(_shape(one)) for one in value})]
    return f"<{type(value).__name__}>"
