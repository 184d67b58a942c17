"""Requests of the daemon to a client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from haft_protocol.errors import RpcError
from haft_protocol.rpc import BadReply
from haftd.client_requests import MAX_REQUESTS, ClientRequests, Unreachable
from tests.patience import PATIENCE_S
from tests.rpc.rig import KINDS, Client, Kind, Rig, Served, ask, ok, serving


@dataclass
class Talk:
    """A client and its link."""

    served: Served
    client: Client
    link: ClientRequests
    outcomes: list[object] = field(default_factory=list)

    async def said(self) -> Any:
        with trio.fail_after(PATIENCE_S):
            message = await self.client.receive()
        assert message is not None
        return json.loads(message)

    async def say(self, **message: Any) -> None:
        await self.client.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def note(self, *, method: str = "question", params: object = ()) -> None:
        """Send a request, and note the outcome."""
        try:
            self.outcomes.append(await self.link.ask(method, params))
        except (RpcError, BadReply, Unreachable) as error:
            self.outcomes.append(error)
        self.served.rig.moved.unpark_all()

    async def until(self, count: int) -> None:
        await self.served.rig.until(lambda: len(self.outcomes) == count)

    @property
    def refused(self) -> int:
        return self.served.rig.rpc_context.clients.refused["reply"]


@asynccontextmanager
async def talking(kind: Kind = "lines") -> AsyncIterator[Talk]:
    rig = Rig()
    async with serving(rig, websocket=kind == "websocket") as served:
        client = await served.connect(kind)
        ok(await ask(client, "ping"))
        (link,) = rig.rpc_context.clients._clients.values()
        yield Talk(served, client, link)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_gets_its_own_reply_in_any_order_also_in_a_batch(kind: Kind) -> None:
    async with talking(kind) as talk, trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(lambda n=number: talk.note(params={"n": n}))  # type: ignore[misc]
        asked = [await talk.said() for _ in range(3)]
        assert len({one["id"] for one in asked}) == 3
        for one in asked:
            assert one.keys() == {"jsonrpc", "id", "method", "params"}
        replies = [{"jsonrpc": "2.0", "id": one["id"], "result": one["params"]} for one in asked]
        await talk.client.send(json.dumps(replies[2]).encode())
        await talk.client.send(json.dumps(replies[:2]).encode())
        await talk.until(3)
        assert sorted(outcome["n"] for outcome in talk.outcomes) == [0, 1, 2]  # type: ignore[index]
        assert ok(await ask(talk.client, "ping")) == {"pong": True} and not talk.refused


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"error": {"code": -32601, "message": "no"}}, RpcError),
        ({"error": {"code": 5, "message": "x" * 9999, "data": {"kind": 1}}}, RpcError),
        ({"error": {"code": 5, "data": []}}, RpcError),
        ({"error": {"code": "x"}}, BadReply),
        ({"error": None}, BadReply),
        ({"error": {}, "result": 1}, BadReply),
        ({"result": [[[]]] * 3}, list),
    ],
)
async def test_an_invalid_reply_ends_one_request(
    reply: dict[str, Any], outcome: type[object]
) -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.note)
        await talk.say(id=(await talk.said())["id"], **reply)
        await talk.until(1)
        assert isinstance(talk.outcomes[0], outcome), talk.outcomes
        if isinstance(talk.outcomes[0], RpcError):
            assert len(talk.outcomes[0].message) <= 512
        nursery.start_soon(talk.note)
        await talk.say(id=(await talk.said())["id"], result="fine")
        await talk.until(2)
        assert talk.outcomes[1] == "fine"


async def test_a_too_deeply_nested_reply_is_invalid() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.note)
        number = (await talk.said())["id"]
        deep = "[" * 100 + "]" * 100
        await talk.client.send(f'{{"id":"{number}","result":{deep}}}'.encode())
        await talk.until(1)
        assert isinstance(talk.outcomes[0], BadReply)


async def test_unsolicited_replies_are_counted_and_not_answered() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.note)
        number = (await talk.said())["id"]
        for other in ("haft.99", 1, None, "", number + " ", 1.5, {"a": 1}):
            await talk.say(id=other, result=1)
        await talk.say(id=number, result="first")
        await talk.say(id=number, result="second")
        assert ok(await ask(talk.client, "ping")) == {"pong": True}
        assert talk.outcomes == ["first"] and talk.refused == 8


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_request_is_notified_once(kind: Kind) -> None:
    async with talking(kind) as talk:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk.note)
                asked = await talk.said()
                scope.cancel()
        cancelled = await talk.said()
        assert cancelled["method"] == "$/cancelRequest" and "id" not in cancelled
        assert cancelled["params"] == {"id": asked["id"]}
        await talk.say(id=asked["id"], result=1)
        assert ok(await ask(talk.client, "ping")) == {"pong": True}
        assert talk.refused == 1 and talk.outcomes == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_disconnected_peer_fails_all_its_requests(kind: Kind) -> None:
    async with talking(kind) as talk, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(talk.note)
            await talk.said()
        await talk.client.aclose()
        await talk.until(3)
        assert all(isinstance(outcome, Unreachable) for outcome in talk.outcomes)
        with pytest.raises(Unreachable):
            await talk.link.ask("question", {})
        assert talk.link.notify("told", {}) is False


async def test_a_half_closed_peer_cannot_answer() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.note)
        await talk.said()
        await talk.client.stream.send_eof()  # type: ignore[attr-defined]
        await talk.until(1)
        assert isinstance(talk.outcomes[0], Unreachable)


async def test_open_requests_of_a_peer_are_bounded() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        for _ in range(MAX_REQUESTS):
            nursery.start_soon(talk.note)
        asked = [await talk.said() for _ in range(MAX_REQUESTS)]
        with pytest.raises(Unreachable, match="64"):
            await talk.link.ask("question", {})
        await talk.say(id=asked[0]["id"], result=1)
        await talk.until(1)
        nursery.start_soon(talk.note)
        assert (await talk.said())["method"] == "question"
        await talk.client.aclose()
        await talk.until(MAX_REQUESTS + 1)


async def test_a_peer_that_does_not_read_is_sent_nothing_more_and_delays_no_task() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        big = "x" * 200_000
        told = 0
        while talk.link.notify("told", {"text": big}):
            told += 1
            assert told < 1000
        nursery.start_soon(talk.note)
        await trio.testing.wait_all_tasks_blocked()
        assert talk.outcomes == []
        for _ in range(told):
            assert (await talk.said())["method"] == "told"
        await talk.say(id=(await talk.said())["id"], result="late")
        await talk.until(1)
        assert talk.outcomes == ["late"]


async def test_a_task_waiting_for_room_ends_with_the_peer() -> None:
    async with talking() as talk, trio.open_nursery() as nursery:
        while talk.link.notify("told", {"text": "x" * 200_000}):
            pass
        nursery.start_soon(talk.note)
        await trio.testing.wait_all_tasks_blocked()
        await talk.client.aclose()
        await talk.until(1)
        assert isinstance(talk.outcomes[0], Unreachable)
