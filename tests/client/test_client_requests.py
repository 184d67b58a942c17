"""Requests of the daemon to a client: each has one reply, whatever the program's function does."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from msgspec import Raw
from trio.testing import wait_all_tasks_blocked

from haft.client_requests import ClientRequests, request_handlers
from haft.errors import Declined, HaftError
from haft_protocol.approvals import ASK_APPROVAL, Approval
from haft_protocol.inquiries import ASK, Inquiry

QUESTION = {
    "session": "s",
    "question": {"id": "q", "text": "Name?", "answer_type": {"type": "line"}},
}


class Sent:
    """The replies that are queued, and how often output was announced."""

    def __init__(self) -> None:
        self.replies: dict[int | str, object] = {}
        self.announced = 0

    def answer(self, number: int | str, result: object) -> None:
        assert number not in self.replies
        self.replies[number] = result

    def refuse(self, number: int | str, code: int, message: str) -> None:
        assert number not in self.replies
        self.replies[number] = (code, message)

    def announce(self) -> None:
        self.announced += 1


async def served(
    server: Callable[[Raw], Any], during: Callable[[ClientRequests], None] = lambda _: None
) -> tuple[Sent, ClientRequests]:
    sent = Sent()
    requests = ClientRequests(cast(Any, sent), {"m": server}, sent.announce)
    async with trio.open_nursery() as nursery:
        await nursery.start(requests.run)
        assert requests.take(1, "m", Raw(b"{}"))
        assert not requests.take(2, "unknown", Raw(b"{}"))
        await wait_all_tasks_blocked()
        during(requests)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return sent, requests


async def test_a_request_is_answered() -> None:
    async def server(params: Raw) -> object:
        return json.loads(bytes(params))

    sent, requests = await served(server)
    assert sent.replies == {1: {}} and sent.announced == 1
    assert requests.fault is None


async def test_a_declined_request_is_refused_and_serving_goes_on() -> None:
    async def server(params: Raw) -> object:
        raise Declined("not now")

    sent, requests = await served(server, lambda held: assert_taken(held, 3))
    assert sent.replies == {1: (-32601, "not now"), 3: (-32601, "not now")}
    assert requests.fault is None


def assert_taken(requests: ClientRequests, number: int) -> None:
    assert requests.take(number, "m", Raw(b"{}"))


@pytest.mark.parametrize("method", [ASK, ASK_APPROVAL])
async def test_an_unreadable_request_is_refused_and_not_the_programs_fault(method: str) -> None:
    async def answer(inquiry: Inquiry) -> object:
        raise AssertionError("the program was asked")

    async def approve(approval: Approval) -> Any:
        raise AssertionError("the program was asked")

    sent, requests = await served(request_handlers(answer, approve)[method])
    ((code, why),) = cast(Any, sent.replies.values())
    assert code == -32602 and "cannot read the request" in why
    assert requests.fault is None


async def test_a_failed_program_is_no_reply_of_its_own_and_ends_serving() -> None:
    fault = ValueError("secret")

    async def server(params: Raw) -> object:
        raise fault

    def nothing_more(requests: ClientRequests) -> None:
        assert not requests.take(3, "m", Raw(b"{}"))

    sent, requests = await served(server, nothing_more)
    assert sent.replies == {1: (-32603, "This client failed while it was looking for an answer.")}
    assert requests.fault is fault and requests.block.cancel_called


@pytest.mark.parametrize("params", [b'{"id": 1}', b'{"id": 7}', b"[]", b'{"id": [1]}'])
async def test_a_cancelled_request_ends_without_a_reply(params: bytes) -> None:
    is_cancelled: list[bool] = []
    stopping = False

    async def server(_: Raw) -> object:
        try:
            return await trio.sleep_forever()
        finally:
            is_cancelled.append(not stopping)

    sent = Sent()
    requests = ClientRequests(cast(Any, sent), {"m": server}, sent.announce)
    async with trio.open_nursery() as nursery:
        await nursery.start(requests.run)
        assert requests.take(1, "m", Raw(b"{}"))
        await wait_all_tasks_blocked()
        requests.cancel(Raw(params))
        await wait_all_tasks_blocked()
        stopping = True
        nursery.cancel_scope.cancel()
    assert is_cancelled == [params == b'{"id": 1}'] and sent.replies == {}


@pytest.mark.parametrize("method", ["m", ""])
async def test_only_a_serving_program_is_interrupted_by_a_loss(method: str) -> None:
    requests = ClientRequests(
        cast(Any, Sent()), {method: cast(Any, SimpleNamespace)} if method else {}, lambda: None
    )
    loss = HaftError("gone")
    with trio.move_on_after(0.05), requests.block:
        async with trio.open_nursery() as nursery:
            await nursery.start(requests.run)
            requests.lost(loss)
            await trio.sleep_forever()
    assert requests.fault is (loss if method else None)
