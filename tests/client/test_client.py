"""The plain client against a fake daemon."""

from __future__ import annotations

import os
import pydoc
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import haft
import haftd
from haft import (
    ConnectionLost,
    Haft,
    HaftError,
    NotRunning,
    ProtocolFault,
    RemoteError,
    ReplyTimeout,
)
from haft.blocking_connection import BlockingConnection
from haft.json_exchange import JsonExchange
from haft.mcp.stdio import DaemonLink
from haft_protocol.states import Running, Stopped
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, Refuse, running, stopped


def test_typed_methods_send_their_arguments_and_return_structs(serve: Serve) -> None:
    daemon = serve(lambda request, peer: running("build", "hi\n", cursor=3))
    with Haft.connect(session="s", root="/r") as client:
        state = client.spawn(
            "run", "build", {"argv": ["x"]}, env={"A": None}, wait="none", max_bytes=0
        )
        assert state == Running(
            id="build",
            tool="run",
            session="default",
            cursor=3,
            generation=1,
            elapsed_ms=1200,
            content="hi\n",
        )
        client.fetch("build", cursor=0)
        client.apply("build", {"eof": True}, timeout_ms=5)
        client.abort("build", grace_ms=0)
    hello_params = daemon.calls("initialize")[0]
    assert hello_params["client"] == {"name": "haft-python", "version": haft.__version__}
    assert [r["params"] for r in daemon.requests[1:]] == [
        {
            "tool": "run",
            "id": "build",
            "args": {"argv": ["x"]},
            "env": {"A": None},
            "wait": "none",
            "max_bytes": 0,
            "session": "s",
            "root": "/r",
        },
        {"id": "build", "cursor": 0, "session": "s"},
        {"input": {"eof": True}, "id": "build", "timeout_ms": 5, "session": "s"},
        {"id": "build", "grace_ms": 0, "session": "s"},
    ]


def test_the_documentation_of_the_package_has_its_classes() -> None:
    assert set(haft.__all__) <= set(dir(haft))
    shown = pydoc.plain(pydoc.render_doc(haft))
    assert "class Haft(" in shown and "class RemoteError(" in shown


def test_await_takes_lists_only(serve: Serve) -> None:
    serve(lambda request, peer: {"completed": [stopped("a")], "pending": [running("b")]})
    with Haft.connect() as client:
        result = client.await_(all=["a"], any=["b"], timeout_secs=1)
        assert isinstance(result.completed[0], Stopped)
        assert not result.timed_out
        with pytest.raises(TypeError):
            client.await_(all="ab")


@pytest.mark.parametrize("seconds", [31_536_000, 1e22, float("inf")])
def test_a_bound_may_be_longer_than_a_poll(serve: Serve, seconds: float) -> None:
    serve(lambda request, peer: {"completed": [stopped("a")], "pending": []})
    with Haft.connect() as client:
        assert len(client.await_(all=["a"], timeout_secs=seconds).completed) == 1


def test_the_list_of_handles_is_typed_without_output(serve: Serve) -> None:
    row = {**running("a"), "command": "make", "root": "/", "started_at": 1.0, "age_s": 2.0}
    del row["content"]
    serve(lambda request, peer: {"handles": [{**row, "bytes": 5, "pid": 7}]})
    with Haft.connect() as client:
        (info,) = client.handles("*")
    assert (info.state.id, info.command, info.pid) == ("a", "make", 7)


def test_replies_may_come_in_any_order(serve: Serve) -> None:
    first: list[dict[str, Any]] = []

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["params"]["id"] == "slow":
            first.append(request)
            return LATER
        peer.reply(request, running("quick"))
        peer.reply(first[0], running("slow"))
        return LATER

    serve(answer)
    with Haft.connect() as client:
        slow = client.start("fetch", id="slow", wait="stopped")
        quick = client.start("fetch", id="quick")
        assert client.finish(quick).id == "quick"
        assert client.finish(slow).id == "slow"


def test_an_error_reply_raises_with_code_kind_and_data(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "There is no handle 'x'.", id="x", expired=True)

    serve(answer)
    with Haft.connect() as client:
        with pytest.raises(RemoteError) as refused:
            client.fetch("x")
        error = refused.value
        assert (error.code, error.kind, str(error)) == (
            -32001,
            "handle_not_found",
            "There is no handle 'x'.",
        )
        assert error.data["expired"] is True
        assert client.ping().pong


def test_a_refused_initialize_is_raised_each_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    pings = 0

    def refuse(request: dict[str, Any], started_at: float) -> Any:
        nonlocal pings
        if request["method"] == "initialize":
            raise Refuse(-32602, "invalid_params", "no such session")
        pings += 1
        if pings == 10:
            raise Refuse(-32603, "internal", "pinged for ever")
        return {"pong": True}

    monkeypatch.setattr("tests.client.conftest.hello", refuse)
    serve(lambda request, peer: running())
    with Haft.connect() as client:
        for _ in range(2):
            with pytest.raises(RemoteError, match="no such session"):
                _ = client.server


def test_a_missing_reply_times_out_and_the_connection_stays_usable(
    serve: Serve,
) -> None:
    kept: list[dict[str, Any]] = []
    heard = threading.Event()

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if not kept:
            kept.append(request)
            return LATER
        peer.reply(kept[0], running("late"))
        heard.set()
        return running("fresh")

    daemon = serve(answer)
    with Haft.connect() as client:
        with pytest.raises(ReplyTimeout):
            client.fetch("late", timeout=0.05)
        assert client.fetch("fresh").id == "fresh"
    assert daemon.notifications == [
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": kept[0]["id"]}}
    ]


def test_patience_adds_to_what_the_call_asks_for(serve: Serve) -> None:
    serve(lambda request, peer: LATER)
    with Haft.connect(patience=0.01) as client:
        began = time.monotonic()
        with pytest.raises(ReplyTimeout):
            client.fetch("a", wait="stopped", timeout_ms=60)
        assert time.monotonic() - began >= 0.06


def test_a_lost_connection_is_reported_now_and_later(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        peer.close()
        return LATER

    serve(answer)
    with Haft.connect() as client:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                client.fetch("a")


def test_messages_before_a_hangup_are_delivered(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        error = {"code": -32009, "message": "Full: the limit `max_connections` is 1.", "data": {}}
        peer.send({"jsonrpc": "2.0", "id": None, "error": error})
        peer.close()
        return LATER

    serve(answer)
    with Haft.connect() as client, pytest.raises(RemoteError, match="max_connections"):
        client.fetch("a")


def test_nothing_is_left_to_send_at_a_closed_connection() -> None:
    """A poll would find room for it again and again."""
    own, other = socket.socketpair()
    exchange = JsonExchange()
    with own, BlockingConnection(own, exchange, name="t") as connection:
        other.close()
        connection._start("ping", {})
        assert not exchange.to_send
    own, other = socket.socketpair()
    with own:
        link = DaemonLink(lambda: own)
        conversation = link.connect()
        assert conversation.to_send
        other.close()
        link.send()
        assert not conversation.to_send


def test_a_batch_gives_a_result_or_an_error_for_each(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["params"]["id"] == "b":
            raise Refuse(-32002, "handle_exists", "Taken.")
        return running("a")

    serve(answer)
    with Haft.connect() as client:
        one, two = client.batch([("fetch", {"id": "a"}), ("fetch", {"id": "b"})])
        assert isinstance(one, Running)
        assert isinstance(two, RemoteError) and two.kind == "handle_exists"
        assert client.batch([]) == []


def test_a_large_request_and_a_large_reply_pass_each_other(serve: Serve) -> None:
    """Neither side may wait for the other to read first."""
    big = "x" * 4_000_000
    serve(lambda request, peer: running("a", big, cursor=len(big)))
    with Haft.connect() as client:
        numbers = [client.start("apply", id="a", input=big) for _ in range(3)]
        for number in numbers:
            assert client.finish(number, timeout=20).content == big


def test_the_daemons_identity_is_requested_once_without_a_round_trip(serve: Serve) -> None:
    daemon = serve(lambda request, peer: running())
    with Haft.connect() as client:
        client.fetch("a")
        assert client.server.server.name == "haftd"
        assert client.server.pid == os.getpid()
    assert [r["method"] for r in daemon.requests] == ["initialize", "fetch"]


def test_a_reply_of_the_wrong_shape_is_a_protocol_fault(serve: Serve) -> None:
    serve(lambda request, peer: {"state": "asleep"})
    with Haft.connect() as client, pytest.raises(ProtocolFault, match="fetch"):
        client.fetch("a")


def test_no_daemon_is_an_error(short_tmp: Path) -> None:
    with pytest.raises(NotRunning, match="not running"):
        Haft.connect(str(short_tmp / "s"))
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(short_tmp / "s"))
    left.close()
    with pytest.raises(NotRunning):
        Haft.connect(str(short_tmp / "s"))


def test_a_socket_path_over_the_limit_is_named_with_the_limit() -> None:
    with pytest.raises(HaftError, match="107"):
        Haft.connect("/tmp/" + "x" * 200)


def test_another_users_socket_gets_not_a_byte(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spawn carries the whole environment, which must not go to another user."""
    daemon = serve(lambda request, peer: running())
    me = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: me + 1)
    monkeypatch.setattr("haft.daemon_socket._ROOT", me + 2)
    with pytest.raises(ProtocolFault, match=str(me)):
        Haft.connect()
    assert daemon.requests == []


def test_the_public_surface() -> None:
    assert haft.__all__ == sorted(haft.__all__, key=lambda n: (n.startswith("_"), n))
    for name in haft.__all__:
        assert getattr(haft, name) is not None
    with pytest.raises(AttributeError):
        haft.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert haft.__version__ == haftd.__version__ == project["project"]["version"]
