"""Synchronized output is shown by frames, as the answer to a query of mode 2026 promises."""

from __future__ import annotations

import math

import pytest
import trio

from haftd.runtimes.base import Input
from haftd.runtimes.terminal import runtime as terminal
from haftd.runtimes.terminal.frames import _MAX_FRAME, Frames
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.screen import Screen
from haftd.testing import Performance

from . import kit
from .test_terminal import started

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"
OLD, HALF = b"\x1b[H\x1b[2Jold\r\nframe", b"\x1b[H\x1b[2Jnew"


def new(replies: list[bytes] | None = None) -> Screen:
    load()
    return Screen(4, 20, (replies if replies is not None else []).append)


def shown(screen: Screen) -> tuple[str, ...]:
    return screen.snapshot().lines[:2]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_screen_shows_no_half_frame(size: int) -> None:
    screen = new()
    printed = BEGIN + OLD + END + BEGIN + HALF
    for at in range(0, len(printed), size):
        screen.feed(printed[at : at + size])
    assert shown(screen) == ("old", "frame")
    revision, digest = screen.revision, screen.digest()
    screen.feed(b"er")
    assert (screen.revision, screen.digest()) == (revision, digest)
    assert not screen.is_behind
    screen.feed(END)
    assert shown(screen) == ("newer", "")


def test_paint_within_a_frame_continues_as_the_program_does() -> None:
    screen, other = new(), new()
    screen.feed(OLD + BEGIN + HALF)
    other.feed(screen.paint())
    assert shown(other) == ("old", "frame")
    other.feed(b"er" + END)
    assert shown(other) == ("newer", "")


@pytest.mark.parametrize("mode", [b"\x1b[?2026h", b"\x1b[?25;2026h", b"\x1b[?2026;25h"])
def test_a_frame_is_shown_when_its_owner_ends_it(mode: bytes) -> None:
    screen = new()
    screen.feed(OLD + mode + HALF)
    screen.feed(b"er" + mode)
    assert shown(screen) == ("old", "frame")
    assert screen.frame == len(OLD)  # The frame began with the first.
    screen.end_frame()
    assert shown(screen) == ("newer", "")


@pytest.mark.parametrize("end", ["resize", "reset", "close"])
def test_resize_reset_and_end_show_the_pending_frame(end: str) -> None:
    screen = new()
    screen.feed(OLD + BEGIN + HALF)
    if end == "resize":
        screen.resize(4, 21)
    elif end == "reset":
        screen.feed(b"\x1bcnew")
    else:
        screen.close()
    assert screen.snapshot().lines[0] == "new"


@pytest.mark.parametrize(
    "query",
    [
        *(b"\x1b[6n", b"\x1b[c", b"\x1b[?2026$p", b"\x1b[?u", b"\x1b[>q", b"\x1b[18t", b"\x1bZ"),
        *(b"\x1b]11;?\x07", b"\x1b]4;1;?\x07", b"\x1b]21;foreground=?\x1b\\", b"\x1bP$qm\x1b\\"),
    ],
)
def test_a_query_within_a_frame_is_answered_at_once(query: bytes) -> None:
    replies: list[bytes] = []
    screen = new(replies)
    for byte in BEGIN + HALF + query:
        screen.feed(bytes([byte]))
    while screen.is_behind:
        screen.draw()
    assert replies


SCRIPT = (
    "import os, tty; tty.setraw(0)\n"
    "os.write(1, b'\\x1b[Hold\\x1b[?2026h\\x1b[Hnew'); os.write(1, b'READY')\n"
    "os.read(0, 1); os.write(1, b'\\x1b[?2026l'); os.read(0, 1)"
)
"""Draws a frame that is not whole before a key is pressed."""


def first_row(performance: Performance) -> str:
    shot = performance.control.screen()
    assert shot is not None
    return shot.lines[0]


async def test_a_program_within_a_frame_is_not_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program listens to the keyboard while the rest of the frame is still to come."""
    monkeypatch.setattr(terminal, "MAX_FRAME_S", math.inf)
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.python(SCRIPT, terminal=True), b"READY")
        assert performance.control.input_state().state == "busy"
        assert first_row(performance) == "old"
        performance.control.write(Input("text", text="x"))
        await performance.port.wants("reads")
        assert first_row(performance) == "newREADY"
        nursery.cancel_scope.cancel()


async def test_an_incomplete_frame_is_reported_and_shown_after_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "MAX_FRAME_S", 0.05)
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.python(SCRIPT, terminal=True), b"READY")
        await performance.port.until(lambda: performance.port.redraws == 1)
        assert first_row(performance) == "newREADY"
        await performance.port.wants("reads")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("base", [0, 1, _MAX_FRAME, 1 << 40])
@pytest.mark.parametrize("before", [b"", b"old"])
def test_a_frame_may_be_long_wherever_in_the_output_it_begins(base: int, before: bytes) -> None:
    frames, start = Frames(), base + len(before)
    frames.feed(before + BEGIN, base)
    assert frames.start == start
    rest = _MAX_FRAME - len(BEGIN)
    frames.feed(b"x" * rest, start + len(BEGIN))
    assert frames.start == start
    frames.feed(b"x", start + len(BEGIN) + rest)
    assert frames.start is None
