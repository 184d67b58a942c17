"""Every runtime obeys the rules at the head of `haftd.runtimes.base`."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from haftd.runtimes.base import Call, Runtime
from haftd.runtimes.fake import (
    Ask,
    CannotStart,
    Emit,
    Exit,
    Fail,
    FakeRuntime,
    LeaveBehind,
    Step,
    Stubborn,
    TakeInput,
    WaitFor,
)

from .checker import PARTS, Part, check_runtime


def _lines(text: bytes) -> tuple[Step, ...]:
    return tuple(Emit(line + b"\n") for line in text.split(b"\n")[:-1])


class FakeBench:
    """The scripted runtime."""

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        text = Emit(part.text)
        scripts: dict[str, tuple[Step, ...]] = {
            "prints": _lines(part.text),
            "exits": (text, Exit(7)),
            "signalled": (text, Exit(None, "KILL")),
            "idles": (text, WaitFor()),
            "stubborn": (Stubborn(), text, WaitFor()),
            "echoes": (*(TakeInput() for _ in range(200)), TakeInput(show=False)),
            "asks": tuple(Ask(question) for question in part.questions),
            "fails": (Fail("no luck", ("here",), transient=True),),
            "cannot start": (CannotStart("no such program"),),
            "leaves": (text, LeaveBehind(), Exit(3)),
            "holds": (text, LeaveBehind(holds_output=True), Exit(3)),
            "chatters": (text, LeaveBehind(holds_output=True), Exit(3)),
        }
        call = Call("fake", (), "/", {}, "", stdin="pipe", script=scripts[part.name])
        return FakeRuntime(), call

    def left(self, call: Call) -> Sequence[int]:
        return ()

    def shown(self, text: bytes) -> bytes:
        return text


async def test_the_fake_obeys_the_rules(autojump_clock: trio.testing.MockClock) -> None:
    assert await check_runtime(FakeBench()) == [part.name for part in PARTS]
