from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire


@pytest.fixture
def wire(shared_daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Wire]:
    """A connection beside a handle that must survive everything the test sends."""
    with shared_daemon.connect() as keeper, shared_daemon.connect() as wire:
        keeper.call("session/close", session="keep")
        keeper.call(
            "spawn", session="keep", tool="run", id="cat", args={"argv": ["cat"]}, wait="none"
        )
        keeper.call("apply", session="keep", id="cat", input={"line": "before"}, wait="none")
        yield wire
        reply = keeper.call(
            "apply",
            session="keep",
            id="cat",
            input={"line": "after"},
            wait="pattern",
            pattern="after",
        )
        assert reply["content"] == "before\nafter\n"


CASES: list[tuple[str, dict[str, Any], int, str]] = [
    ("nonsense", {}, -32601, "rpc.discover"),
    ("fetch", {"id": "nobody"}, -32001, "`spawn` starts one"),
    ("spawn", {"tool": "nope", "id": "x"}, -32003, "run"),
    ("spawn", {"tool": "run", "id": "x", "args": {}}, -32005, "argv"),
    ("spawn", {"tool": "run", "id": "x", "args": {"argv": "ls", "color": 1}}, -32005, "color"),
    (
        "spawn",
        {"tool": "run", "id": "x", "args": {"argv": ["/no/such/program"]}},
        -32012,
        "/no/such/program",
    ),
    (
        "spawn",
        {"tool": "run", "id": "x", "args": {"argv": ["true"]}, "root": "/no/such/folder"},
        -32012,
        "/no/such/folder",
    ),
    ("spawn", {"tool": "run", "id": "x", "timout_ms": 5}, -32602, "timout_ms"),
    ("spawn", {"tool": "run", "id": "x", "timeout_ms": "5m"}, -32602, "timeout_ms"),
    ("spawn", {"tool": "run", "id": "x", "timeout_ms": -1}, -32602, "timeout_ms"),
    ("spawn", {"tool": "run", "id": "bad id"}, -32602, "id"),
    ("spawn", {"tool": "run", "id": "a" * 65}, -32602, "id"),
    ("spawn", {"tool": "run"}, -32602, "id"),
    ("spawn", {"tool": "run", "id": "x", "root": "relative"}, -32602, "root"),
    ("fetch", {"id": "x", "wait": "pattern"}, -32602, "pattern"),
    ("fetch", {"id": "x", "wait": "soon"}, -32602, "wait"),
    ("await", {}, -32602, "any"),
    ("await", {"all": ["nobody"]}, -32001, "nobody"),
    ("abort", {"id": "nobody"}, -32001, "nobody"),
    ("apply", {"id": "nobody", "input": "x"}, -32001, "nobody"),
    ("initialize", {"client": {"name": "t", "version": "1"}, "protocol": 2}, -32602, "protocol"),
]


@pytest.mark.parametrize(("method", "params", "code", "word"), CASES)
def test_each_error_kind_has_its_code_and_a_sentence(
    wire: Wire, method: str, params: dict[str, Any], code: int, word: str
) -> None:
    if params.get("id") == "x" and method == "fetch":
        wire.call("spawn", tool="run", id="x", args={"argv": ["true"]}, wait="stopped", session="e")
        params = {**params, "session": "e"}
    with pytest.raises(Refused) as caught:
        wire.call(method, **params)
    assert caught.value.code == code, caught.value
    assert word in caught.value.message, caught.value.message
    assert caught.value.data["kind"]
    assert len(caught.value.message) <= 512 and "Traceback" not in caught.value.message
    with pytest.raises(Refused, match="-32001"):
        wire.call("fetch", id="x")


def test_params_are_by_name(wire: Wire) -> None:
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]})
    assert wire.receive()["error"]["code"] == -32602


def test_a_taken_id_is_refused(wire: Wire) -> None:
    wire.call("spawn", session="taken", tool="run", id="a", args={"argv": ["cat"]}, wait="none")
    with pytest.raises(Refused) as caught:
        wire.call("spawn", session="taken", tool="run", id="a", args={"argv": ["cat"]})
    assert caught.value.code == -32002 and "'a'" in caught.value.message
    wire.call("abort", session="taken", id="a")
    second = wire.call(
        "spawn", session="taken", tool="run", id="a", args={"argv": ["true"]}, wait="stopped"
    )
    assert second["generation"] == 2


def test_a_stopped_handle_takes_no_input(wire: Wire) -> None:
    wire.call("spawn", session="st", tool="run", id="a", args={"argv": ["true"]}, wait="stopped")
    for method, more in (("apply", {"input": "x"}), ("abort", {})):
        with pytest.raises(Refused) as caught:
            wire.call(method, session="st", id="a", **more)
        assert caught.value.code == -32008
        assert caught.value.data["state"]["exit"] == {"code": 0}


@pytest.mark.parametrize(
    "form",
    [
        5,
        None,
        {},
        {"line": "a", "keys": ["Up"]},
        {"lines": "a"},
        {"keys": ["NoSuchKey"]},
        {"keys": []},
        {"signal": "NOPE"},
        {"resize": {"rows": 0, "cols": 5}},
        {"line": 5},
    ],
)
def test_input_of_an_unknown_form_is_refused_and_nothing_is_written(
    wire: Wire, form: object
) -> None:
    wire.call("session/close", session="in")
    wire.call("spawn", session="in", tool="run", id="cat", args={"argv": ["cat"]}, wait="none")
    with pytest.raises(Refused) as caught:
        wire.call("apply", session="in", id="cat", input=form)
    assert caught.value.code == -32602
    reply = wire.call(
        "apply", session="in", id="cat", input={"line": "ok"}, wait="pattern", pattern="ok"
    )
    assert reply["content"] == "ok\n"
    wire.call("abort", session="in", id="cat")


@pytest.mark.parametrize(
    "junk",
    [
        b"{nonsense}\n",
        b'{"a":1}\n',
        b"[]\n",
        b"[1,2]\n",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n',
    ],
)
def test_invalid_messages_get_a_reply_and_the_connection_goes_on(wire: Wire, junk: bytes) -> None:
    wire.send_raw(junk)
    reply = wire.receive()
    for one in reply if isinstance(reply, list) else [reply]:
        assert one["error"]["code"] in (-32700, -32600)
    assert wire.call("ping") == {"pong": True}


def test_a_batch_with_a_clash_runs_nothing(wire: Wire) -> None:
    spawn = {"jsonrpc": "2.0", "method": "spawn"}
    args = {"tool": "run", "session": "b", "args": {"argv": ["true"]}}
    wire.send(
        [
            {**spawn, "id": 1, "params": {**args, "id": "one"}},
            {**spawn, "id": 2, "params": {**args, "id": "one"}},
            {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        ]
    )
    replies = wire.receive()
    assert [reply["id"] for reply in replies] == [1, 2, 3]
    assert all(
        reply["error"]["code"] == -32002 and "one" in reply["error"]["message"] for reply in replies
    )
    with pytest.raises(Refused, match="-32001"):
        wire.call("fetch", session="b", id="one")


def test_a_batch_awaits_its_own_spawns(wire: Wire) -> None:
    def spawn(number: int, name: str, command: str) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "id": number,
            "method": "spawn",
            "params": {
                "tool": "run",
                "session": "b2",
                "id": name,
                "args": {"command": command},
                "wait": "none",
            },
        }

    wire.send(
        [
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "await",
                "params": {"session": "b2", "all": ["one", "two"]},
            },
            spawn(1, "one", "echo 1"),
            {"jsonrpc": "2.0", "method": "ping"},
            spawn(2, "two", "echo 2"),
        ]
    )
    replies = wire.receive()
    assert [reply["id"] for reply in replies] == [0, 1, 2]
    done = replies[0]["result"]
    assert [state["id"] for state in done["completed"]] == ["one", "two"]
    # The reply to a start has the output that came before the reply.
    for state, start, line in zip(done["completed"], replies[1:], ("1\n", "2\n"), strict=True):
        assert line in (state["result"], start["result"].get("content"))
    assert done["pending"] == []


def test_a_message_over_the_limit_is_answered_then_closed(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"session": "x" * (9 << 20)}}
        )
        try:
            wire.send_raw(body.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        error = wire.receive()["error"]
        assert error["code"] == -32009 and str(8 << 20) in error["message"]
        with pytest.raises((EOFError, ConnectionResetError)):
            wire.receive()


def test_a_batch_sent_again_after_a_lost_reply_clashes_with_nothing(wire: Wire) -> None:
    params = {"session": "b3", "tool": "run", "id": "one", "call_id": "k", "wait": "none"}
    batch = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "spawn",
            "params": {**params, "args": {"command": "sleep 30"}},
        }
    ]
    wire.send(batch)
    first = wire.receive()[0]["result"]
    wire.send(batch)
    second = wire.receive()[0]["result"]
    assert (first["id"], first["generation"]) == (second["id"], second["generation"])
    assert second["state"] == "running"
    wire.call("abort", session="b3", id="one")


def test_a_hostile_pattern_over_much_output_delays_no_other_call(
    wire: Wire, shared_daemon: RunningDaemon
) -> None:
    argv = ["head", "-c", "3000000", "/dev/zero"]
    wire.call("spawn", session="p", tool="run", id="z", args={"argv": argv}, wait="stopped",
              view="tail", max_bytes=0)  # fmt: skip
    waiting = wire.start("fetch", session="p", id="z", cursor=0, wait="pattern",
                         pattern=r"(\x00?){300}\x00{300}x", timeout_ms=600_000,
                         max_bytes=0)  # fmt: skip
    with shared_daemon.connect() as other:
        for _ in range(20):
            assert other.call("ping") == {"pong": True}
    wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": waiting}})
    with pytest.raises(Refused, match="-32800"):
        wire.finish(waiting)
