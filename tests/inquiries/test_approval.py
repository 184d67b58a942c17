"""Approvals with no client that could be asked: each is decided once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from haft_protocol.approvals import Approval as ApprovalMessage
from haft_protocol.errors import RpcError
from haftd.caller import Caller
from haftd.client_requests import Clients
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.inquiries.approval import Approval, request_approval
from haftd.inquiries.client import ClientBackend
from haftd.inquiries.kind import Answered, InquiryContext, Timeouts
from haftd.inquiries.router import InquiryRouter

PERSON = Caller("unix")


class Office:
    """A router without clients, its records, and one approval."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self.records: list[str] = []
        self.outcomes: list[object] = []
        self.ids: set[str] = set()
        """The one approval's, once it was listed."""
        clients = ClientBackend(Clients(), lambda session: ())
        timeouts = Timeouts(approval_s=timeout_s)
        self.router = InquiryRouter((), clients, record=self._record, timeouts=timeouts)

    def _record(self, event: str, **facts: Any) -> None:
        self.records.append(facts["decision"])

    async def request_approval(self, render: Callable[[], Awaitable[str]] | None = None) -> None:
        spool = Spool(0, 0, None, Budget(0))
        approval = Approval(
            context=InquiryContext(caller=PERSON),
            session="s",
            tool="t",
            handle=Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0),
            action="spawn",
            arguments={},
            rendered="",
            mode="ask",
            check=lambda given: given,
            render=render,
        )
        try:
            decision = await request_approval(self.router, approval)
            self.outcomes.append(None if decision is None else decision.decision)
        except RpcError as error:
            self.outcomes.append(error.kind)

    def list_open(self, session: str | None = None) -> list[ApprovalMessage]:
        messages = [message for _, message in self.router.list_open(ApprovalMessage, session)]
        self.ids |= {message.approval_id for message in messages}
        return messages

    def decide(self, decision: Any, session: str = "s", approval_id: str = "") -> bool:
        if not approval_id:
            self.list_open()
            (approval_id,) = self.ids
        found = self.router.find(ApprovalMessage, session, PERSON, approval_id)
        if found is None:
            return False
        pending, _ = found
        value, _ = pending.kind.read({"decision": decision})
        return self.router.accept(pending, Answered(value, caller=PERSON))


async def test_the_first_decision_counts_and_the_second_is_refused(nursery: trio.Nursery) -> None:
    """Both may come before the waiting task has had its turn."""
    office = Office()
    nursery.start_soon(office.request_approval)
    await wait_all_tasks_blocked()
    assert not office.decide("deny", session="another")
    assert not office.decide("deny", approval_id="a2")
    assert [office.decide("allow"), office.decide("deny")] == [True, False]
    assert office.list_open() == []
    await wait_all_tasks_blocked()
    assert office.outcomes == ["allow"] and office.records == ["allow"]
    assert not office.decide("deny"), "nothing waits any more"


async def test_an_unrendered_approval_is_not_listed(nursery: trio.Nursery) -> None:
    office, shown = Office(), trio.Event()

    async def render() -> str:
        await shown.wait()
        return "as a person reads it"

    nursery.start_soon(office.request_approval, render)
    await wait_all_tasks_blocked()
    assert office.list_open() == []
    shown.set()
    await wait_all_tasks_blocked()
    assert [one.rendered for one in office.list_open("s")] == ["as a person reads it"]
    assert office.list_open("another") == []
    office.decide("allow")


async def test_an_unrenderable_approval_is_listed(nursery: trio.Nursery) -> None:
    office = Office()

    async def render() -> str:
        raise ZeroDivisionError("planted")

    with capture_logs() as entries:
        nursery.start_soon(office.request_approval, render)
        await wait_all_tasks_blocked()
    assert len(office.list_open()) == 1
    [error] = [entry for entry in entries if entry["log_level"] == "error"]
    assert error["handle"] == "h"
    office.decide("allow")


@pytest.mark.parametrize(
    ("end", "message"),
    [("close", "not_approved"), ("stop", "shutting_down"), ("wait", "not_approved")],
)
async def test_an_undecided_approval_is_a_denial(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, end: str, message: str
) -> None:
    office = Office(timeout_s=5.0)
    nursery.start_soon(office.request_approval)
    await wait_all_tasks_blocked()
    office.router.close("another")
    assert len(office.list_open()) == 1
    if end == "close":
        office.router.close("s")
    elif end == "stop":
        office.router.stop()
    else:
        await trio.sleep(5.1)
    assert not office.decide("allow")
    await wait_all_tasks_blocked()
    assert office.outcomes == [message] and office.records == []
