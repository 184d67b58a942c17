"""Drawing in turns: no step of the loop draws more than a little of any output."""

from __future__ import annotations

import threading

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from haftd.host import pump
from haftd.runtimes.terminal import library, screen
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.runtime import TerminalControl, TerminalRuntime
from haftd.runtimes.terminal.screen import Screen
from haftd.testing import perform
from tests.patience import PATIENCE_S

from . import kit

COSTLY = b"a\x1b[9b" * 800
"""Few bytes that draw much, as far as the clock of these tests goes."""
COLOURED = b"".join(b"\x1b[%d;1mline %d\x1b[0m of text\n" % (31 + n % 7, n) for n in range(180))
REDRAWN = b"".join(b"\x1b[H\x1b[2J\x1b[%d;%dHhere %d" % (n % 24, n % 60, n) for n in range(200))


def new(rows: int = 8, cols: int = 30) -> Screen:
    return Screen(rows, cols, lambda reply: None)


@pytest.mark.parametrize(("rows", "cols", "most"), [(24, 80, 1024), (1000, 1000, 256)])
def test_a_turn_draws_little_and_the_next_goes_on(
    slow: None, drawn: list[int], rows: int, cols: int, most: int
) -> None:
    one = new(rows, cols)
    one.feed(COSTLY)
    turns = [sum(drawn)]
    left = True
    while left:
        drawn.clear()
        left = one.draw()
        turns.append(sum(drawn))
    assert len(turns) > 2
    assert max(turns) <= most and sum(turns) == len(COSTLY)


def test_the_picture_is_the_same_in_any_number_of_turns(slow: None) -> None:
    printed = b"one\r\n\x1b[31mred\x1b[0m \xe2\x89\xa4\x1b]0;title\x07\r\n" * 40 + b"\x1b[3;4Hx"
    in_turns, whole = new(), new()
    for at in range(0, len(printed), 700):
        in_turns.feed(printed[at : at + 700])
    while in_turns.draw():
        pass
    whole.queue(printed)
    assert in_turns.snapshot() == whole.snapshot()
    looked_at = new()
    looked_at.feed(printed)
    assert looked_at.snapshot() == whole.snapshot(), "a look shows all, also what was not drawn"
    assert not looked_at.draw()


PLAIN = st.lists(
    st.sampled_from(
        [b"one\r\n", b"\n", b"\r", b"\r\n", b"x" * 40, "≤ü😀".encode(), b"\t\b", b"\xc3"]
    ),
    max_size=80,
)


class _Whole(Screen):
    """A screen that draws all."""

    def _skip(self) -> None:
        pass


@given(PLAIN, st.integers(1, 50), st.integers(2, 5), st.sets(st.integers(0, 60)))
@example([b"one\r\none\r\n", b"\n", b"one\r\n"], 8, 2, {0})
def test_output_that_scrolls_away_unseen_leaves_the_same_screen(
    pieces: list[bytes], size: int, rows: int, drawn_at: set[int]
) -> None:
    """Also a part of a chunk, a part of a character, and a cursor in any column."""
    printed = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "_MAX_WAITING", 8)
        patch.setattr(screen, "_SCROLLBACK_BYTES", 0)
        load()
        skipping, whole = new(rows), _Whole(rows, 30, lambda reply: None)
        for number, at in enumerate(range(0, len(printed), size)):
            skipping.queue(printed[at : at + size])
            assert skipping._waiting_size == len(skipping._not_drawn())
            while number in drawn_at and skipping.draw():
                pass
            whole.queue(printed[at : at + size])
        shown, wanted = skipping.snapshot(), whole.snapshot()
    assert (shown.lines, shown.cursor, shown.revision) == (
        wanted.lines,
        wanted.cursor,
        wanted.revision,
    )


def test_a_new_size_in_the_backlog_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(screen, "_MAX_WAITING", 8)
    monkeypatch.setattr(screen, "_SCROLLBACK_BYTES", 0)
    skipping, whole = new(4), _Whole(4, 30, lambda reply: None)
    with monkeypatch.context() as unloaded:
        unloaded.setattr(library, "is_loaded", lambda: False)
        for each in (skipping, whole):
            each.queue(b"before\r\n" * 800)
            each.resize(6, 20)
            each.queue(b"behind\r\n" * 800)
    assert skipping.snapshot() == whole.snapshot()
    assert skipping.snapshot().rows == 6


def test_single_bytes_are_drawn_together(drawn: list[int]) -> None:
    load()
    slow = new()
    for _ in range(20_000):
        slow.queue(b"x")
    assert slow.snapshot().lines[0] == "x" * 30
    assert sum(drawn) == 20_000
    assert len(drawn) < 40


def test_a_flood_of_plain_lines_is_drawn_only_as_far_as_one_can_scroll(
    drawn: list[int],
) -> None:
    load()
    flooded = new(24, 80)
    lines = [b"line %06d\r\n" % number for number in range(400_000)]
    for at in range(0, len(lines), 1_000):
        flooded.feed(b"".join(lines[at : at + 1_000]))
    shot = flooded.snapshot()
    assert shot.lines[:2] == ("line 399977", "line 399978") and shot.lines[-1] == ""
    assert shot.scrollback > 2_000
    assert shot.revision == sum(map(len, lines))
    assert sum(drawn) <= screen._MAX_WAITING


@pytest.mark.parametrize("asks", [b"\x05", b"\x1b[6n"])
def test_output_that_asks_is_drawn_at_once(asks: bytes, drawn: list[int]) -> None:
    load()
    asked = new()
    asked.feed(b"text")
    assert drawn == []
    asked.feed(asks)
    assert sum(drawn) == 4 + len(asks)


class _Steps(trio.abc.Instrument):
    """The library's input per step of the loop, and the largest backlog of a running program."""

    def __init__(self, drawn: list[int]) -> None:
        self.most = 0
        self.behind = 0
        self.control: TerminalControl | None = None
        self._drawn = drawn

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._drawn.clear()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.most = max(self.most, sum(self._drawn))
        # At the end, the kernel's buffer follows.
        if self.control is not None and not self.control.child.ended:
            self.behind = max(self.behind, self.control._screen._waiting_size)


FLOOD = "import os\nfor _ in range({times}): os.write(1, {data!r})\nos.write(1, b'\\nLAST')"


@pytest.mark.parametrize("late", [False, True], ids=["as it comes", "at the end"])
@pytest.mark.parametrize(
    "flood", [COSTLY, COLOURED, REDRAWN], ids=["costly", "coloured", "redrawn"]
)
def test_no_step_of_a_flooded_loop_draws_much(
    slow: None, drawn: list[int], flood: bytes, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the step that sees the end; and the program is not read faster than drawn."""
    if late:
        monkeypatch.setattr(Screen, "feed", Screen.queue)
        monkeypatch.setattr(TerminalControl, "keep_up", lambda control: None)
    steps = _Steps(drawn)

    async def main() -> bytes:
        async with trio.open_nursery() as nursery:
            call = kit.python(FLOOD.format(times=20, data=flood), terminal=True)
            performance = await perform(nursery, TerminalRuntime(), call)
            assert isinstance(performance.control, TerminalControl)
            steps.control = performance.control
            with trio.fail_after(PATIENCE_S):
                await performance.finish()
        shot = performance.control.screen()
        assert shot is not None
        assert "LAST" in shot.lines
        return bytes(performance.port.output)

    output = trio.run(main, instruments=[steps])
    assert output == flood.replace(b"\n", b"\r\n") * 20 + b"\r\nLAST"
    assert steps.most <= 1024
    # A gathered read waits; another one follows, with a read of a terminal above its limit.
    most_behind = 2 * pump._MAX_GATHERED + 4096
    assert late or 0 < steps.behind <= most_behind < len(output) / 2


async def test_output_is_bounded_while_the_library_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program waits, as for any slow terminal, and nothing is lost."""
    go = threading.Event()
    real = load
    real()

    def late() -> object:
        go.wait(30)
        return real()

    monkeypatch.setattr(library, "load", late)
    monkeypatch.setattr(library, "is_loaded", go.is_set)
    script = FLOOD.format(times=1000, data=b"\x1b[32m" + b"x" * 1000)
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, TerminalRuntime(), kit.python(script, terminal=True))
        port = performance.port
        try:
            await port.until(lambda: len(port.output) >= 65_536)
            for _ in range(20):
                await trio.sleep(0.005)
                assert len(port.output) < 65_536 + 40_960
        finally:
            go.set()
        with trio.fail_after(PATIENCE_S):
            await performance.finish()
    assert port.output.count(b"\x1b[32m" + b"x" * 1000) == 1000
    assert port.output.endswith(b"LAST")


async def test_undrawn_output_may_contain_a_query() -> None:
    """So a program with undrawn output is not reported as waiting."""
    script = "import os, sys\nos.write(1, b'\\x1b[32mPROMPT ')\nsys.stdin.readline()"
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, TerminalRuntime(), kit.python(script, terminal=True))
        await performance.port.until(lambda: b"PROMPT" in performance.port.output)
        control = performance.control
        while control.input_state().state != "reads":
            await trio.sleep(0.01)
        held: Screen = vars(control)["_screen"]
        held.queue(b"\x1b[6n")
        assert control.input_state().state == "busy"
        held.draw()
        assert control.input_state().state == "reads"
        performance.scope.cancel()
