"""What waits for a word by itself, with no client that could be asked: it is decided once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haft_protocol.approvals import Approval, Decided
from haft_protocol.errors import RpcError
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.remembered import Remembered
from haftd.core.spool import Budget, Spool
from haftd.links import Links
from haftd.uses.approvals import Approvals, Request

PERSON = Caller("unix")


class Office:
    """Approvals with nobody to ask, what was written down, and one request."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self.records: list[str] = []
        self.said: list[object] = []
        self.approvals = Approvals(
            Links(), lambda session: (), self._record, timeout_s, Remembered()
        )

    def _record(self, event: str, **facts: Any) -> None:
        self.records.append(facts["decision"])

    async def seek(self, render: Callable[[], Awaitable[str]] | None = None) -> None:
        spool = Spool(0, 0, None, Budget(0))
        approval = Approval(
            approval_id="a1",
            session="s",
            tool="t",
            action="spawn",
            id="h",
            arguments={},
            rendered="",
            mode="ask",
        )
        request: Request[object] = Request(
            caller=PERSON,
            handle=Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0),
            action="spawn",
            approval=approval,
            check=lambda given: given,
            render=render,
        )
        try:
            self.said.append((await self.approvals.seek(request)).decision)
        except RpcError as error:
            self.said.append(error.kind)

    def decide(self, decision: Any, session: str = "s", approval_id: str = "a1") -> bool:
        return self.approvals.decide(session, approval_id, Decided(decision), PERSON)


async def test_the_first_word_counts_and_the_second_is_none(nursery: trio.Nursery) -> None:
    """Both may come before who waits has had its turn."""
    office = Office()
    nursery.start_soon(office.seek)
    await wait_all_tasks_blocked()
    assert not office.decide("deny", session="another")
    assert not office.decide("deny", approval_id="a2")
    assert [office.decide("allow"), office.decide("deny")] == [True, False]
    assert office.approvals.waiting() == []
    await wait_all_tasks_blocked()
    assert office.said == ["allow"] and office.records == ["allow"]
    assert not office.decide("deny"), "nothing waits any more"


async def test_what_is_not_ready_to_be_shown_is_not_listed(nursery: trio.Nursery) -> None:
    office, shown = Office(), trio.Event()

    async def render() -> str:
        await shown.wait()
        return "as a person reads it"

    nursery.start_soon(office.seek, render)
    await wait_all_tasks_blocked()
    assert office.approvals.waiting() == []
    shown.set()
    await wait_all_tasks_blocked()
    assert [one.rendered for one in office.approvals.waiting("s")] == ["as a person reads it"]
    assert office.approvals.waiting("another") == []
    office.decide("allow")


async def test_what_cannot_be_shown_is_listed_all_the_same(nursery: trio.Nursery) -> None:
    office = Office()

    async def render() -> str:
        raise ZeroDivisionError("planted")

    nursery.start_soon(office.seek, render)
    await wait_all_tasks_blocked()
    assert len(office.approvals.waiting()) == 1
    office.decide("allow")


@pytest.mark.parametrize(
    ("end", "said"),
    [("close", "not_approved"), ("stop", "shutting_down"), ("wait", "not_approved")],
)
async def test_what_nobody_has_decided_is_a_no(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, end: str, said: str
) -> None:
    office = Office(timeout_s=5.0)
    nursery.start_soon(office.seek)
    await wait_all_tasks_blocked()
    office.approvals.close("another")
    assert len(office.approvals.waiting()) == 1
    if end == "close":
        office.approvals.close("s")
    elif end == "stop":
        office.approvals.stop()
    else:
        await trio.sleep(5.1)
    assert not office.decide("allow")
    await wait_all_tasks_blocked()
    assert office.said == [said] and office.records == []
