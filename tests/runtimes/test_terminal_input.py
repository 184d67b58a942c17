"""Terminal input and its queue, on a terminal whose other end is the test's."""

from __future__ import annotations

import os
import termios
import tty
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haftd.runtimes.base import Input, InputRefused
from haftd.runtimes.terminal import input as terminal_input
from haftd.runtimes.terminal.input import TerminalInput

from .drawn import new


class Desk:
    """A terminal input, and a program's side of the terminal."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        os.set_blocking(self.slave, False)
        self.reads = True
        self.written = 0
        self.typist = TerminalInput(
            self.master, os.ttyname(self.slave), new(), self._on_written, lambda: self.reads
        )

    def _on_written(self, number: int) -> None:
        self.written = number

    def raw(self) -> None:
        tty.setraw(self.slave)

    def echo(self, on: bool) -> None:
        modes = termios.tcgetattr(self.slave)
        modes[3] = modes[3] | termios.ECHO if on else modes[3] & ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)

    def read(self) -> bytes:
        try:
            return os.read(self.slave, 1 << 20)
        except BlockingIOError:
            return b""

    async def read_to(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.read()
            await trio.sleep(0)
        return data


@pytest.fixture
def desk() -> Iterator[Desk]:
    one = Desk()
    yield one
    os.close(one.master)
    os.close(one.slave)


class Paper:
    """A writer whose items count as written at once."""

    closed, waiting, last = False, 0, 0

    def __init__(self) -> None:
        self.text: list[bytes] = []

    def put(self, data: bytes) -> None:
        self.text.append(data)


def text(message: str, **more: Any) -> Input:
    return Input("text", message, **more)


async def test_input_queues_behind_a_due_secret(desk: Desk) -> None:
    desk.typist.type(text("hidden", secret=True))
    with pytest.raises(InputRefused, match="secret input waits"):
        desk.typist.type(text("x"))
    desk.echo(False)
    assert desk.typist.type(text("x")) == 2 and desk.typist.waits


async def test_an_input_over_the_queue_limit_is_taken_by_itself(desk: Desk) -> None:
    desk.raw()
    large = "x" * (terminal_input._MAX_WAITING + 1)
    desk.typist.type(text(large))
    with pytest.raises(InputRefused, match="does not read"):
        desk.typist.type(text("x" * 100_000))


async def test_text_waits_until_the_previous_key_was_read(desk: Desk) -> None:
    desk.raw()
    desk.typist.type(Input("keys", keys=("a",)))
    desk.typist.type(text("b"))
    assert desk.read() == b"a" and desk.typist.waits


async def test_nothing_comes_between_the_keys_of_an_input(
    desk: Desk, nursery: trio.Nursery
) -> None:
    desk.raw()
    nursery.start_soon(desk.typist.run)
    desk.typist.type(Input("keys", keys=("a", "b")))
    await wait_all_tasks_blocked()
    desk.typist.type(text("c"))
    assert desk.read() == b"a"
    assert await desk.read_to(2) == b"bc"


async def test_answers_keep_their_order(desk: Desk, nursery: trio.Nursery) -> None:
    """The second comes when the echo has gone off, while the first still waits."""
    desk.raw()
    desk.echo(True)
    desk.typist._foreground = lambda: 1  # type: ignore[method-assign]
    desk.typist.answer(b"first ")
    desk.echo(False)
    desk.typist.answer(b"second")
    nursery.start_soon(desk.typist.run)
    assert await desk.read_to(12) == b"first second"


@pytest.mark.parametrize("ended", ["dropped", "typed"])
async def test_resolved_input_takes_no_room(desk: Desk, nursery: trio.Nursery, ended: str) -> None:
    desk.raw()
    desk.reads = False
    large, some = "x" * 700_000, "y" * 300_000
    desk.typist.type(text(large, secret=True))
    if ended == "dropped":
        desk.typist.drop_secrets()
    else:
        desk.reads = True
        nursery.start_soon(desk.typist.run)
        assert len(await desk.read_to(700_000)) == 700_000
    assert not desk.typist.waits
    desk.typist.type(text(some))
    desk.typist.type(text(some))


async def test_an_unfinished_line_is_continued(desk: Desk) -> None:
    """In canonical mode a terminal takes 4,095 bytes, in any number of inputs."""
    desk.typist._writer = Paper()  # type: ignore[assignment]
    for _ in range(2):
        desk.typist.type(text("x" * 2_000))
    with pytest.raises(InputRefused, match=r"4,100 bytes is too long"):
        desk.typist.type(text("x" * 100))
    desk.typist.type(text("x" * 95))
    desk.typist.type(text("\n" + "x" * 4_000))


@pytest.mark.parametrize(("between", "ends"), [(False, b"\x04\x04"), (True, b"\x04")])
async def test_after_a_switch_to_raw_mode_no_line_is_unfinished(
    desk: Desk, between: bool, ends: bytes
) -> None:
    paper = desk.typist._writer = Paper()  # type: ignore[assignment]
    was = termios.tcgetattr(desk.slave)
    desk.typist.type(text("abc"))
    if between:
        desk.raw()
        desk.typist.type(text("k"))
        termios.tcsetattr(desk.slave, termios.TCSANOW, was)
    desk.typist.type(Input("eof"))
    assert paper.text[-1] == ends


async def test_an_end_during_the_load_of_the_library_drops_pending_input(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.typist._wants_library = lambda item: True  # type: ignore[method-assign]
    monkeypatch.setattr("haftd.runtimes.terminal.input.library.load", desk.typist.close)
    desk.typist._queue.append(terminal_input._Typed(1, Input("paste", "x"), 1))
    await desk.typist._next()
    assert desk.read() == b""


async def test_any_output_restarts_quick_checks_of_the_echo(
    desk: Desk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    began, looks = trio.current_time(), list[float]()

    def hides(modes: object) -> bool:
        looks.append(trio.current_time() - began)
        return looks[-1] > 2.5

    async def print_something() -> None:
        await trio.sleep(2.1)
        desk.typist.recheck_echo()

    nursery.start_soon(print_something)
    await desk.typist._wait_echo_off(lambda: True, hides)
    pauses = {round(a, 3): b - a for a, b in pairwise(looks)}
    assert pauses[0.0] == pytest.approx(terminal_input._FIRST_LOOK_S)
    assert max(pause for at, pause in pauses.items() if at < 2) == terminal_input._LAST_LOOK_S
    assert pauses[2.1] == pytest.approx(terminal_input._FIRST_LOOK_S)


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        (text("x"), False),
        (Input("line", "x"), False),
        (Input("eof"), False),
        (Input("keys", keys=("a", "Enter")), False),
        (Input("keys", keys=("F5",)), True),
        (Input("paste", "x"), True),
    ],
    ids=lambda value: value.kind if isinstance(value, Input) else str(value),
)
async def test_the_terminal_library_is_loaded_only_for_encoded_input(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, item: Input, wanted: bool
) -> None:
    monkeypatch.setattr("haftd.runtimes.terminal.input.library.is_loaded", lambda: False)
    assert desk.typist._wants_library(item) is wanted


async def test_input_that_waits_at_the_end_counts_as_written(desk: Desk) -> None:
    desk.reads = False
    number = desk.typist.type(text("x", secret=True))
    assert number > desk.written
    desk.typist.close()
    assert desk.written == number
