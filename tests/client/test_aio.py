"""The client on trio against a fake daemon."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
import trio

from haft import ConnectionLost, RemoteError, aio
from haft_protocol.states import HandleState, Running
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, Refuse, running, stopped


async def test_each_task_gets_the_reply_to_its_own_call(serve: Serve) -> None:
    kept: list[tuple[dict[str, Any], Peer]] = []

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        kept.append((request, peer))
        if len(kept) == 20:
            for one, to in reversed(kept):
                to.reply(one, running(one["params"]["id"]))
        return LATER

    serve(answer)
    got: dict[str, HandleState] = {}
    async with aio.connect() as client:

        async def fetch(name: str) -> None:
            got[name] = await client.fetch(name, wait="stopped")

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(fetch, f"h{number}")
    assert {name: state.id for name, state in got.items()} == {f"h{n}": f"h{n}" for n in range(20)}


async def test_a_cancelled_call_is_cancelled_at_the_daemon_and_harms_nothing(
    serve: Serve,
) -> None:
    asked = threading.Event()
    kept: list[dict[str, Any]] = []

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["params"]["id"] == "slow":
            kept.append(request)
            asked.set()
            return LATER
        return stopped("a", "done")

    daemon = serve(answer)
    async with aio.connect() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.fetch, "slow")
            await trio.to_thread.run_sync(asked.wait)
            nursery.cancel_scope.cancel()
        assert (await client.fetch("a")).id == "a"
    assert [n["params"]["id"] for n in daemon.notifications] == [kept[0]["id"]]


async def test_an_exception_of_the_block_is_raised_unchanged(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "No such handle.")

    serve(answer)
    with pytest.raises(RemoteError, match="No such handle"):
        async with aio.connect() as client:
            await client.fetch("x")


async def test_the_end_of_the_connection_ends_every_call(serve: Serve) -> None:
    waiting = threading.Semaphore(0)

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        waiting.release()
        return LATER

    daemon = serve(answer)
    lost: list[str] = []
    async with aio.connect() as client:

        async def fetch() -> None:
            with pytest.raises(ConnectionLost):
                await client.fetch("a")
            lost.append("a")

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(fetch)
            for _ in range(3):
                await trio.to_thread.run_sync(waiting.acquire)
            daemon.peers[0].close()
        with pytest.raises(ConnectionLost):
            await client.ping()
    assert len(lost) == 3


async def test_output_for_a_daemon_that_has_hung_up_is_sent_once() -> None:
    attempts = 0

    class HungUp(socket.socket):
        def send(self, *_: Any) -> int:
            nonlocal attempts
            attempts += 1
            raise BrokenPipeError

    with HungUp() as connected:
        client = aio.Haft(
            connected,
            session=None,
            root=None,
            name="test",
            read_only=False,
            hear=None,
            handlers={},
        )
        for _ in range(3):
            client._flush()
    assert attempts == 1


async def test_a_large_request_and_a_large_reply_pass_each_other(serve: Serve) -> None:
    big = "x" * 2_000_000
    serve(lambda request, peer: running("a", big))
    async with aio.connect() as client, trio.open_nursery() as nursery:

        async def apply() -> None:
            state = await client.apply("a", big)
            assert isinstance(state, Running) and state.content == big

        for _ in range(3):
            nursery.start_soon(apply)


async def test_a_batch_and_the_daemons_name(serve: Serve) -> None:
    daemon = serve(lambda request, peer: running())
    async with aio.connect(session="s") as client:
        assert len(await client.batch([("fetch", {"id": "a"}), ("fetch", {"id": "b"})])) == 2
        assert (await client.server()).server.name == "haftd"
        assert (await client.server()).protocol == 1
    assert daemon.calls("initialize")[0]["session"] == "s"
    assert [p["session"] for p in daemon.calls("fetch")] == ["s", "s"]


async def test_tasks_share_the_reply_to_initialize_and_may_be_cancelled(serve: Serve) -> None:
    serve(lambda request, peer: running())
    names: list[str] = []
    async with aio.connect() as client:

        async def ask() -> None:
            names.append((await client.server()).server.name)

        with trio.CancelScope(deadline=-float("inf")):
            await client.server()
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask)
    assert names == ["haftd"] * 3


async def test_a_refused_initialize_is_raised_each_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: dict[str, Any], started_at: float) -> Any:
        if request["method"] == "initialize":
            raise Refuse(-32602, "invalid_params", "no such session")
        return {"pong": True}

    monkeypatch.setattr("tests.client.conftest.hello", refuse)
    serve(lambda request, peer: running())
    async with aio.connect() as client:
        for _ in range(2):
            with trio.fail_after(30), pytest.raises(RemoteError, match="no such session"):
                await client.server()


async def test_notifications_are_delivered(serve: Serve) -> None:
    heard: list[str] = []

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        peer.send({"jsonrpc": "2.0", "method": "handle/state", "params": {}})
        return running()

    serve(answer)
    async with aio.connect(hear=lambda method, params: heard.append(method)) as client:
        await client.fetch("a")
    assert heard == ["handle/state"]


async def test_a_subscription_has_the_fields_of_the_wire(serve: Serve) -> None:
    daemon = serve(
        lambda request, peer: {"subscription": "sub.1"} if request["method"] == "subscribe" else {}
    )
    async with aio.connect(read_only=True) as client:
        name = await client.subscribe(
            ["state", "bytes"], handles=["a"], start={"a": 3}, reader="terminal", session="s"
        )
        await client.unsubscribe(name)
    assert daemon.calls("initialize")[0]["read_only"] is True
    assert daemon.calls("subscribe") == [
        {
            "session": "s",
            "events": ["state", "bytes"],
            "handles": ["a"],
            "from": {"a": 3},
            "for": "terminal",
        }
    ]
    assert daemon.calls("unsubscribe") == [{"subscription": "sub.1"}]


async def test_both_clients_have_the_same_methods() -> None:
    from haft.client import Haft

    plain = {name for name in dir(Haft) if not name.startswith("_")}
    on_trio = {name for name in dir(aio.Haft) if not name.startswith("_")}
    # A blocking client starts and finishes calls by hand, where trio has tasks.
    assert plain - on_trio == {"connect", "close", "fileno", "raw", "start", "finish"}
    assert on_trio - plain == set()
