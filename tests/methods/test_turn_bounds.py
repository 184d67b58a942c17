"""The waits of a turn's end, on a simulated clock: for the answer, and again for the awaited
handles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from haft_protocol.methods import TurnEndParams, TurnEndResult
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle, HandleSettings
from haftd.core.sessions import Turns
from haftd.core.termination import Termination
from haftd.inquiries.kind import Message
from haftd.inquiries.router import InquiryRouter
from haftd.methods.turn import turn_end
from tests.core.disks import make
from tests.inquiries.fake import FakeBackend
from tests.pending_replies import result_of

TIMEOUT_S = 10
ANSWERED_S = 9


class Person(FakeBackend):
    """A backend that answers `wait` after `ANSWERED_S`."""

    async def _play(self, message: Message) -> object:
        await trio.sleep(ANSWERED_S)
        return {"answer": {"h": "wait"}}


def running(policy: Literal["inquire", "await"]) -> Handle:
    settings = HandleSettings(on_turn_end=policy)
    handle = Handle(
        id="h", tool="t", session="s", generation=1, spool=make(), now=0.0, settings=settings
    )
    handle.start(0.0)
    return handle


async def ended(nursery: trio.Nursery, handle: Handle) -> tuple[TurnEndResult, float]:
    """Return the reply to a turn's end in a session with this handle, and its duration."""
    began = trio.current_time()
    services: Any = SimpleNamespace(
        access=SimpleNamespace(
            session_of=lambda caller, params: "s",
            registry=SimpleNamespace(live=lambda session: [handle]),
        ),
        inquiries=InquiryRouter([Person()]),
        supervisor=SimpleNamespace(execution_of=lambda handle: None, wake_expiry=lambda: None),
        audit=SimpleNamespace(record_action=lambda *more, **of: None),
    )
    params = TurnEndParams(timeout_ms=1_000 * TIMEOUT_S)
    later = turn_end(services, Turns(), nursery, Caller("unix"), params)
    result = await result_of(later)
    assert isinstance(result, TurnEndResult)
    return result, trio.current_time() - began


@pytest.mark.parametrize("stops", [True, False])
async def test_an_answered_wait_has_the_whole_time_anew(
    nursery: trio.Nursery, autojump_clock: MockClock, stops: bool
) -> None:
    handle = running("inquire")

    async def stop() -> None:
        await trio.sleep(ANSWERED_S + TIMEOUT_S - 1)
        handle.end(Termination(by=EndedBy("exit")), 1.0)

    if stops:
        nursery.start_soon(stop)
    result, took = await ended(nursery, handle)
    assert handle.stopped == stops and result.handles[0].id == "h"
    assert took == pytest.approx(ANSWERED_S + TIMEOUT_S - stops)


async def test_an_awaited_handle_has_the_time_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    result, took = await ended(nursery, running("await"))
    assert result.handles[0].id == "h" and took == pytest.approx(TIMEOUT_S)
