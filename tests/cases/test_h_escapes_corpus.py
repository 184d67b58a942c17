"""Hostile output (X13, X14): no escape sequence is left in any text view. Each sequence is
printed in one write, and cut at every byte into two writes, on a pipe and on a terminal."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.cases.conftest import FIXTURES, Desk, text

ESCAPE = re.compile("[\x1b\x80-\x9f]")
BEL, ST = b"\x07", b"\x1b\\"


class Hostile(NamedTuple):
    """An escape sequence and the visible text around it."""

    name: str
    data: bytes
    seen: str = ""


CORPUS = [
    Hostile("colour", b"\x1b[31m"),
    Hostile("colour with sub-parameters", b"\x1b[38:2::255:0:0m"),
    Hostile("cursor hidden", b"\x1b[?25l"),
    Hostile("cursor's shape", b"\x1b[5 q"),
    Hostile("bracketed paste turned on", b"\x1b[?2004h"),
    Hostile("codes of a paste", b"\x1b[200~pasted\x1b[201~", "pasted"),
    Hostile("erased to the end of the line", b"\x1b[K"),
    Hostile("what it is", b"\x1b[c\x1b[>c\x1b[6n\x1b[?2026$p"),
    Hostile("clipboard, OSC 52", b"\x1b]52;c;cm0gLXJmIH4=" + BEL),
    Hostile("clipboard, OSC 52, ST", b"\x1b]52;c;cm0gLXJmIH4=" + ST),
    Hostile("link, OSC 8", b"\x1b]8;;http://x" + ST + b"link\x1b]8;;" + ST, "link"),
    Hostile("link, OSC 8, BEL", b"\x1b]8;id=1;http://x" + BEL + b"link\x1b]8;;" + BEL, "link"),
    Hostile("title, OSC 0", b"\x1b]0;rm -rf ~" + BEL),
    Hostile("marks of a shell, OSC 133", b"\x1b]133;B" + BEL + b"$ \x1b]133;C" + BEL, "$ "),
    Hostile("marks of an editor, OSC 633", b"\x1b]633;E;ls;n0nce" + BEL),
    Hostile("file, OSC 1337", b"\x1b]1337;File=name=eA==;inline=1:AAAA" + BEL),
    Hostile("colours asked for, OSC 11", b"\x1b]11;?" + ST),
    Hostile("setting asked for, DCS", b'\x1bP$q"p' + ST),
    Hostile("picture, DCS", b"\x1bPq#0;2;0;0;0~~" + ST),
    Hostile("picture, APC", b"\x1b_Gi=1,a=q;AAAA" + ST),
    Hostile("private message, PM", b"\x1b^words" + ST),
    Hostile("string, SOS", b"\x1bXwords" + ST),
    Hostile("character set", b"\x1b(B\x1b)B"),
    Hostile("keypad", b"\x1b=\x1b>"),
]
"""What is read alike whether or not a terminal interprets it."""

BROKEN = [
    Hostile("C1 as a character, CSI", "\x9b31m".encode()),
    Hostile("C1 as a character, OSC", "\x9d0;title\x9c".encode()),
    Hostile("C1 as a byte, CSI", b"\x9b31m"),
    Hostile("C1 as a byte, OSC", b"\x9d0;title\x9c"),
    Hostile("C1 as a byte, DCS", b"\x90q~\x9c"),
    Hostile("passed through by tmux", b"\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"),
    Hostile("cancelled", b"\x1b[3\x18m\x1b]0;t\x1a"),
    Hostile("an endless parameter", b"\x1b[" + b"1;" * 900 + b"m"),
    Hostile("a very long title", b"\x1b]0;" + b"t" * 1500 + BEL),
    Hostile("screen filled, full reset", b"\x1b#8\x1bc"),
    Hostile("line end in a title", b"\x1b]0;one\ntwo" + BEL),
    Hostile("line end in a sequence", b"\x1b[3\n1m"),
    Hostile("broken off by a new one", b"\x1b[3\x1b[1m"),
    Hostile("escapes in a row", b"\x1b\x1b\x1b[31m\x1b"),
    Hostile("a sequence without end", b"\x1b[31"),
    Hostile("a title without end", b"\x1b]0;title"),
    Hostile("a clipboard without end", b"\x1b]52;c;aGk="),
    Hostile("a DCS without end", b"\x1bPq"),
    Hostile("an escape at the end", b"\x1b"),
]
"""Where terminals differ in what is to be seen: held is that nothing of it is an escape."""


class Printer:
    """A program that prints given bytes, with the output read so far."""

    def __init__(self, desk: Desk, on_terminal: bool) -> None:
        self.desk = desk
        self.line_end = b"\r\n" if on_terminal else b"\n"
        self.handle = desk.spawn(
            sys.executable, "-S", str(FIXTURES / "printer.py"), pty=on_terminal
        )
        desk.fetch(self.handle, wait="input", timeout_ms=20_000)
        self.printed = b"READY\n"

    def print(self, *parts: bytes) -> str:
        """Print each part in its own write, read before the next; return the whole text."""
        said = []
        for part in parts:
            values = {"line": f"={part.hex()}"}
            state = self.desk.apply(self.handle, values, wait="input", timeout_ms=20_000)
            assert state["waited"] == "input", state
            assert not ESCAPE.search(state["input_wanted"]["prompt"]), (part, state)
            said.append(state["content"])
            self.printed += part
        return "".join(said)

    def texts(self) -> Iterator[str]:
        """Return the output in every text view."""
        for more in ({"view": "all"}, {"view": "tail"}, {"cursor": 0}):
            yield text(self.desk.fetch(self.handle, max_bytes=1 << 20, **more))

    def raw(self) -> bytes:
        """Return the raw bytes."""
        state = self.desk.fetch(self.handle, view="raw", cursor=0, max_bytes=1 << 20)
        return base64.b64decode(state["content"]).replace(self.line_end, b"\n")


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def printer(desk: Desk, request: pytest.FixtureRequest) -> Printer:
    return Printer(desk, request.param)


def test_X13_text_has_no_escape_sequence(printer: Printer) -> None:
    assert len(CORPUS) >= 18
    for recording in CORPUS:
        printed_text = printer.print(b"<" + recording.data + b">\n")
        assert printed_text == f"<{recording.seen}>\n", recording.name
    seen = "READY\n" + "".join(f"<{recording.seen}>\n" for recording in CORPUS)
    assert list(printer.texts()) == [seen] * 3
    assert printer.raw() == printer.printed


def test_X13_a_sequence_cut_anywhere_is_one_sequence(printer: Printer) -> None:
    for recording in CORPUS:
        cuts = range(1, len(recording.data))
        heads = [b"<" + recording.data[:at] for at in cuts]
        tails = [recording.data[at:] + b">\n" for at in cuts]
        parts = [tail + head for tail, head in zip([b"", *tails], [*heads, b""], strict=True)]
        assert printer.print(*parts) == f"<{recording.seen}>\n" * len(cuts), recording.name
    assert not [text for text in printer.texts() if ESCAPE.search(text)]
    assert printer.raw() == printer.printed


def test_X13_a_broken_sequence_leaves_no_escape(printer: Printer) -> None:
    """Nor does a broken sequence delay the text behind its end."""
    for one in BROKEN:
        for at in sorted({1, len(one.data) // 2, len(one.data)} - {0}):
            behind = f">after {one.name} {at}\n"
            rest = one.data[at:] + b"\x18\x1b\\\n" + behind.encode()
            printed_text = printer.print(b"<" + one.data[:at], rest)
            assert not ESCAPE.search(printed_text), (one.name, at, printed_text)
            assert printed_text.endswith(behind), (one.name, at, printed_text)
    assert not [text for text in printer.texts() if ESCAPE.search(text)]
    assert printer.raw() == printer.printed


def test_X13_a_search_finds_text_and_returns_no_escape(desk: Desk) -> None:
    handle = desk.spawn(sh=r"printf '\033[1mne\033[0medle\n\033]0;needle\007hay\n'", wait="stopped")
    found = desk._call("output/search", pattern="needle", ids=[handle])
    assert "needle" in repr(found) and not ESCAPE.search(
        repr(found).encode().decode("unicode_escape")
    )
