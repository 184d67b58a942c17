"""The cost of a look and of many terminals: bytes drawn between two passes of the loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from haftd.runtimes.keys import KeyPress
from haftd.runtimes.terminal import draw_scheduler, screen
from haftd.runtimes.terminal.draw_scheduler import MAX_PIECE, PIECE, split_by_cost
from haftd.runtimes.terminal.screen import Screen

from .conftest import Clock
from .drawn import new, session, whole

PRINTED = b"".join(b"\x1b[3%dmline %d\x1b[0m of many\r\n" % (n % 8, n) for n in range(400))


async def a_pass() -> None:
    """Let the loop run once."""
    began = draw_scheduler.current()
    assert began is not None
    number = began.number
    while began.number == number:
        await trio.lowlevel.checkpoint()


async def finish(screen: Screen) -> None:
    while await draw_scheduler.in_turn(screen.draw):
        pass


@pytest.mark.parametrize(
    ("data", "rows", "cols", "most"),
    [
        (b"plain text, and plain text. " * 20, 24, 80, PIECE),
        (b"\x1b[31mred\x1b[0m" * 40, 1000, 1000, PIECE),
        (b"\x1b[65535b" * 40, 24, 80, 8),
        (b"\x1b[65535b" * 40, 1000, 1, 8),
        (b"\x1bc" * 200, 24, 80, 8),
        (b"\x1bc" * 200, 1000, 1000, 4),
        (b"\x1b#8" * 200, 1000, 1000, 3),
        (b"\x1b[2J" * 200, 1000, 1000, 4),
    ],
)
def test_a_piece_is_small_where_drawing_is_costly(
    data: bytes, rows: int, cols: int, most: int
) -> None:
    at = 0
    while at < len(data):
        end = split_by_cost(data, at, PIECE, rows, cols)
        assert at < end <= at + most
        at = end


@pytest.mark.parametrize(
    ("data", "rows", "cols", "size"),
    [
        (b"plain text\r\n" * 1000, 24, 80, MAX_PIECE),
        (b"plain text\r\n" * 1000, 100, 400, MAX_PIECE // 4),
        (b"plain text\r\n" * 1000, 1000, 1000, PIECE),
        (b"\x1b[1;31mred\x1b[0m\x1b[2;5Hx\x1b[K" * 500, 24, 80, MAX_PIECE - 10),
        (b"x" * 2000 + b"\x1b[?69h" + b"\n" * 4000, 24, 80, 2000),
        (b"x" * 100 + b"\x1b[?69h" + b"\n" * 4000, 24, 80, PIECE),
        (b"x" * 2000 + b"\x9b", 24, 80, 2001),
    ],
)
def test_a_piece_is_large_where_output_is_cheap(
    data: bytes, rows: int, cols: int, size: int
) -> None:
    end = split_by_cost(data, 0, MAX_PIECE, rows, cols)
    assert size <= end < size + 10


@given(session, st.integers(1, MAX_PIECE), st.sampled_from([(24, 80), (1000, 1), (1000, 1000)]))
def test_pieces_join_to_the_whole(data: bytes, most: int, size: tuple[int, int]) -> None:
    at = 0
    while at < len(data):
        end = split_by_cost(data, at, most, *size)
        assert at < end <= min(at + most, len(data))
        at = end


async def test_a_look_draws_little_and_loses_nothing(slow: None, drawn: list[int]) -> None:
    screen, all_at_once = new(), new()
    screen.queue(PRINTED)
    await a_pass()
    drawn.clear()
    first = screen.snapshot()
    assert 0 < sum(drawn) <= 4 * PIECE
    assert first.revision == sum(drawn), "the revision says how far it is"
    for _ in range(10):
        screen.snapshot()
        screen.encode_key(KeyPress("Up"))
        assert screen.bracketed_paste is False
        screen.paint()
    assert sum(drawn) <= 4 * PIECE, "whatever else is asked in the same pass"
    await a_pass()
    assert screen.snapshot().revision > first.revision
    await finish(screen)
    all_at_once.queue(PRINTED)
    await finish(all_at_once)
    assert screen.snapshot() == all_at_once.snapshot()
    assert screen.snapshot().revision == len(PRINTED)


async def test_a_resize_follows_earlier_output(slow: None) -> None:
    wide = b"\x1b[m" + b"a line that is longer than twenty columns " * 60 + b"\x1b[8;1Hend"
    screen, other = new(), new()
    screen.feed(wide)
    screen.resize(9, 21)
    screen.resize(6, 20)
    assert screen.snapshot().rows == 8, "it is shown as it was printed until that is drawn"
    screen.queue(b"\x1b[Hlast")
    await finish(screen)
    other.feed(wide)
    await finish(other)
    other.resize(6, 20)
    other.feed(b"\x1b[Hlast")
    await finish(other)
    assert whole(screen) == whole(other)
    assert screen.snapshot().rows == 6


async def test_a_painting_includes_undrawn_output(slow: None) -> None:
    screen, copy = new(), new()
    screen.queue(PRINTED)
    painted = screen.paint()
    assert painted.endswith(PRINTED[-500:])
    copy.feed(painted)
    await finish(screen)
    await finish(copy)
    assert copy.snapshot().lines == screen.snapshot().lines


async def test_many_terminals_draw_one_turn_per_pass(slow: None, drawn: list[int]) -> None:
    """With new output or with a backlog."""
    screens = [new() for _ in range(20)]
    await a_pass()
    most: list[int] = []

    class Passes(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            most.append(sum(drawn))
            drawn.clear()

    async def flood(screen: Screen) -> None:
        for _ in range(3):
            screen.feed(PRINTED[:1024])
            await finish(screen)

    drawn.clear()
    trio.lowlevel.add_instrument(Passes())
    async with trio.open_nursery() as nursery:
        for screen in screens:
            nursery.start_soon(flood, screen)
    assert max(most) <= 2 * PIECE
    assert all(screen.snapshot().revision == 3 * 1024 for screen in screens)


async def test_queued_terminals_take_turns(slow: None) -> None:
    order: list[int] = []

    async def turn(number: int) -> None:
        def draw() -> bool:
            order.append(number)
            return True

        for _ in range(3):
            await draw_scheduler.in_turn(draw)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(turn, number)
    assert [set(order[at : at + 4]) for at in (0, 4, 8)] == [{0, 1, 2, 3}] * 3


def test_unexpectedly_slow_output_is_drawn_in_small_pieces(
    monkeypatch: pytest.MonkeyPatch, drawn: list[int]
) -> None:
    clock = Clock()
    monkeypatch.setattr(screen, "time", SimpleNamespace(thread_time=lambda: clock() * 3))
    one = new()
    one.feed(b"\x1b[m" + b"x" * 600)
    while one.draw():
        pass
    assert drawn[:4] == [PIECE, PIECE // 8, PIECE // 64, 1]
    assert max(drawn[3:]) == 1
