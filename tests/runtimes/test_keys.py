"""Names of keys: what is a key is sent as a terminal sends it, what is none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.runtimes.base import InputRefused
from haftd.runtimes.keys import KeyPress, encode, on_pipe, read_key
from haftd.runtimes.screen import Screen


def no_encoder(press: KeyPress) -> bytes:
    raise AssertionError(f"the encoder was asked for {press}")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("a", b"a"),
        ("A", b"A"),
        ("é", "é".encode()),
        ("-", b"-"),
        ("^", b"^"),
        (" ", b" "),
        ("C-c", b"\x03"),
        ("C-C", b"\x03"),
        ("c-c", b"\x03"),
        ("^C", b"\x03"),
        ("C-[", b"\x1b"),
        ("C-\\", b"\x1c"),
        ("C-_", b"\x1f"),
        ("C-/", b"\x1f"),
        ("C-?", b"\x7f"),
        ("C-@", b"\x00"),
        ("C-Space", b"\x00"),
        ("C-m", b"\r"),
        ("C-i", b"\t"),
        ("M-x", b"\x1bx"),
        ("M-C-x", b"\x1b\x18"),
        ("C-M-x", b"\x1b\x18"),
        ("S-a", b"A"),
        ("M--", b"\x1b-"),
        ("Enter", b"\r"),
        ("enter", b"\r"),
        ("Tab", b"\t"),
        ("S-Tab", b"\x1b[Z"),
        ("BTab", b"\x1b[Z"),
        ("BSpace", b"\x7f"),
        ("C-BSpace", b"\x08"),
        ("M-BSpace", b"\x1b\x7f"),
        ("Space", b" "),
        ("Escape", b"\x1b"),
        ("M-Enter", b"\x1b\r"),
    ],
)
def test_common_keys_need_no_screen(name: str, sent: bytes) -> None:
    assert encode([name], False, False, no_encoder) == (sent,)


@pytest.mark.parametrize(
    ("name", "normal", "application"),
    [
        ("Up", b"\x1b[A", b"\x1bOA"),
        ("Down", b"\x1b[B", b"\x1bOB"),
        ("Right", b"\x1b[C", b"\x1bOC"),
        ("Left", b"\x1b[D", b"\x1bOD"),
        ("Home", b"\x1b[H", b"\x1bOH"),
        ("End", b"\x1b[F", b"\x1bOF"),
        ("C-Up", b"\x1b[1;5A", b"\x1b[1;5A"),
        ("S-Left", b"\x1b[1;2D", b"\x1b[1;2D"),
        ("M-Right", b"\x1b[1;3C", b"\x1b[1;3C"),
        ("PPage", b"\x1b[5~", b"\x1b[5~"),
        ("PageDown", b"\x1b[6~", b"\x1b[6~"),
        ("IC", b"\x1b[2~", b"\x1b[2~"),
        ("DC", b"\x1b[3~", b"\x1b[3~"),
        ("F1", b"\x1bOP", b"\x1bOP"),
        ("F5", b"\x1b[15~", b"\x1b[15~"),
        ("F12", b"\x1b[24~", b"\x1b[24~"),
        ("F20", b"\x1b[34~", b"\x1b[34~"),
        ("S-F5", b"\x1b[15;2~", b"\x1b[15;2~"),
    ],
)
def test_the_application_cursor_mode_is_honoured(
    name: str, normal: bytes, application: bytes
) -> None:
    screen = Screen(24, 80, lambda reply: None)
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (normal,)
    screen.feed(b"\x1b[?1h")
    assert screen.application_cursor
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (application,)
    screen.feed(b"\x1b[?1l")
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (normal,)


def test_a_keyboard_protocol_that_the_program_asked_for_is_honoured() -> None:
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(b"\x1b[>1u")
    assert screen.keyboard_protocol
    sent = encode(["C-c", "Escape", "a", "C-i"], screen.keyboard_protocol, False, screen.encode_key)
    assert sent == (b"\x1b[99;5u", b"\x1b[27u", b"a", b"\x1b[105;5u")


@pytest.mark.parametrize(
    "name", ["", "Entr", "ls", "C-", "C-ab", "F21", "F0", "Up Down", "\x03", "\n", "echo hi"]
)
def test_what_is_no_key_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(InputRefused, match=r"not the name of a key.*type text") as refused:
        read_key(name)
    assert len(str(refused.value)) < 400


def test_a_wrong_name_stops_the_whole_list() -> None:
    seen: list[KeyPress] = []

    def encoder(press: KeyPress) -> bytes:
        seen.append(press)
        return b"x"

    with pytest.raises(InputRefused):
        encode(["Up", "Nope"], False, False, encoder)
    assert seen == []
    with pytest.raises(InputRefused, match="at least one name"):
        encode([], False, False, encoder)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("C-c", "INT"),
        ("C-d", "eof"),
        ("C-\\", "QUIT"),
        ("C-z", "TSTP"),
        ("Enter", b"\n"),
        ("Tab", b"\t"),
        ("y", b"y"),
        ("Space", b" "),
    ],
)
def test_on_a_pipe_keys_are_signals_ends_and_text(name: str, meaning: bytes | str) -> None:
    assert on_pipe(name) == meaning


@pytest.mark.parametrize("name", ["Up", "F5", "M-x", "C-l", "S-Tab", "BSpace"])
def test_on_a_pipe_a_key_of_a_terminal_is_refused(name: str) -> None:
    with pytest.raises(InputRefused, match="needs a terminal"):
        on_pipe(name)


_PRINTABLE = st.characters().filter(str.isprintable)


@given(
    st.sets(st.sampled_from(["C-", "M-", "S-"])),
    st.one_of(_PRINTABLE, st.sampled_from("ßİıſŉΐK")),
    st.sampled_from([b"", b"\x1b[>1u", b"\x1b[>31u"]),
)
def test_any_character_with_any_modifiers_is_typed_or_refused(
    modifiers: set[str], char: str, protocol: bytes
) -> None:
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(protocol)
    name = "".join(sorted(modifiers)) + char
    try:
        (data,) = encode([name], screen.keyboard_protocol, False, screen.encode_key)
    except InputRefused as refused:
        assert str(refused).endswith(".")
    else:
        assert data
    finally:
        screen.close()


def test_a_letter_with_another_as_its_capital_is_not_that_one() -> None:
    screen = Screen(24, 80, lambda reply: None)
    for name in ("C-ı", "C-ſ", "C-ß", "C-İ"):
        (data,) = encode([name], False, False, screen.encode_key)
        assert data not in (b"\t", b"\x13")
    assert encode(["S-ß"], False, False, screen.encode_key) == ("ß".encode(),)


@given(st.text(max_size=12))
def test_any_text_is_a_key_or_is_refused(name: str) -> None:
    try:
        press = read_key(name)
    except InputRefused:
        return
    assert bool(press.name) != bool(press.char)
