"""The questions of one handle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from trio.testing import wait_all_tasks_blocked

from haft_protocol.methods import ApplyParams, AskpassResult
from haft_protocol.questions import Question, Secret, Text
from haft_protocol.states import EndedBy
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.inquiries.client_question import ClientQuestion
from haftd.inquiries.kind import Answered
from haftd.inquiries.secret_prompt import SecretPrompt, make_readable
from haftd.inquiries.tool_question import InquiryCancelled, InquiryQueue, ToolQuestion
from haftd.inquiries.turn_end import TurnEnd


def question(name: str, *, secret: bool = False) -> Question:
    return Question(id=name, text=f"{name}?", answer_type=Secret() if secret else Text())


class Asker:
    """A handle, its questions, and the outcomes of the asking tasks."""

    def __init__(self, nursery: trio.Nursery, *, runs: bool = True) -> None:
        spool = Spool(0, 0, None, Budget(0))
        self.handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0)
        if runs:
            self.handle.start(0.0)
        self.queue = InquiryQueue(self.handle)
        self.ends: dict[str, object] = {}
        self.scopes: dict[str, trio.CancelScope] = {}
        self._nursery = nursery

    async def ask(self, name: str) -> None:
        """Start an asking task; return once the task waits."""
        self._nursery.start_soon(self._ask, name)
        await wait_all_tasks_blocked()

    async def _ask(self, name: str) -> None:
        with trio.CancelScope() as self.scopes[name]:
            try:
                self.ends[name] = await self.queue.ask(self.queue.make_question(question(name)))
            except InquiryCancelled:
                self.ends[name] = InquiryCancelled

    async def leave(self, name: str) -> None:
        """Let them go away."""
        self.scopes[name].cancel()
        await wait_all_tasks_blocked()

    async def answer(self, value: object) -> None:
        pending = self.queue.current
        assert pending is not None and pending.settle(Answered(value))
        await wait_all_tasks_blocked()

    async def end(self) -> None:
        self.handle.end(Termination(by=EndedBy("exit")), 0.0)
        self.queue.withdraw_all()
        await wait_all_tasks_blocked()

    @property
    def asked(self) -> str | None:
        """Return the current question; the state shows if there is any."""
        now = self.handle.question
        assert (self.handle.state is State.WAITING) == (now is not None)
        return None if now is None else now.id


def test_open_questions_are_listed_by_age_of_the_handle_before_those_of_turns_and_clients() -> None:
    def order(created_at: float) -> tuple[float, ...]:
        spool = Spool(0, 0, None, Budget(0))
        handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=created_at)
        return InquiryQueue(handle).make_question(question("a")).order

    later = [
        default
        for kind in (TurnEnd, ClientQuestion)
        for field in structs.fields(kind)
        if field.name == "order" and isinstance(default := field.default, tuple)
    ]
    assert len(later) == 2
    orders = [order(1.0), order(2.0), *later]
    assert sorted(orders) == orders


async def test_questions_are_answered_in_order() -> None:
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery)
        for name in "abc":
            await asker.ask(name)
        for name in "abc":
            assert asker.asked == name
            await asker.answer(name.upper())
        assert asker.asked is None and asker.ends == {"a": "A", "b": "B", "c": "C"}


async def test_a_cancelled_question_is_asked_no_more() -> None:
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery)
        for name in "abc":
            await asker.ask(name)
        await asker.leave("b")
        assert asker.asked == "a"
        await asker.leave("a")
        assert asker.asked == "c"
        await asker.leave("c")
        assert asker.handle.question is None and asker.ends == {}


async def test_before_the_tool_runs_nothing_is_asked() -> None:
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery, runs=False)
        await asker.ask("a")
        assert asker.handle.state is State.PENDING
        asker.handle.start(0.0)
        asker.queue.open_next()
        assert asker.asked == "a"
        await asker.answer("A")
        assert asker.ends == {"a": "A"}


async def test_all_questions_end_with_the_handle() -> None:
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery)
        await asker.ask("a")
        await asker.ask("b")
        await asker.end()
        await asker.ask("c")
        assert asker.ends == {"a": InquiryCancelled, "b": InquiryCancelled, "c": InquiryCancelled}


async def test_a_private_question_is_known_while_open() -> None:
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery)

        async def ask(secret: bool, private: bool) -> None:
            kind = SecretPrompt if private else ToolQuestion
            asked = question("q", secret=secret)
            await asker.queue.ask(asker.queue.make_question(asked, kind))

        for secret, private in ((False, False), (True, False), (False, True), (True, True)):
            nursery.start_soon(ask, secret, private)
            await wait_all_tasks_blocked()
            assert asker.queue.is_private == (secret or private)
            await asker.answer("x")


DEEDS = st.lists(st.sampled_from(["ask", "answer", "leave first", "leave last"]), max_size=12)


@given(deeds=DEEDS)
def test_in_any_order_one_question_is_open_and_each_ends_once(deeds: list[str]) -> None:
    async def play() -> None:
        async with trio.open_nursery() as nursery:
            asker = Asker(nursery)
            waiting: list[str] = []
            for number, deed in enumerate(deeds):
                if deed == "ask":
                    waiting.append(f"q{number}")
                    await asker.ask(waiting[-1])
                elif waiting and deed == "answer":
                    await asker.answer(number)
                    assert asker.ends[waiting.pop(0)] == number
                elif waiting:
                    await asker.leave(waiting.pop(0 if deed == "leave first" else -1))
                assert asker.asked == (waiting[0] if waiting else None)
            await asker.end()
            assert all(asker.ends[name] is InquiryCancelled for name in waiting)

    trio.run(play)


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("Password: ", "Password: "),
        ("one\ntwo? ", "one\ntwo? "),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y", "red xy"),
        ("a\x00\r\b\x7f\u202e\u200bb\x9b", "ab"),
        ("\x1b]never ended", ""),
        ("\x1b]2;login\nPassword: ", "\nPassword: "),
        ("\x9b31mPassword\x9b0m: ", "Password: "),
    ],
)
def test_a_prompt_is_shown_without_terminal_controls(prompt: str, shown: str) -> None:
    assert make_readable(prompt) == shown


@pytest.mark.parametrize("make", [lambda: "x" * 1_000_000, lambda: "é\x1b[1m" * 300_000])
def test_a_long_prompt_is_cut_in_the_middle(make: Callable[[], str]) -> None:
    shown = make_readable(f"begin {make()} end? ")
    assert shown.startswith("begin ") and shown.endswith(" end? ") and " … " in shown
    assert len(shown.encode()) <= 4096


@given(st.text())
def test_shown_text_is_visible_and_bounded(prompt: str) -> None:
    shown = make_readable(prompt * 50)
    assert all(char == "\n" or char.isprintable() for char in shown)
    assert len(shown.encode()) <= 4096


def test_an_answers_repr_does_not_show_it() -> None:
    for one in (ApplyParams(id="a", input="canary", question="q"), AskpassResult("canary")):
        assert "canary" not in repr(one)
