"""One checker for every backend of the inquiry room: the rules at the head of `haftd.inquiry.base`.

Rules: a `Bench` makes a backend that plays a `Part`: a list of replies, one for each time that it is
asked, as they would come from outside; `DECLINES` and `HANGS` are no replies. None where it cannot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Protocol

import trio

from haft_protocol.inquiries import Inquiry, inquiry_id, schema
from haft_protocol.questions import AnswerType, Boolean, Question, Secret, Select, Text
from haftd.caller import Caller
from haftd.inquiry.base import Answered, Backend, Declined, InquiryFailed, Origin, Way

__all__ = [
    "DECLINES",
    "HANGS",
    "LAWS",
    "PATIENCE_S",
    "Bench",
    "a_wrong_answer_never_comes_through",
    "way",
]

DECLINES = "declines"
HANGS = "hangs"
PATIENCE_S = 20.0

ANSWERS: tuple[tuple[AnswerType, object], ...] = (
    (Boolean(), True),
    (Boolean(), False),
    (Text(), 'süß "quoted"\n\x00 ' + "x" * 10_000),
    (Select(options=("a", 1, 2.5, True)), 2.5),
    (Select(options=("a", 1, 2.5, True)), True),
)
WRONG: tuple[tuple[AnswerType, object], ...] = (
    (Boolean(), "yes"),
    (Boolean(), 1),
    (Text(), 7),
    (Select(options=("a", 1)), "b"),
    (Select(options=("a", 1)), True),
)


def way(answer_type: AnswerType = Boolean(), call: str = "c", **more: Any) -> Way:  # noqa: B008
    """A question on its way, of the tool `tool`, with the id `q`."""
    name = inquiry_id("tool", call)
    inquiry = Inquiry(
        session="s",
        handle="h",
        call_id=call,
        inquiry_id=name,
        question=Question(id="q", text="Well?", answer_type=answer_type),
        schema=schema(name, answer_type),
        target="user" if isinstance(answer_type, Secret) else "caller",
        **more,
    )
    return Way(inquiry, Origin(caller=Caller("unix", 1)), "tool")


class Bench(Protocol):
    """How one backend is put under test."""

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend] | None:
        """A backend that gets these replies, in order."""

    def left(self) -> Sequence[object]:
        """What is still under way for any question."""


async def a_right_answer_comes_through_as_it_is(bench: Bench) -> None:
    for answer_type, answer in ANSWERS:
        staged = bench.stage({"answer": answer})
        if staged is None:
            continue
        async with staged as backend:
            outcome = await backend.ask(way(answer_type))
            assert isinstance(outcome, Answered), outcome
            assert json.dumps(outcome.answer) == json.dumps(answer)
            assert json.dumps(dict(outcome.who)) and outcome.who["by"] == backend.name


async def a_wrong_answer_never_comes_through(bench: Bench) -> None:
    for answer_type, answer in WRONG:
        staged = bench.stage(*[{"answer": answer}] * 3)
        if staged is None:
            continue
        async with staged as backend:
            with suppress(InquiryFailed):
                assert isinstance(await backend.ask(way(answer_type)), Declined)


async def one_that_is_put_right_within_three_counts(bench: Bench) -> None:
    oddities: tuple[object, ...] = (
        {"answer": "x"},
        {"answer": True, "inquiry_id": "other"},
        {},
        [],
        "x",
    )
    for wrong in oddities:
        staged = bench.stage(wrong, wrong, {"answer": True})
        if staged is None:
            continue
        async with staged as backend:
            outcome = await backend.ask(way())
            assert isinstance(outcome, Answered) and outcome.answer is True


async def what_declines_has_declined(bench: Bench) -> None:
    staged = bench.stage(DECLINES)
    assert staged is not None
    async with staged as backend:
        outcome = await backend.ask(way())
        assert isinstance(outcome, Declined) and outcome.why


async def cancelled_it_leaves_nothing_under_way(bench: Bench) -> None:
    staged = bench.stage(HANGS)
    if staged is None:
        return
    async with staged as backend, trio.open_nursery() as nursery:

        async def ask() -> None:
            await backend.ask(way())
            raise AssertionError("it answered what nobody has")

        nursery.start_soon(ask)
        while not bench.left():
            await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    assert not bench.left()


async def many_may_ask_at_once(bench: Bench) -> None:
    staged = bench.stage(*[{"answer": True}] * 5)
    if staged is None:
        return
    outcomes: list[object] = []
    async with staged as backend, trio.open_nursery() as nursery:

        async def ask(number: int) -> None:
            outcomes.append(await backend.ask(way(call=f"c{number}")))

        for number in range(5):
            nursery.start_soon(ask, number)
    assert len(outcomes) == 5 and all(isinstance(one, Answered) for one in outcomes)


async def a_secret_is_given_and_shown_nowhere(bench: Bench) -> None:
    staged = bench.stage({"answer": "canary"})
    if staged is None:
        return
    async with staged as backend:
        if not backend.takes_secrets:
            return
        outcome = await backend.ask(way(Secret()))
        assert isinstance(outcome, Answered) and outcome.answer == "canary"
        assert "canary" not in repr(outcome) and "canary" not in repr(outcome.who)


LAWS = (
    a_right_answer_comes_through_as_it_is,
    a_wrong_answer_never_comes_through,
    one_that_is_put_right_within_three_counts,
    what_declines_has_declined,
    cancelled_it_leaves_nothing_under_way,
    many_may_ask_at_once,
    a_secret_is_given_and_shown_nowhere,
)
