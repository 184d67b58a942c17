"""One checker for every inquiry backend: the rules of `haftd.inquiries.backend`. A `Bench` makes
a backend that plays a `Part`: a list of raw replies, one for each inquiry; `DECLINES` and
`HANGS` are no replies. None where the backend cannot play the part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

import trio

from haft_protocol.questions import AnswerType, Boolean, Secret, Select, Text
from haftd.inquiries.backend import Backend, InquiryFailed
from haftd.inquiries.kind import Answered
from haftd.inquiries.router import ask_backend
from tests.inquiries.tool_questions import pending

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


class Bench(Protocol):
    """Makes a backend under test."""

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend] | None:
        """Return a backend that gets these replies, in order."""

    def left(self) -> Sequence[object]:
        """Return the open requests of any question."""


async def a_right_answer_comes_through_as_it_is(bench: Bench) -> None:
    for answer_type, answer in ANSWERS:
        staged = bench.stage({"answer": answer})
        if staged is None:
            continue
        async with staged as backend:
            outcome = await ask_backend(backend, pending(answer_type))
            assert isinstance(outcome, Answered), outcome
            assert json.dumps(outcome.value) == json.dumps(answer)
            assert json.dumps(dict(outcome.source)) and outcome.source["by"] == backend.name


async def a_wrong_answer_never_comes_through(bench: Bench) -> None:
    for answer_type, answer in WRONG:
        staged = bench.stage(*[{"answer": answer}] * 3)
        if staged is None:
            continue
        async with staged as backend:
            with suppress(InquiryFailed):
                assert await ask_backend(backend, pending(answer_type)) is None


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
            outcome = await ask_backend(backend, pending())
            assert isinstance(outcome, Answered) and outcome.value is True


async def what_declines_has_declined(bench: Bench) -> None:
    staged = bench.stage(DECLINES)
    assert staged is not None
    async with staged as backend:
        assert await ask_backend(backend, pending()) is None


async def cancelled_it_leaves_nothing_under_way(bench: Bench) -> None:
    staged = bench.stage(HANGS)
    if staged is None:
        return
    async with staged as backend, trio.open_nursery() as nursery:

        async def ask() -> None:
            await ask_backend(backend, pending())
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
            outcomes.append(await ask_backend(backend, pending(call=f"c{number}")))

        for number in range(5):
            nursery.start_soon(ask, number)
    assert len(outcomes) == 5 and all(isinstance(outcome, Answered) for outcome in outcomes)


async def a_secret_is_given_and_shown_nowhere(bench: Bench) -> None:
    staged = bench.stage({"answer": "canary"})
    if staged is None:
        return
    async with staged as backend:
        if not backend.takes_secrets:
            return
        outcome = await ask_backend(backend, pending(Secret()))
        assert isinstance(outcome, Answered) and outcome.value == "canary"
        assert "canary" not in repr(outcome) and "canary" not in repr(outcome.source)


LAWS = (
    a_right_answer_comes_through_as_it_is,
    a_wrong_answer_never_comes_through,
    one_that_is_put_right_within_three_counts,
    what_declines_has_declined,
    cancelled_it_leaves_nothing_under_way,
    many_may_ask_at_once,
    a_secret_is_given_and_shown_nowhere,
)
