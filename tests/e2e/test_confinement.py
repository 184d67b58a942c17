"""Confinement: a tool's processes act in their own session and decide nothing for a user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.host.launch import landlock
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

NOT_AUTHORIZED = -32006

ASK = """
import json, os, socket, sys
setup, path, calls = json.loads(sys.argv[1])
if setup == "orphan":
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    while os.getppid() == os.getsid(0):
        pass
if setup == "left":
    if os.fork():
        os._exit(0)
    while os.path.exists(f"/proc/{os.getsid(0)}"):
        os.sched_yield()
def make(calls):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(path)
        replies = []
        for number, (method, params) in enumerate(calls):
            ask = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            wire.sendall(json.dumps(ask).encode() + b"\\n")
            reply = b""
            while not reply.endswith(b"\\n"):
                reply += wire.recv(65536)
            replies.append(json.loads(reply))
        return replies
make([("ping", {})])
replies = make(calls)
line = json.dumps(replies)
if len(sys.argv) > 2:
    with open(sys.argv[2] + ".part", "w") as file:
        file.write(line)
    os.rename(sys.argv[2] + ".part", sys.argv[2])
else:
    print(line, flush=True)
"""
"""A program that makes calls on its second connection and prints the replies. Its arguments are JSON, so that no test quotes."""

QUESTION = {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}}
ASKED = json.dumps(json.dumps({"type": "needs_input", "question": QUESTION}))
SURE = f"{{ program = 'if [ {{{{ tool.answers.sure }}}} = true ]; then echo went; else echo {ASKED}; fi', shell = true }}"
"""A command that asks whether to go, and goes."""

TOOLS = f"""
[tools.free]
output = "raw"
stateful = true
may = ["handles", "approvals", "questions"]
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", {{ each = "tool.arguments.words" }}]
parameters.code = {{ type = "string" }}
parameters.words = {{ type = "array", items = {{ type = "string" }}, default = [] }}

[tools.looker]
output = "raw"
stateful = true
may = ["handles"]
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", {{ each = "tool.arguments.words" }}]
parameters.code = {{ type = "string" }}
parameters.words = {{ type = "array", items = {{ type = "string" }}, default = [] }}

[tools.careful]
output = "raw"
command = ["echo", "done"]
run = "ask"

[tools.asks]
command = {SURE}
questions.sure.target = "user"

[tools.trusted]
may = ["handles"]
command = {SURE}
"""


class Rig:
    """A daemon, a user's connection, and programs that haftd runs."""

    def __init__(self, daemon: RunningDaemon, wire: Wire) -> None:
        self.daemon = daemon
        self.person = wire

    def inside(
        self, *calls: tuple[str, dict[str, Any]], tool: str = "run", session: str = "mine"
    ) -> list[dict[str, Any]]:
        """Make calls from within a handle of the session and return the replies."""
        words = [json.dumps(["", str(self.daemon.socket), calls])]
        args: dict[str, Any] = {"argv": [sys.executable, "-c", ASK, *words]}
        if tool != "run":
            args = {"code": ASK, "words": words}
        state = self.person.call(
            "spawn", tool=tool, id="within", session=session, args=args, wait="stopped"
        )
        assert "result" in state, state["content"] + repr(state["error"])
        replies: list[dict[str, Any]] = json.loads(state["result"])
        return replies

    def refusal(self, method: str, session: str = "mine", **params: Any) -> str:
        """Make a call from within a handle and return the refusal."""
        (reply,) = self.inside((method, params), session=session)
        assert "error" in reply, reply
        assert reply["error"]["code"] == NOT_AUTHORIZED, reply
        message: str = reply["error"]["message"]
        return message


@pytest.fixture(scope="module")
def tools_daemon() -> Iterator[RunningDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(TOOLS)
    yield daemon.start()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def rig(tools_daemon: RunningDaemon) -> Iterator[Rig]:
    """The module's daemon, without a session before and after."""
    with tools_daemon.connect() as wire:
        yield Rig(tools_daemon, wire)
    with tools_daemon.connect() as wire:
        for session in wire.call("session/list")["sessions"]:
            wire.call("session/close", session=session["session"])


@pytest.fixture
def own_rig(make_daemon: Callable[..., RunningDaemon]) -> Iterator[Rig]:
    """A daemon of the test's own, for its definitions and its audit log."""
    daemon = make_daemon()
    daemon.tools(TOOLS)
    with daemon.start().connect() as wire:
        yield Rig(daemon, wire)


@pytest.fixture
def other(rig: Rig) -> str:
    """A handle of another session."""
    rig.person.call(
        "spawn", tool="run", id="theirs", session="other", args={"argv": ["cat"]}, wait="none"
    )
    return "theirs"


OF_A_HANDLE: list[tuple[str, dict[str, Any]]] = [
    ("fetch", {"id": "theirs"}),
    ("apply", {"id": "theirs", "input": "x\n"}),
    ("abort", {"id": "theirs"}),
    ("await", {"all": ["theirs"]}),
    ("output/search", {"pattern": "x"}),
    ("output/search", {"pattern": "x", "ids": ["theirs"]}),
    ("subscribe", {"events": ["output"]}),
    ("subscribe", {"events": ["output"], "handles": ["theirs"]}),
    ("handles/list", {}),
    ("session/close", {}),
    ("turn/begin", {}),
    ("turn/end", {}),
    ("notifications/drain", {}),
    ("inquiries/list", {}),
    ("approvals/list", {}),
    ("spawn", {"tool": "run", "id": "new", "args": {"argv": ["true"]}}),
    ("tools/call", {"tool": "run", "arguments": {"action": "fetch", "id": "theirs"}}),
    ("tools/call", {"tool": "await", "arguments": {"all": ["theirs"]}}),
    ("tools/call", {"tool": "run", "arguments": {"argv": ["true"]}}),
    ("initialize", {"client": {"name": "sly", "version": "0"}, "protocol": 1}),
]


def test_a_tool_cannot_use_another_session(rig: Rig, other: str) -> None:
    calls = [(method, {**params, "session": "other"}) for method, params in OF_A_HANDLE]
    for (method, _), reply in zip(calls, rig.inside(*calls), strict=True):
        assert reply.get("error", {}).get("code") == NOT_AUTHORIZED, (method, reply)
        message = reply["error"]["message"]
        assert "'within'" in message and "'mine'" in message and "'other'" in message
    state = rig.person.call("fetch", id="theirs", session="other")
    assert (state["state"], state["content"]) == ("running", "")
    assert [row["id"] for row in rig.person.call("handles/list", session="other")["handles"]] == [
        "theirs"
    ]


def test_listing_all_sessions_is_refused(rig: Rig) -> None:
    calls = [(name, {"session": "*"}) for name in ("handles/list", "inquiries/list")]
    calls += [("approvals/list", {"session": "*"}), ("session/list", {})]
    for reply in rig.inside(*calls):
        assert reply["error"]["code"] == NOT_AUTHORIZED, reply


def test_a_batch_of_spawns_in_another_session_runs_nothing(rig: Rig) -> None:
    code = f"""
import json, socket
wire = socket.socket(socket.AF_UNIX)
wire.connect({str(rig.daemon.socket)!r})
params = {{"tool": "run", "args": {{"argv": ["true"]}}, "session": "other"}}
ask = [{{"jsonrpc": "2.0", "id": n, "method": "spawn", "params": {{**params, "id": f"b{{n}}"}}}} for n in range(2)]
wire.sendall(json.dumps(ask).encode() + b"\\n")
print(wire.recv(65536).decode())
"""
    args = {"argv": [sys.executable, "-c", code]}
    state = rig.person.call("spawn", tool="run", id="b", session="mine", args=args, wait="stopped")
    assert [reply["error"]["code"] for reply in json.loads(state["result"])] == [NOT_AUTHORIZED] * 2
    assert rig.person.call("handles/list", session="other")["handles"] == []


def test_a_tool_uses_its_own_session_without_naming_it(rig: Rig) -> None:
    cat = {"tool": "run", "id": "beside", "args": {"argv": ["cat"]}, "wait": "none"}
    replies = rig.inside(
        ("spawn", cat),
        ("apply", {"id": "beside", "input": "hello\n", "wait": "output"}),
        ("handles/list", {}),
        ("abort", {"id": "beside", "session": "mine"}),
    )
    assert [reply["result"].get("state") for reply in replies] == [
        "running",
        "running",
        None,
        "stopped",
    ]
    assert replies[0]["result"]["session"] == "mine"
    assert {reply["id"] for reply in replies[2]["result"]["handles"]} == {"within", "beside"}


def test_a_tool_cannot_decide_pending_approvals(rig: Rig) -> None:
    waiting = rig.person.start("spawn", tool="careful", id="c", session="mine")
    (approval,) = _until(rig, "approvals/list", "approvals", session="mine")
    decide = {"approval_id": approval["approval_id"], "decision": "allow"}
    message = rig.refusal("approvals/decide", **decide)
    assert "person" in message and "'within'" in message
    assert rig.person.call("approvals/list", session="mine")["approvals"] == [approval]
    rig.person.call("approvals/decide", session="mine", **decide)
    assert rig.person.finish(waiting)["state"] in ("running", "stopped")


def test_a_tool_is_not_asked_to_approve(rig: Rig) -> None:
    """The tool declares approval support and starts the call in question itself."""
    code = f"""
import json, socket
wire = socket.socket(socket.AF_UNIX)
wire.connect({str(rig.daemon.socket)!r})
def send(number, method, **params):
    ask = {{"jsonrpc": "2.0", "id": number, "method": method, "params": params}}
    wire.sendall(json.dumps(ask).encode() + b"\\n")
send(1, "initialize", client={{"name": "sly", "version": "0"}}, protocol=1, capabilities={{"approval": True}})
send(2, "spawn", tool="careful", id="c")
file = wire.makefile()
for line in file:
    message = json.loads(line)
    print(message.get("method"), message.get("id"), flush=True)
    if message.get("method") == "approval/ask":
        reply = {{"jsonrpc": "2.0", "id": message["id"], "result": {{"decision": "allow"}}}}
        wire.sendall(json.dumps(reply).encode() + b"\\n")
    if message.get("id") == 2:
        break
"""
    args = {"argv": [sys.executable, "-c", code]}
    rig.person.call("spawn", tool="run", id="sly", session="mine", args=args, wait="none")
    (approval,) = _until(rig, "approvals/list", "approvals", session="mine")
    rig.person.call(
        "approvals/decide", session="mine", approval_id=approval["approval_id"], decision="deny"
    )
    state = rig.person.call("fetch", id="sly", session="mine", wait="stopped")
    assert "approval/ask" not in state["result"]


def test_a_tool_cannot_answer_a_users_question(rig: Rig) -> None:
    state = rig.person.call(
        "spawn", tool="asks", id="a", session="mine", wait="input", timeout_ms=20_000
    )
    assert state["state"] == "waiting", state
    (inquiry,) = rig.person.call("inquiries/list", session="mine")["inquiries"]
    params = {"inquiry_id": inquiry["inquiry_id"], "answer": True}
    assert "person" in rig.refusal("inquiries/answer", **params)
    assert "person" in rig.refusal("apply", id="a", input=True)
    assert rig.person.call("fetch", id="a", session="mine")["state"] == "waiting"
    rig.person.call("inquiries/answer", session="mine", **params)
    state = rig.person.call("fetch", id="a", session="mine", wait="stopped")
    assert state["result"] == "went\n"


def test_a_tool_does_not_see_other_sessions_questions(rig: Rig) -> None:
    for session in ("mine", "other"):
        state = rig.person.call(
            "spawn", tool="asks", id="a", session=session, wait="input", timeout_ms=20_000
        )
        assert state["state"] == "waiting", state
    (reply,) = rig.inside(("daemon/status", {}))
    assert [question["session"] for question in reply["result"]["questions"]] == ["mine"]
    questions = rig.person.call("daemon/status")["questions"]
    assert {message["session"] for message in questions} == {"mine", "other"}


def test_a_tool_neither_stops_the_daemon_nor_reloads_approval_policies(
    rig: Rig, other: str
) -> None:
    for method in ("daemon/shutdown", "daemon/reload", "tools/reload"):
        assert "'within'" in rig.refusal(method)
    assert rig.person.call("fetch", id="theirs", session="other")["state"] == "running"


def test_the_users_own_definition_grants_rights(rig: Rig, other: str) -> None:
    waiting = rig.person.start("spawn", tool="careful", id="c", session="other")
    (approval,) = _until(rig, "approvals/list", "approvals", session="other")
    decide = {"approval_id": approval["approval_id"], "decision": "allow", "session": "other"}
    fetch = {"id": "theirs", "session": "other"}
    calls = [("handles/list", {"session": "*"}), ("fetch", fetch), ("approvals/decide", decide)]
    looked, fetched, decided = rig.inside(*calls, tool="looker", session="other")
    assert "result" in looked and "result" in fetched
    assert decided["error"]["code"] == NOT_AUTHORIZED
    assert all("result" in reply for reply in rig.inside(*calls, tool="free"))
    assert rig.person.finish(waiting)["id"] == "c"


def test_a_tool_cannot_borrow_the_rights_of_another_definition(rig: Rig) -> None:
    rig.person.call(
        "spawn",
        tool="free",
        id="shell",
        session="mine",
        args={"code": "import sys; sys.stdin.read()"},
        wait="none",
    )
    replies = rig.inside(
        ("spawn", {"tool": "free", "id": "own", "args": {"code": "pass"}}),
        ("apply", {"id": "shell", "input": "haft approve --allow\n"}),
        ("fetch", {"id": "shell"}),
        ("abort", {"id": "shell"}),
        ("await", {"all": ["shell"]}),
        ("subscribe", {"events": ["output"], "handles": ["shell"]}),
        ("output/search", {"pattern": "x", "ids": ["shell"]}),
    )
    for reply in replies:
        assert reply["error"]["code"] == NOT_AUTHORIZED, reply
    listed, _ = rig.inside(("handles/list", {}), ("session/close", {}))
    assert {row["id"] for row in listed["result"]["handles"]} == {"within"}
    assert rig.person.call("fetch", id="shell", session="mine")["state"] == "running"


def test_a_tool_neither_sees_nor_answers_questions_of_a_more_privileged_handle(rig: Rig) -> None:
    state = rig.person.call(
        "spawn", tool="trusted", id="t", session="mine", wait="input", timeout_ms=20_000
    )
    assert state["state"] == "waiting", state
    (inquiry,) = rig.person.call("inquiries/list", session="mine")["inquiries"]
    params = {"inquiry_id": inquiry["inquiry_id"], "answer": True}
    listed, answered, told = rig.inside(
        ("inquiries/list", {}), ("inquiries/answer", params), ("daemon/status", {})
    )
    assert listed["result"]["inquiries"] == [] and "questions" not in told["result"]
    assert "error" in answered, answered
    assert rig.person.call("fetch", id="t", session="mine")["state"] == "waiting"
    rig.person.call("inquiries/answer", session="mine", **params)
    assert rig.person.call("fetch", id="t", session="mine", wait="stopped")["result"] == "went\n"


def test_models_are_not_offered_tools_that_act_for_a_user(rig: Rig) -> None:
    listed = {tool["name"] for tool in rig.person.call("tools/list")["tools"]}
    assert {"careful", "asks"} <= listed and not listed & {"free", "looker"}
    with pytest.raises(Refused) as caught:
        rig.person.call(
            "tools/call",
            tool="free",
            arguments={"action": "spawn", "id": "m", "code": "pass"},
        )
    assert caught.value.code == NOT_AUTHORIZED
    with pytest.raises(Refused) as caught:
        rig.person.call("tools/call", tool="nobody", arguments={})
    assert "free" not in caught.value.message


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("handle_send", {"id": "p", "line": "x"}),
        ("handle_send", {"id": "p", "signal": "INT"}),
        ("handle_read", {"id": "p"}),
        ("handle_stop", {"ids": ["p"]}),
        ("handle_wait", {"ids": ["p"], "wait_s": 0}),
        ("await", {"all": ["p"], "timeout_secs": 0}),
    ],
)
def test_a_model_cannot_use_a_handle_that_acts_for_a_user(
    rig: Rig, verb: str, arguments: dict[str, Any]
) -> None:
    rig.person.call("spawn", tool="free", id="p", args={"code": "input()"}, wait="none")
    more = {} if verb == "await" else {"surface": "verbs"}
    with pytest.raises(Refused) as caught:
        rig.person.call("tools/call", tool=verb, arguments=arguments, **more)
    assert caught.value.code == NOT_AUTHORIZED
    assert rig.person.call("fetch", id="p")["state"] == "running"


def test_a_handle_keeps_its_rights_whatever_its_definition_becomes(
    own_rig: Rig,
) -> None:
    own_rig.person.call("spawn", tool="free", id="p", args={"code": "input()"}, wait="none")
    own_rig.daemon.tools(TOOLS.replace('may = ["handles", "approvals", "questions"]', ""))
    own_rig.person.call("daemon/reload")
    typed = {"action": "apply", "id": "p", "input": {"line": "x"}}
    with pytest.raises(Refused) as caught:
        own_rig.person.call("tools/call", tool="free", arguments=typed)
    assert caught.value.code == NOT_AUTHORIZED
    assert own_rig.person.call("fetch", id="p")["state"] == "running"


def test_a_project_root_grants_nothing(rig: Rig, tmp_path: Path) -> None:
    tools = tmp_path / ".haft" / "tools"
    tools.mkdir(parents=True)
    (tools / "a.toml").write_text(
        "[tools.plain]\ncommand = 'true'\n[tools.sly]\ncommand = 'true'\nmay = ['approvals']\n"
    )
    root = str(tmp_path)
    digest = rig.person.call("trust/show", root=root)["digest"]
    rig.person.call("trust/grant", root=root, digest=digest)
    listed = rig.person.call("tools/list", root=root)
    assert "plain" in [tool["name"] for tool in listed["tools"]]
    assert [problem["key"] for problem in listed["problems"]] == ["tools.sly.may"]
    with pytest.raises(Refused) as caught:
        rig.person.call("spawn", tool="sly", id="s", root=root)
    assert caught.value.code == -32003


def test_a_daemonised_process_has_no_rights(rig: Rig, tmp_path: Path) -> None:
    """It cannot be distinguished from a process that only claims the tag."""
    said = tmp_path / "said"
    word = json.dumps(["orphan", str(rig.daemon.socket), [["handles/list", {}], ["ping", {}]]])
    rig.person.call(
        "spawn", tool="free", id="o", args={"code": ASK, "words": [word, str(said)]}, wait="none"
    )
    refused, pong = json.loads(_written(said))
    assert (
        refused["error"]["code"] == NOT_AUTHORIZED
        and "haftd has started" in (refused["error"]["message"])
    )
    assert pong["result"] == {"pong": True}


def test_processes_left_behind_keep_the_session_and_lose_the_rights(
    rig: Rig, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    calls = [["handles/list", {}], ["handles/list", {"session": "*"}], ["daemon/reload", {}]]
    word = json.dumps(["left", str(rig.daemon.socket), calls])
    args = {"code": ASK, "words": [word, str(said)]}
    rig.person.call("spawn", tool="free", id="l", session="mine", args=args, wait="none")
    own, every, reload = json.loads(_written(said))
    assert "result" in own, own
    assert [reply["error"]["code"] for reply in (every, reload)] == [NOT_AUTHORIZED] * 2
    assert "'l'" in every["error"]["message"] and "'mine'" in every["error"]["message"]


def test_the_command_line_within_a_handle_gives_the_reason(rig: Rig, other: str) -> None:
    haft = [sys.executable, "-m", "haft", "--socket", str(rig.daemon.socket)]
    args = {"argv": [*haft, "--session", "other", "fetch", "theirs"]}
    state = rig.person.call("spawn", tool="run", id="w", session="mine", args=args, wait="stopped")
    assert state["exit"] == {"code": 4}
    assert "haft fetch: This program runs in handle 'w' of session 'mine'" in state["content"]


def test_the_audit_log_names_the_handle_a_call_came_from(own_rig: Rig) -> None:
    own_rig.inside(("spawn", {"tool": "run", "id": "d", "args": {"argv": ["true"]}}))
    path = own_rig.daemon.state / "haft" / "audit.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    mine, theirs = ([r for r in records if r.get("handle") == name] for name in ("within", "d"))
    assert "handle" not in mine[0]["client"]
    assert (theirs[0]["client"]["handle"], theirs[0]["client"]["session"]) == ("within", "mine")


def test_a_refused_initialize_changes_nothing(own_rig: Rig) -> None:
    hello = {"client": {"name": "sly", "version": "0"}, "protocol": 1, "session": "other"}
    refused, spawned = own_rig.inside(
        ("initialize", hello), ("spawn", {"tool": "run", "id": "d", "args": {"argv": ["true"]}})
    )
    assert refused["error"]["code"] == NOT_AUTHORIZED and spawned["result"]["session"] == "mine"
    path = own_rig.daemon.state / "haft" / "audit.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["name" in record["client"] for record in records if record.get("handle") == "d"] == [
        False
    ]


def test_a_user_outside_haftd_decides(rig: Rig) -> None:
    haft = [sys.executable, "-m", "haft", "--socket", str(rig.daemon.socket), "--json"]
    done = subprocess.run([*haft, "ps", "-a"], capture_output=True, env=rig.daemon.env, check=True)
    assert json.loads(done.stdout) == {"handles": []}


OVER_A_WEBSOCKET = """
import json, sys
import trio, trio_websocket
url, token, calls = json.loads(sys.argv[1])
async def main():
    headers = [(b"Authorization", b"Bearer " + token.encode())]
    async with trio_websocket.open_websocket_url(url, extra_headers=headers) as wire:
        replies = []
        for number, (method, params) in enumerate(calls):
            ask = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await wire.send_message(json.dumps(ask))
            replies.append(json.loads(await wire.get_message()))
        print(json.dumps(replies), flush=True)
trio.run(main)
"""


def test_a_tool_with_the_token_is_confined_on_a_websocket(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon(config="[websocket]\nport = 0\n").start()
    hello = ("initialize", {"client": {"name": "c", "version": "0"}, "protocol": 1})
    calls = [hello, ("handles/list", {}), ("handles/list", {"session": "*"})]
    calls += [("approvals/decide", {"approval_id": "x", "decision": "allow"})]
    with daemon.connect() as wire:
        port = wire.call("daemon/status")["websocket"]["port"]
        token = (daemon.runtime / "haft" / "token").read_text().strip()
        payload = json.dumps([f"ws://127.0.0.1:{port}/", token, calls])
        argv = [sys.executable, "-c", OVER_A_WEBSOCKET, payload]
        state = wire.call(
            "spawn", tool="run", id="w", session="mine", args={"argv": argv}, wait="stopped"
        )
        greeted, own, every, decided = json.loads(state["result"])
        assert greeted["result"]["session"] == "mine"
        assert [row["id"] for row in own["result"]["handles"]] == ["w"]
        assert [reply["error"]["code"] for reply in (every, decided)] == [NOT_AUTHORIZED] * 2
    done = subprocess.run(argv, capture_output=True, check=True)
    replies = json.loads(done.stdout)
    assert replies[0]["result"]["session"] == "default"
    assert "result" in replies[2] and replies[3]["error"]["code"] == -32011


THROUGH_THE_PROXY = """
import base64, json, os, sys, urllib.parse
import trio, trio_websocket
url, token, calls = json.loads(sys.argv[1])
async def main():
    proxy, there = map(urllib.parse.urlsplit, (os.environ["HTTP_PROXY"], url))
    stream = await trio.open_tcp_stream(proxy.hostname, proxy.port)
    credential = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    head = f"CONNECT {there.netloc} HTTP/1.1\\r\\nProxy-Authorization: Basic {credential}\\r\\n\\r\\n"
    await stream.send_all(head.encode())
    assert b" 200 " in await stream.receive_some()
    headers = [(b"Authorization", b"Bearer " + token.encode())]
    replies = []
    async with trio.open_nursery() as nursery:
        wire = await trio_websocket.wrap_client_stream(nursery, stream, there.netloc, "/", extra_headers=headers)
        for number, (method, params) in enumerate(calls):
            ask = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await wire.send_message(json.dumps(ask))
            replies.append(json.loads(await wire.get_message()))
        nursery.cancel_scope.cancel()
    print(json.dumps(replies), flush=True)
trio.run(main)
"""


@pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6")
@pytest.mark.parametrize(
    ("host", "code"), [("*", OVER_A_WEBSOCKET), ("127.0.0.1", THROUGH_THE_PROXY)]
)
def test_a_sandboxed_tool_with_the_token_may_do_nothing(
    make_daemon: Callable[..., RunningDaemon], host: str, code: str
) -> None:
    """Directly, or by the proxy, whose connections are the daemon's own."""
    daemon = make_daemon(config="[websocket]\nport = 0\n")
    daemon.tools(f"""
[tools.sly]
output = "raw"
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", "{{{{ tool.arguments.given }}}}"]
parameters.code = {{ type = "string" }}
parameters.given = {{ type = "string" }}
may = ["handles", "approvals", "questions"]
access.net = [{{ host = "{host}" }}]
access.fs.read = ["{sys.prefix}", "{sys.base_prefix}"]
""")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"client": {"name": "c", "version": "0"}, "protocol": 1}),
        ("spawn", {"tool": "run", "id": "free", "args": {"argv": ["true"]}}),
        ("handles/list", {}),
        ("handles/list", {"session": "*"}),
        ("approvals/list", {}),
        ("trust/list", {}),
        ("tools/reload", {}),
        ("daemon/shutdown", {}),
    ]
    with daemon.start().connect() as wire:
        port = wire.call("daemon/status")["websocket"]["port"]
        token = (daemon.runtime / "haft" / "token").read_text().strip()
        payload = json.dumps([f"ws://127.0.0.1:{port}/", token, calls])
        args = {"code": code, "given": payload}
        state = wire.call("spawn", tool="sly", id="w", session="s", args=args, wait="stopped")
        assert "result" in state, state["content"] + repr(state["error"])
        replies = json.loads(state["result"])
        assert len(replies) == len(calls)
        assert {reply.get("error", {}).get("code") for reply in replies} == {NOT_AUTHORIZED}


def _until(rig: Rig, method: str, key: str, **params: Any) -> list[dict[str, Any]]:
    """Poll over another connection, as the user's may wait."""
    with rig.daemon.connect() as wire:
        while not (found := wire.call(method, **params)[key]):
            pass
    listed: list[dict[str, Any]] = found
    return listed


def _written(path: Path) -> str:
    while not os.path.exists(path):
        os.sched_yield()
    return path.read_text()
