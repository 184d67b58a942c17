"""Subscriptions without a wire: order, bounds, cleanup."""

from __future__ import annotations

import itertools
import json
from typing import Any, cast

import pytest
import trio
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from haft_protocol.pushes import FORGOTTEN, STATE, TOOLS
from haft_protocol.questions import Boolean, Question
from haft_protocol.states import EndedBy, Notice
from haftd.caller import Caller, Confinement
from haftd.client_requests import ClientRequests
from haftd.core.handles import Handle
from haftd.core.termination import Termination
from haftd.inquiries.client_question import ClientQuestion
from haftd.inquiries.kind import InquiryContext, Withdrawn
from haftd.inquiries.router import InquiryRouter
from haftd.subscriptions import Subscriptions
from haftd.subscriptions.subscription import _SESSION_EVENTS
from tests.core.disks import make


class Peer:
    """A connection that takes no more than `send` gets once `full`."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.full = False
        self.stuffed = False
        self._lot = trio.lowlevel.ParkingLot()
        self.caller = Caller("unix", 1)
        self.link = ClientRequests(self.caller, self, self._send, 64)

    def _send(self, message: bytes) -> None:
        self.told.append(json.loads(message))

    @property
    def has_room(self) -> bool:
        return not self.stuffed

    async def room(self) -> None:
        await self.idle()

    async def idle(self) -> None:
        while self.full:
            await self._lot.park()

    def read(self) -> None:
        self.full = False
        self._lot.unpark_all()

    def methods(self) -> list[str]:
        return [target["method"] for target in self.told]


def handle(id: str = "a") -> Handle:
    handle = Handle(id=id, tool="t", session="s", generation=1, spool=make(), now=0.0)
    handle.start(0.0)
    return handle


def notice(level: Any, number: int = 0) -> Notice:
    return Notice("tool.failed", level, f"number {number}", 1.0, "a")


async def test_a_slow_subscriber_gets_the_state_at_sending(
    nursery: trio.Nursery,
) -> None:
    peer, target, subscriptions = Peer(), handle(), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [target], ["state", "output"], only=False)
    await wait_all_tasks_blocked()
    assert peer.methods() == ["handle/state"]
    peer.full = True
    for n in range(100):
        target.append_output(b"%d\n" % n, 1.0)
        await wait_all_tasks_blocked()
    assert len(peer.told) == 1
    peer.read()
    await wait_all_tasks_blocked()
    assert [push["params"].get("data") for push in peer.told[1:]] == [
        "".join(f"{n}\n" for n in range(100))
    ]
    subscriptions.remove_connection(peer.caller)


async def test_a_critical_notice_precedes_queued_ones_which_are_bounded(
    nursery: trio.Nursery,
) -> None:
    peer, subscriptions = Peer(), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [], ["notification"], only=False)
    peer.full = True
    for n in range(300):
        subscriptions.push_notice("s", notice("info", n))
    subscriptions.push_notice("another", notice("critical"))
    await wait_all_tasks_blocked()
    assert not peer.told
    subscriptions.push_notice("s", notice("critical"))
    assert [push["params"]["level"] for push in peer.told] == ["critical"]
    peer.read()
    await wait_all_tasks_blocked()
    lost, *rest = [push["params"] for push in peer.told[1:]]
    assert lost["kind"] == "notices.lost" and lost["message"].startswith("44 ")
    assert [entry["message"] for entry in rest] == [f"number {n}" for n in range(44, 300)]
    subscriptions.remove_connection(peer.caller)


async def test_a_critical_notice_without_room_is_sent_first(
    nursery: trio.Nursery,
) -> None:
    peer, subscriptions = Peer(), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [], ["notification"], only=False)
    peer.full = peer.stuffed = True
    for n in range(300):
        subscriptions.push_notice("s", notice("critical" if n in (3, 7) else "info", n))
    await wait_all_tasks_blocked()
    assert not peer.told
    peer.stuffed = False
    subscriptions.push_notice("s", notice("critical", 300))
    assert not peer.told, "one after the other"
    peer.read()
    await wait_all_tasks_blocked()
    *critical, lost, first = [push["params"]["message"] for push in peer.told[:5]]
    assert critical == ["number 3", "number 7", "number 300"]
    assert lost.startswith("42 ") and first == "number 44"
    subscriptions.remove_connection(peer.caller)


async def test_a_closed_or_finished_subscription_leaves_no_trace(
    nursery: trio.Nursery,
) -> None:
    peer, target, subscriptions = Peer(), handle(), Subscriptions(nursery)
    first = subscriptions.open(peer.link, "s", [target], ["state", "output"], only=False)
    subscriptions.open(peer.link, "s", [target], ["output"], only=True)
    subscriptions.add_handle(two := handle("b"))

    def listeners() -> list[int]:
        return [len(target._listeners), len(two._listeners)]

    assert listeners() == [2, 1]
    assert subscriptions.close(peer.caller, first)
    assert not subscriptions.close(peer.caller, first)
    assert listeners() == [1, 0]
    target.end(Termination(by=EndedBy("exit")), 2.0)
    await wait_all_tasks_blocked()
    assert listeners() == [0, 0]
    assert len(subscriptions) == 1
    peer.full = True
    subscriptions.push_notice("s", notice("info"))
    subscriptions.remove_connection(peer.caller)
    await wait_all_tasks_blocked()
    assert len(subscriptions) == 0 and not nursery.child_tasks
    subscriptions.remove_connection(peer.caller)


async def test_a_forgotten_handle_is_pushed_behind_its_last_state(nursery: trio.Nursery) -> None:
    peer, target, other, subscriptions = Peer(), handle(), handle("b"), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [target, other], ["state"], only=False)
    subscriptions.open(peer.link, "s", [target], ["state"], only=True)
    subscriptions.open(peer.link, "s", [target], ["output"], only=False)
    subscriptions.open(peer.link, "another", [], ["state"], only=False)
    await wait_all_tasks_blocked()
    del peer.told[:]
    peer.full = True
    for each in (target, other):
        each.end(Termination(by=EndedBy("exit")), 2.0)
        subscriptions.remove_handle(each)
    peer.read()
    await wait_all_tasks_blocked()
    pushed = [(push["method"], push["params"]) for push in peer.told]
    of_one = [(name, params["id"]) for name, params in pushed if params["subscription"] == "sub.1"]
    assert of_one.index((STATE, "a")) < of_one.index((FORGOTTEN, "a"))
    assert [params for name, params in pushed if name == FORGOTTEN and params["id"] == "a"] == [
        {"subscription": name, "session": "s", "id": "a", "generation": 1}
        for name in ("sub.1", "sub.2")
    ]
    assert of_one.count((FORGOTTEN, "b")) == 1 and len(of_one) == 4
    subscriptions.remove_connection(peer.caller)


async def test_a_rejected_start_is_forgotten_without_a_last_state(nursery: trio.Nursery) -> None:
    peer, subscriptions = Peer(), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [], ["state"], only=False)
    waiting = Handle(id="a", tool="t", session="s", generation=1, spool=make(), now=0.0)
    subscriptions.add_handle(waiting)
    await wait_all_tasks_blocked()
    assert peer.methods() == [STATE]
    subscriptions.remove_handle(waiting)
    await wait_all_tasks_blocked()
    assert peer.methods() == [STATE, FORGOTTEN]
    subscriptions.remove_connection(peer.caller)


async def test_a_flooding_handle_does_not_silence_others(nursery: trio.Nursery) -> None:
    peer, flood, quiet, subscriptions = Peer(), handle(), handle("b"), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [flood, quiet], ["output"], only=False)
    await wait_all_tasks_blocked()
    flood.append_output(b"y\n" * 1_000_000, 1.0)
    quiet.append_output(b"here\n", 1.0)
    await wait_all_tasks_blocked()
    ids = [push["params"]["id"] for push in peer.told]
    assert "b" in ids[:2] and len(ids) > 20
    subscriptions.remove_connection(peer.caller)


async def test_changed_tools_are_told_once_to_those_that_asked(nursery: trio.Nursery) -> None:
    peer, other, subscriptions = Peer(), Peer(), Subscriptions(nursery)
    subscriptions.open(peer.link, "s", [], ["tools"], only=False)
    subscriptions.open(other.link, "s", [], ["notification"], only=False)
    subscriptions.push_tools_change()
    subscriptions.push_tools_change()
    await wait_all_tasks_blocked()
    assert (peer.methods(), other.methods()) == ([TOOLS], [])
    subscriptions.remove_connection(peer.caller)
    subscriptions.remove_connection(other.caller)


class Reader:
    """An execution with an input state that the test sets."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.looks = 0

    def reads(self) -> str | None:
        self.looks += 1
        return self.kind

    def size_for(self, caller: Caller) -> UnsetType:
        return UNSET


async def test_a_state_is_pushed_when_a_need_changes_with_few_looks_in_silence(
    nursery: trio.Nursery, autojump_clock: object
) -> None:
    peer, execution, target = (
        Peer(),
        Reader(),
        Handle(id="a", tool="t", session="s", generation=1, spool=make(), now=0.0),
    )
    target.start(trio.current_time(), terminal=True)
    subscriptions = Subscriptions(nursery, cast(Any, lambda handle: execution))
    subscriptions.open(peer.link, "s", [target], ["state"], only=False)

    def needs() -> list[str]:
        return [push["params"].get("needs", "nothing") for push in peer.told]

    await trio.sleep(1)
    assert needs() == ["nothing"]
    execution.kind = "secret"
    await trio.sleep(1)
    assert needs() == ["nothing", "secret"]
    target.append_output(b"x", trio.current_time())
    execution.kind = None
    await trio.sleep(0.06)
    assert needs() == ["nothing", "secret", "nothing"]
    before = execution.looks
    await trio.sleep(3_600)
    assert execution.looks - before < 20
    target.ask(Question(id="q", text="?", answer_type=Boolean()), trio.current_time())
    await trio.sleep(0)
    await wait_all_tasks_blocked()
    assert needs()[-1] == "answer"
    subscriptions.remove_connection(peer.caller)


async def test_the_input_state_is_not_looked_at_for_other_events(
    nursery: trio.Nursery, autojump_clock: object
) -> None:
    peer, execution, target = (
        Peer(),
        Reader(),
        Handle(id="a", tool="t", session="s", generation=1, spool=make(), now=0.0),
    )
    target.start(trio.current_time(), terminal=True)
    subscriptions = Subscriptions(nursery, cast(Any, lambda handle: execution))
    subscriptions.open(peer.link, "s", [target], ["output", "bytes"], only=False)
    target.append_output(b"x", trio.current_time())
    await trio.sleep(60)
    assert execution.looks == 0
    subscriptions.remove_connection(peer.caller)


def question(session: str, number: int = 1) -> ClientQuestion:
    return ClientQuestion(
        context=InquiryContext(caller=Caller("unix", 1)),
        session=session,
        id=f"client_question.{session}.{number}",
        question=Question(id="q", text="Well?", answer_type=Boolean()),
        target="user",
    )


async def test_open_inquiries_come_first_and_then_each_change(nursery: trio.Nursery) -> None:
    peer, subscriptions, router = Peer(), Subscriptions(nursery), InquiryRouter()
    router.on_open, router.on_close = subscriptions.push_inquiry, subscriptions.push_inquiry_end
    early = router.put(question("s"))
    kinds = router.open_kinds()
    subscriptions.open(peer.link, "*", [], ["inquiries"], only=False, inquiries=kinds)
    other = Peer()
    subscriptions.open(other.link, "s", [], ["approvals"], only=False, inquiries=kinds)
    late = router.put(question("t"))
    queued = router.put(question("s", 2), is_queued=True)
    await wait_all_tasks_blocked()
    queued.settle(Withdrawn())
    late.settle(Withdrawn())
    early.settle(Withdrawn())
    await wait_all_tasks_blocked()
    seen = [(push["method"], push["params"]["session"]) for push in peer.told]
    assert seen == [
        ("inquiry/opened", "s"),
        ("inquiry/opened", "t"),
        ("inquiry/closed", "t"),
        ("inquiry/closed", "s"),
    ]
    assert peer.told[0]["params"]["question"]["text"] == "Well?"
    assert peer.told[-1]["params"] == {
        "subscription": "sub.1",
        "session": "s",
        "inquiry_id": "client_question.s.1",
        "question": "q",
    }
    assert not other.told
    subscriptions.remove_connection(peer.caller)
    subscriptions.remove_connection(other.caller)


async def test_an_inquiry_that_ends_before_it_is_sent_is_not_sent(nursery: trio.Nursery) -> None:
    peer, subscriptions, router = Peer(), Subscriptions(nursery), InquiryRouter()
    router.on_open, router.on_close = subscriptions.push_inquiry, subscriptions.push_inquiry_end
    subscriptions.open(peer.link, "s", [], ["inquiries"], only=False)
    peer.full = True
    await wait_all_tasks_blocked()
    for number in range(1_000):
        router.put(question("s", number)).settle(Withdrawn())
    peer.read()
    await wait_all_tasks_blocked()
    assert not peer.told
    subscriptions.remove_connection(peer.caller)


async def test_a_confined_client_hears_of_its_own_inquiries_alone(nursery: trio.Nursery) -> None:
    peer, subscriptions, router = Peer(), Subscriptions(nursery), InquiryRouter()
    router.on_open, router.on_close = subscriptions.push_inquiry, subscriptions.push_inquiry_end
    peer.caller.confinement = Confinement("handle", "h", "s")
    subscriptions.open(peer.link, "s", [], ["inquiries"], only=False)
    reachable, other = question("s"), replace(question("s"), may=frozenset({"approvals"}))
    router.put(other)
    router.put(reachable)
    await wait_all_tasks_blocked()
    assert [push["params"]["inquiry_id"] for push in peer.told] == [reachable.id]
    assert len(peer.told) == 1
    subscriptions.remove_connection(peer.caller)


async def test_a_subscription_to_all_sessions_names_the_session_of_each_push(
    nursery: trio.Nursery,
) -> None:
    peer, target, subscriptions = Peer(), handle(), Subscriptions(nursery)
    subscriptions.open(peer.link, "*", [target], ["output", "bytes", "notification"], only=False)
    two = Handle(id="a", tool="t", session="u", generation=1, spool=make(), now=0.0)
    two.start(0.0)
    subscriptions.add_handle(two)
    for each in (target, two):
        each.append_output(b"x\n", 1.0)
    subscriptions.push_notice("u", notice("info"))
    await wait_all_tasks_blocked()
    seen = sorted((push["method"], push["params"]["session"]) for push in peer.told)
    assert seen == [
        ("handle/bytes", "s"),
        ("handle/bytes", "u"),
        ("handle/output", "s"),
        ("handle/output", "u"),
        ("session/notification", "u"),
    ]
    subscriptions.remove_connection(peer.caller)


@pytest.mark.parametrize("count", range(1, 5))
async def test_a_subscription_to_events_of_the_session_listens_to_no_handle(
    nursery: trio.Nursery, count: int
) -> None:
    for events in itertools.combinations(sorted(_SESSION_EVENTS), count):
        peer, target, subscriptions = Peer(), handle(), Subscriptions(nursery)
        subscriptions.open(peer.link, "s", [target], cast(Any, events), only=False)
        assert target._listeners == ()
        subscriptions.remove_connection(peer.caller)
