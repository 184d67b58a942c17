from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.cli.terminal.keyboard import AnswerLine, Command, Event, Keyboard


def typed(*pieces: bytes) -> list[Event]:
    """The events of all pieces, neighbouring texts joined."""
    keyboard = Keyboard()
    joined: list[Event] = []
    for piece in pieces:
        for event in keyboard.feed(piece):
            if joined and isinstance(event, str) and isinstance(joined[-1], str):
                joined[-1] += event
            else:
                joined.append(event)
    return joined


KITTY = b"\x1b[92;5u"
XTERM = b"\x1b[27;5;92~"


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"ls\r", ["ls\r"]),
        (b"\x1cd", [Command.DETACH]),
        (b"ab\x1cdrm -rf", ["ab", Command.DETACH]),
        (b"\x1c\x1c", ["\x1c"]),
        (b"\x1c\x1c\x1c\x1cd", ["\x1c\x1cd"]),
        (b"\x1c\x1c\x1cd", ["\x1c", Command.DETACH]),
        (b"\x1c?x", [Command.HELP, "x"]),
        (b"\x1cx", ["\x1cx"]),
        (b"\x1cD", ["\x1cD"]),
        (b"\x1c\x1b[A", ["\x1c\x1b[A"]),
        ("\x1cé".encode(), ["\x1cé"]),
        # codes of the keyboard protocols
        (KITTY + b"d", [Command.DETACH]),
        (XTERM + b"d", [Command.DETACH]),
        (KITTY + b"\x1b[100u", [Command.DETACH]),
        (KITTY + b"\x1b[100;65;100u", [Command.DETACH]),
        (b"\x1b[92;69u" + b"d", [Command.DETACH]),
        (b"\x1b[92::92;5:1u\x1b[92;5:3u\x1b[57442;1:3u\x1b[100;1:1u", [Command.DETACH]),
        (KITTY + b"\x1b[47;2u", [Command.HELP]),
        (KITTY + b"\x1b[223:63;2u", [Command.HELP]),
        (KITTY + KITTY, [KITTY.decode()]),
        (KITTY + b"\x1b[100;5u", [(KITTY + b"\x1b[100;5u").decode()]),
        (KITTY + b"x", [(KITTY + b"x").decode()]),
        (b"\x1b[92u\x1b[92;3ud", ["\x1b[92u\x1b[92;3ud"]),
        # numbers that are no key's
        (KITTY + b"\x1b[9999999u", [(KITTY + b"\x1b[9999999u").decode()]),
        (KITTY + b"\x1b[47:1114112;2u", [(KITTY + b"\x1b[47:1114112;2u").decode()]),
        (KITTY + b"\x1b[55296u", [(KITTY + b"\x1b[55296u").decode()]),
        (b"\x1b[" + b"9" * 5000 + b"u", ["\x1b[" + "9" * 5000 + "u"]),
        (b"\x1b[27;" + b"9" * 5000 + b";92~", ["\x1b[27;" + "9" * 5000 + ";92~"]),
        (b"\x1b[92;" + b"9" * 5000 + b"u", ["\x1b[92;" + "9" * 5000 + "u"]),
        # a paste is text
        (b"\x1b[200~a\x1cdb\x1b[201~\x1cd", ["\x1b[200~a\x1cdb\x1b[201~", Command.DETACH]),
        # bytes that are no text
        (b"a\xffb", ["ab", Command.NOT_TEXT]),
        (b"\xed\xa0\x80", [Command.NOT_TEXT]),
    ],
)
def test_commands_and_texts(data: bytes, events: list[Event]) -> None:
    assert typed(data) == events


def test_an_escape_alone_is_passed_on_at_once() -> None:
    for data in (b"\x1b", b"\x1b[", b"\x1bO", b"\x1b\x1b", b"\x1c\x1b"):
        assert typed(data) == [data.decode()]


def test_a_character_is_never_split_and_the_prefix_waits_for_its_key() -> None:
    keyboard = Keyboard()
    euro = "€".encode()
    assert keyboard.feed(euro[:1]) == [] and keyboard.feed(euro[1:2]) == []
    assert keyboard.feed(euro[2:]) == ["€"]
    assert keyboard.feed(b"\x1c") == []
    assert keyboard.feed(b"d") == [Command.DETACH]


PARTS = st.lists(
    st.sampled_from(
        [
            b"a",
            b"\r",
            "ö".encode(),
            "🦊".encode(),
            b"\x1c\x1c",
            b"\x1cq",
            b"\x1c?",
            KITTY + KITTY,
            b"\x1b[1;5A",
            b"\x1b[15~",
            b"\x1b[<0;10;20M",
            b"\x1b[200~x\x1cdy\x1b[201~",
            b"\x1bOA",
        ]
    ),
    max_size=12,
)


@given(PARTS, st.data())
def test_any_cut_of_the_bytes_gives_the_same(parts: list[bytes], data: st.DataObject) -> None:
    """Except for a cut between Escape and the rest: an Escape alone cannot wait."""
    whole = b"".join(parts)
    places = [
        n for n in range(1, len(whole)) if whole[n - 1] != 0x1B and whole[n - 2 : n] != b"\x1b["
    ]
    cuts = sorted(data.draw(st.sets(st.sampled_from(places)))) if places else []
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert typed(*pieces) == typed(whole)


@given(st.text(st.characters(exclude_characters="\x1c", exclude_categories=["Cs"])))
def test_text_without_the_prefix_arrives_as_it_is(text: str) -> None:
    assert "".join(str(event) for event in typed(text.encode(), b".")) == text + "."


def test_the_end_of_a_paste_is_found_however_it_is_cut() -> None:
    paste = b"\x1b[200~\x1cd\x1b[20\x1b[201~"
    for at in range(7, len(paste)):
        assert typed(paste[:at], paste[at:] + b"\x1cd") == [paste.decode(), Command.DETACH]


@pytest.mark.parametrize(
    ("text", "answer", "behind"),
    [
        ("yes\r", "yes", ""),
        ("yex\x7fs\n", "yes", ""),
        ("no\x15yes\rls\r", "yes", "ls\r"),
        ("\x1b[Aa\x1bOBb\x1b[200~c\x1b[201~\r", "abc", ""),
        ("ö€\b\r", "ö", ""),
        ("\r", "", ""),
    ],
)
def test_an_answer_is_the_typed_line(text: str, answer: str, behind: str) -> None:
    assert AnswerLine().feed(text) == (answer, behind)
    line = AnswerLine()
    if len(text) > 1 and "\x1b" not in text:
        assert line.feed(text[0]) == (None, "")
        assert line.feed(text[1:]) == (answer, behind)


def test_a_released_or_repeated_prefix_key_is_no_prefix() -> None:
    for event in (b"2", b"3"):
        code = b"\x1b[92;5:" + event + b"u"
        assert Keyboard().feed(code + b"d") == [code.decode() + "d"]


def test_the_prefix_is_recognised_on_other_keyboard_layouts() -> None:
    assert Keyboard().feed(b"\x1b[1101::92;5ud") == [Command.DETACH]


@pytest.mark.parametrize("code", [57_358, 57_360, 57_441, 57_454])
def test_a_lock_or_a_modifier_behind_the_prefix_is_no_key(code: int) -> None:
    assert Keyboard().feed(b"\x1c\x1b[%dud" % code) == [Command.DETACH]
