"""haft's screen beside tmux's, row by row, for sessions of real programs, in any cut.
`record_corpus.py` makes the recordings. A differing row is in `DIFFERENCES`, with the correct
side and its standard; an unlisted difference fails, and so does a listed one that is gone."""

from __future__ import annotations

import functools
import random
import shutil
import subprocess
from dataclasses import replace

import pytest
from msgspec import structs

from haftd.runtimes.terminal.screen import Screen

from . import record_corpus
from .drawn import modes, whole
from .record_corpus import Recorded, ask_tmux

CORPUS = record_corpus.read_all()
LONG = 4_000
"""Bytes of a recording that is not cut at every byte in the normal suite."""

_DRAWN_LINES = (
    "tmux prints the letters behind DEC's special graphics; DEC STD 070 (ESC ( 0) and every "
    "terminal draw lines: ours are the lines."
)
_JOINED = (
    "Nobody has turned mode 2027 (grapheme clusters) on, so each character moves the cursor by its "
    "own width, as the wcwidth that programs count with does; tmux joins at U+200D and counts 2."
)
DIFFERENCES: dict[str, dict[tuple[int, ...], str]] = {
    "gdb_tui": {tuple(range(15)): _DRAWN_LINES},
    "dialog_form": {tuple(range(7, 15)): _DRAWN_LINES},
    "edit_cells": {(15,): _DRAWN_LINES},
    "emoji_joined": {
        (0, 6): _JOINED,
        (
            1,
        ): "A flag is two regional indicators. Unicode (UTS #51) presents them as emoji, two columns "
        "each; tmux takes the libc's width, one each.",
    },
    "tab_stops": {
        (
            2,
        ): "CSI g without a number clears the stop at the cursor (ECMA-48 8.3.154): tmux is right. "
        "The library wants the 0 written; no terminfo entry leaves it out.",
        (4,): "CSI 2 I goes two stops on (ECMA-48 8.3.10, xterm): ours does; tmux has no CHT.",
    },
    "wrapped_lines": {
        (
            8,
        ): "A backspace behind the last column goes to the one before it, as the cursor is still "
        "in the last (DEC STD 070, xterm); tmux takes it to be outside.",
    },
}


def played(recorded: Recorded) -> Screen:
    """Return a screen that has shown the whole recording."""
    screen = Screen(recorded.rows, recorded.cols, lambda reply: None)
    size = (recorded.rows, recorded.cols)
    for rows, cols, data in recorded.parts():
        if (rows, cols) != size:
            screen.resize(rows, cols)
            size = (rows, cols)
        screen.feed(data)
    screen.catch_up()
    return screen


def rows_of(text: str) -> tuple[str, list[str]]:
    """The facts and the rows of a capture, without the blanks at the ends."""
    facts, *rows = text.split("\n")
    return facts, [row.rstrip() for row in rows]


def differing(recorded: Recorded, captured: str) -> dict[int, tuple[str, str]]:
    """Return the rows in which haft's screen and tmux's differ, -1 for the facts: ours, tmux's."""
    shot = played(recorded).snapshot()
    row, col = shot.cursor
    facts, theirs = rows_of(captured)
    ours = f"{shot.rows}x{shot.cols} cursor={row},{col} alt={int(shot.alt)} title={shot.title}"
    theirs += [""] * (shot.rows - len(theirs))
    found = {
        number: (one, other)
        for number, (one, other) in enumerate(zip(shot.lines, theirs, strict=False))
        if one.rstrip() != other
    }
    return found if ours == facts else {-1: (ours, facts), **found}


def check(recorded: Recorded, captured: str) -> None:
    """Fail for an unlisted difference, and for a listed one that is gone."""
    listed = {row for rows in DIFFERENCES.get(recorded.name, {}) for row in rows}
    found = differing(recorded, captured)
    assert {row: rows for row, rows in found.items() if row not in listed} == {}
    assert listed <= found.keys(), "these rows differ no more: take them out of DIFFERENCES"


def names(corpus: list[Recorded]) -> list[str]:
    return [recorded.name for recorded in corpus]


@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_the_screen_equals_tmuxs_recorded_screen(recorded: Recorded) -> None:
    check(recorded, recorded.screen)


def test_every_difference_is_of_a_recording_and_explained() -> None:
    assert DIFFERENCES.keys() <= set(names(CORPUS))
    for rows in DIFFERENCES.values():
        assert all(len(why) > 40 for why in rows.values())
    assert len(CORPUS) >= 30


@functools.cache
def tmux() -> str:
    """Return the version of tmux, empty without tmux."""
    if shutil.which("tmux") is None:
        return ""
    return subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_the_screen_equals_the_current_tmuxs_screen(recorded: Recorded) -> None:
    if not tmux():
        pytest.skip("tmux is not installed")
    if tmux() != record_corpus.TMUX:
        pytest.skip("another tmux than the corpus was recorded with")
    check(recorded, ask_tmux(recorded))


@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_the_cut_of_a_recording_does_not_matter(recorded: Recorded) -> None:
    """Byte by byte, and in random pieces, with reads now and then."""
    expected = whole(played(recorded))
    sizes = [1] if len(recorded.data) <= LONG else []
    chance = random.Random(recorded.name)
    for most in (*sizes, 7, 300, 5000):
        screen = Screen(recorded.rows, recorded.cols, lambda reply: None)
        for number, (rows, cols, data) in enumerate(recorded.parts()):
            if number:
                screen.resize(rows, cols)
            at = 0
            while at < len(data):
                step = chance.randint(1, most)
                screen.feed(data[at : at + step])
                at += step
                if chance.random() < 0.02:
                    screen.snapshot()
        assert whole(screen) == expected


@pytest.mark.soak
@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_a_cut_at_any_byte_of_a_long_recording_does_not_matter(recorded: Recorded) -> None:
    expected = whole(played(recorded))
    screen = Screen(recorded.rows, recorded.cols, lambda reply: None)
    for number, (rows, cols, data) in enumerate(recorded.parts()):
        if number:
            screen.resize(rows, cols)
        for byte in data:
            screen.feed(bytes((byte,)))
    assert whole(screen) == expected


@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_a_recording_can_be_painted_at_any_moment_and_goes_on(recorded: Recorded) -> None:
    """A client that joins in the middle has the same final screen."""
    if recorded.resizes:
        recorded = replace(recorded, data=recorded.data[: recorded.resizes[0][0]], resizes=())
    expected = played(recorded)
    chance = random.Random(recorded.name)
    for cut in sorted(chance.randint(0, len(recorded.data)) for _ in range(6)):
        first = played(replace(recorded, data=recorded.data[:cut]))
        later = Screen(recorded.rows, recorded.cols, lambda reply: None)
        later.feed(first.paint())
        later.feed(recorded.data[cut:])
        shot, other = expected.snapshot(), later.snapshot()
        assert structs.replace(other, revision=0, scrollback=0) == structs.replace(
            shot, revision=0, scrollback=0
        )
        assert modes(later) == modes(expected)


@pytest.mark.parametrize("recorded", CORPUS, ids=names(CORPUS))
def test_a_recording_contains_nothing_of_its_machine(recorded: Recorded) -> None:
    for word in (b"/root", b"/work", b"/home", b"root@", b"hostname", b"nogroup", b"pyenv"):
        assert word not in recorded.data
