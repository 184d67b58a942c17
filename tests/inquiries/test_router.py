from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from trio.testing import wait_all_tasks_blocked

from haft_protocol.errors import RpcError
from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import AnswerType, Boolean, Question, Secret, Text
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.spool import Budget, Spool
from haftd.inquiries.backend import Backend, Candidate, Declined, InquiryFailed
from haftd.inquiries.client_question import ClientQuestion
from haftd.inquiries.kind import Answered, InquiryContext, Message, Unanswered, Withdrawn
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.router import InquiryRouter
from haftd.inquiries.tool_question import InquiryCancelled, InquiryQueue, NoAnswer
from haftd.tools.definitions.definition import QuestionPolicy
from tests.inquiries.fake import FakeBackend

YES = {"answer": True}


def _inquiry(pending: PendingInquiry) -> Inquiry:
    message = pending.kind.make_message()
    assert isinstance(message, Inquiry)
    return message


class Room:
    """A handle that asks one question, and its outcome."""

    def __init__(self, *backends: Backend, **policies: QuestionPolicy) -> None:
        self.records: list[dict[str, Any]] = []
        spool = Spool(0, 0, None, Budget(0))
        self.handle = Handle(id="h", tool="tool", session="s", generation=2, spool=spool, now=0.0)
        self.handle.start(0.0)
        context = InquiryContext(caller=Caller("unix", 1), questions=policies)
        router = InquiryRouter(backends, record=self._record)
        self.queue = InquiryQueue(self.handle, router, context)
        self.end: object = None

    def _record(self, event: str, **fields: Any) -> None:
        assert event == "answer"
        self.records.append(fields)

    async def ask(self, kind: AnswerType = Boolean(), id: str = "q") -> object:  # noqa: B008
        """Ask; return the answer or the exception."""
        try:
            question = Question(id=id, text="Well?", answer_type=kind)
            self.end = await self.queue.ask(self.queue.make_question(question))
        except (NoAnswer, InquiryCancelled) as end:
            self.end = end
        return self.end


async def test_backends_are_asked_in_their_order_until_one_answers() -> None:
    first, second, third = FakeBackend([Declined("no")]), FakeBackend([YES]), FakeBackend([YES])
    room = Room(first, second, third)
    assert await room.ask() is True
    assert [len(one.asked) for one in (first, second, third)] == [1, 1, 0]
    here = {"session": "s", "handle": "h", "generation": 2, "question": "q"}
    assert room.records == [{"by": "fake", **here, "answer": True}]
    inquiry = _inquiry(first.asked[0])
    assert (inquiry.call_id, inquiry.inquiry_id) == ("h.2", "tool_call.tool.h.2")
    assert inquiry.target == "caller" and inquiry.context is UNSET


async def test_a_question_is_routed_once_a_candidate_is_asked_or_all_have_declined() -> None:
    asked = trio.Event()
    for backend in (FakeBackend([asked, YES]), FakeBackend([Declined("no")])):
        room = Room(backend)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.ask)
            await wait_all_tasks_blocked()
            pending = room.queue.current
            assert pending is not None
            assert pending.routed.is_set()
            assert pending.is_unclaimed is (backend.waiting == 0)
            nursery.cancel_scope.cancel()
    room = Room()
    pending = room.queue.put(
        room.queue.make_question(Question(id="q", text="?", answer_type=Text()))
    )
    assert not pending.routed.is_set()
    room.queue.withdraw_all()
    assert pending.routed.is_set()


async def test_a_failure_is_for_good() -> None:
    second = FakeBackend([YES])
    room = Room(FakeBackend([InquiryFailed("it burns")]), second)
    end = await room.ask()
    assert isinstance(end, NoAnswer) and str(end) == "it burns"
    assert second.asked == [] and room.records == []
    assert room.handle.state is State.RUNNING


async def test_a_question_declined_by_all_stays_open_for_new_clients() -> None:
    room = Room(FakeBackend(), FakeBackend())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.ask)
        await wait_all_tasks_blocked()
        asked = room.queue.current
        assert asked is not None and room.handle.state is State.WAITING and asked.is_unclaimed
        assert asked.settle(Answered(True)) and not asked.settle(Answered(False))
        assert not asked.settle(Unanswered("late"))
    assert room.end is True and room.records == []


async def test_without_a_backend_it_stays_open() -> None:
    room = Room()
    with trio.move_on_after(0):
        await room.ask()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.ask)
        await wait_all_tasks_blocked()
        assert room.queue.current is not None
        room.queue.current.settle(Answered(False))
    assert room.end is False


async def test_a_backend_that_may_change_its_mind_is_asked_again_alone() -> None:
    class DeferredReply(FakeBackend):
        come = trio.Event()

        async def change(self, pending: PendingInquiry) -> None:
            await self.come.wait()

    other, late = FakeBackend(), DeferredReply()
    room = Room(other, late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.ask)
        await wait_all_tasks_blocked()
        late.steps.append(YES)
        late.come.set()
    assert room.end is True
    assert (len(other.asked), len(late.asked)) == (1, 2)


async def test_a_faulty_backend_fails_the_inquiry_without_details() -> None:
    class Broken(FakeBackend):
        async def _play(self, message: Message) -> object:
            raise ZeroDivisionError("canary")

    end = await Room(Broken()).ask()
    assert isinstance(end, NoAnswer) and "haftd failed" in str(end) and "canary" not in str(end)


async def test_an_invalid_answer_is_requested_three_times() -> None:
    """A backend cannot bypass the check: it returns replies, not answers."""
    refused: list[object] = []

    class Careless(FakeBackend):
        def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
            yield Candidate(self._careless, {"by": "fake"})

        async def _careless(self, message: Message) -> object:
            refused.append(message.refused)
            return {"answer": "yes"}

    assert await Room(Careless(), FakeBackend([YES])).ask() is True
    assert refused == [UNSET, *["question 'q' takes true or false."] * 2]


async def test_the_end_of_the_handle_ends_the_inquiry() -> None:
    backend = FakeBackend([trio.Event()])
    room = Room(backend)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.ask)
        await wait_all_tasks_blocked()
        assert backend.waiting == 1
        room.queue.withdraw_all()
    assert isinstance(room.end, InquiryCancelled) and backend.waiting == 0


# ── definitions ──────────────────────────────────────────────────────────────────────────────────


async def test_a_configured_answer_is_given_before_any_client_is_asked() -> None:
    backend = FakeBackend([YES])
    room = Room(backend, q=QuestionPolicy(answer=False))
    states: list[State] = []
    room.handle.listen(lambda: states.append(room.handle.state))
    assert await room.ask() is False
    assert states == [] and backend.asked == []
    assert [one["by"] for one in room.records] == ["definition"]


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (Boolean(), QuestionPolicy(answer="yes")),
        (Text(), QuestionPolicy(answer=1)),
        (Secret(), QuestionPolicy(answer="canary")),
        (Secret(), QuestionPolicy("assistant")),
        (Secret(), QuestionPolicy({"model": "small"})),
    ],
)
async def test_an_invalid_definition_stops_the_tool(
    kind: AnswerType, policy: QuestionPolicy
) -> None:
    backend = FakeBackend([YES])
    room = Room(backend, q=policy)
    end = await room.ask(kind)
    assert isinstance(end, NoAnswer) and "definition" in str(end) and "canary" not in str(end)
    assert backend.asked == [] and room.records == []


async def test_a_policy_is_for_its_question_only() -> None:
    backend = FakeBackend([YES, YES])
    room = Room(backend, other=QuestionPolicy(answer=False), q=QuestionPolicy("user"))
    await room.ask()
    await room.ask(id="third")
    assert [_inquiry(asked).target for asked in backend.asked] == ["user", "caller"]


async def test_a_secret_goes_to_a_user_or_a_secret_store() -> None:
    no_place = FakeBackend([{"answer": "leak"}], takes_secrets=False)
    keeps = FakeBackend([{"answer": "canary"}])
    room = Room(no_place, keeps)
    assert await room.ask(Secret()) == "canary"
    assert no_place.asked == [] and _inquiry(keeps.asked[0]).is_for_a_person
    assert room.records[0]["withheld"] is True and "canary" not in str(room.records)


# ── in any order ─────────────────────────────────────────────────────────────────────────────────

STEPS = st.lists(
    st.sampled_from([YES, {"answer": False}, {"answer": 1}, {}, "declined", "failed"]), max_size=6
)


@given(plays=st.lists(STEPS, max_size=4))
def test_with_any_backends_a_question_has_one_end(plays: list[list[Any]]) -> None:
    """The first valid answer counts, unless a failure came before; else the question stays open."""

    words = {"declined": Declined("so"), "failed": InquiryFailed("so")}

    def made(step: Any) -> Any:
        return words[step] if isinstance(step, str) else step

    def expected() -> object:
        for play in plays:
            for wrong, step in enumerate(play):
                if wrong > 2 or step == "declined":
                    break
                if step == "failed":
                    return "failed"
                if isinstance(step["answer"] if step else None, bool):
                    return step["answer"]
        return "open"

    async def play() -> None:
        room = Room(*(FakeBackend(map(made, play)) for play in plays))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.ask)
            await wait_all_tasks_blocked()
            end: object = "open" if room.queue.current else room.end
            if isinstance(end, NoAnswer):
                end = "failed"
            assert end == expected() and type(end) is type(expected())
            assert len(room.records) == (type(end) is bool)
            nursery.cancel_scope.cancel()

    trio.run(play)


async def test_a_stopped_router_ends_later_questions() -> None:
    router = InquiryRouter([FakeBackend([YES])])
    router.stop()
    pending = router.put(
        ClientQuestion(
            context=InquiryContext(caller=Caller("unix", 1)),
            session="s",
            id="client_question.s.1",
            question=Question(id="q", text="Well?", answer_type=Boolean()),
            target="user",
        )
    )
    assert isinstance(pending.end, Withdrawn)
    assert isinstance(pending.end.error, RpcError)
    assert pending.end.error.kind == "shutting_down"


def _client_question(id: str) -> ClientQuestion:
    question = Question(id="q", text="Well?", answer_type=Boolean())
    context = InquiryContext(caller=Caller("unix", 1))
    return ClientQuestion(context=context, session="s", id=id, question=question, target="user")


async def test_backends_are_asked_in_the_order_of_the_inquiries() -> None:
    """Also while an earlier inquiry has no answer, or waits in its queue."""
    for _ in range(12):  # a pass of the loop runs its tasks in either order, at random
        backend = FakeBackend([trio.Event() for _ in range(6)])
        router = InquiryRouter([backend])
        async with trio.open_nursery() as nursery:
            queued = router.put(_client_question("queued"), is_queued=True)
            inquiries = iter([queued, *(router.put(_client_question(str(n))) for n in range(5))])

            async def resolve_next(
                router: InquiryRouter = router, inquiries: Iterator[PendingInquiry] = inquiries
            ) -> None:
                await router.resolve(next(inquiries))

            for _ in range(6):
                nursery.start_soon(resolve_next)
            await wait_all_tasks_blocked()
            assert [pending.kind.id for pending in backend.asked] == ["0", "1", "2", "3", "4"]
            queued.open()
            await wait_all_tasks_blocked()
            assert backend.asked[-1] is queued
            nursery.cancel_scope.cancel()
