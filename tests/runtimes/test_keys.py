"""Names of keys, encoded as a terminal sends them."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haftd.runtimes.base import InputRefused
from haftd.runtimes.keys import KeyPress, encode, on_pipe, read_key
from haftd.runtimes.terminal.screen import Screen

from .drawn import new
from .record_keys import MODES, TABLE


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
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (application,)
    screen.feed(b"\x1b[?1l")
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (normal,)


def test_a_requested_keyboard_protocol_is_honoured() -> None:
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(b"\x1b[>1u")
    assert screen.keyboard_protocol
    sent = encode(["C-c", "Escape", "a", "C-i"], screen.keyboard_protocol, False, screen.encode_key)
    assert sent == (b"\x1b[99;5u", b"\x1b[27u", b"a", b"\x1b[105;5u")


@pytest.mark.parametrize(
    "name", ["", "Entr", "ls", "C-", "C-ab", "F21", "F0", "Up Down", "\x03", "\n", "echo hi"]
)
def test_an_unknown_key_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(InputRefused, match=r"not the name of a key.*type text") as refused:
        read_key(name)
    assert len(str(refused.value)) < 400
    if name:
        assert ascii(name) not in refused.value.message(secret=True)


def test_an_unknown_name_refuses_the_whole_list() -> None:
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
def test_a_terminal_key_is_refused_on_a_pipe(name: str) -> None:
    with pytest.raises(InputRefused, match="needs a terminal") as refused:
        on_pipe(name)
    assert ascii(name) not in refused.value.message(secret=True)


_PRINTABLE = st.characters().filter(str.isprintable)


@given(
    st.sets(st.sampled_from(["C-", "M-", "S-"])),
    st.one_of(_PRINTABLE, st.sampled_from("ßİıſŉΐK")),
    st.sampled_from([b"", b"\x1b[>1u", b"\x1b[>31u"]),
)
@example({"C-"}, "é", b"")
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


def test_a_letter_is_not_confused_with_anothers_capital() -> None:
    screen = Screen(24, 80, lambda reply: None)
    for name in ("C-ı", "C-ſ", "C-ß", "C-İ"):
        with pytest.raises(InputRefused, match="has a code for the key"):
            encode([name], False, False, screen.encode_key)
        (data,) = encode([name], True, False, screen.encode_key)
        assert data not in (b"\t", b"\x13")
    assert encode(["S-ß"], False, False, screen.encode_key) == ("ß".encode(),)


PARTS = st.sampled_from(["C-", "M-", "S-", "F1", "F99", "Enter", "KP0", "a", "ß", "-", " "])


@given(st.lists(PARTS, max_size=4).map("".join) | st.text(max_size=12))
@example("C-M-a")
@example("F1")
def test_any_text_is_a_key_or_is_refused(name: str) -> None:
    try:
        press = read_key(name)
    except InputRefused:
        return
    assert bool(press.name) != bool(press.char)


TMUX: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
"""What tmux sends for each name, by mode; recorded once, see `record_keys.py`."""

DIFFERENCES: dict[str, str] = {
    r"Home|End": "tmux sends what terminfo has for `screen`; a program finds `xterm-256color` in TERM, "
    "where these are CSI H and CSI F, and with the application cursor mode SS3.",
    r"(M-)?KPEnter": "tmux sends LF; the Enter of a keypad in numeric mode sends CR, as xterm's.",
    r"M-KP.+": "In application mode tmux puts an escape before the key, xterm the modifier into it.",
    r"(C-)?(M-)?(S-)?[^\x00-\x7f]": "tmux leaves control and shift out without a word for what is not "
    "in ASCII: ours is shifted, and refused where there is no code.",
}
"""By name: what differs from tmux, and why."""


@pytest.mark.parametrize("mode", MODES)
def test_a_keys_bytes_are_those_of_tmux(mode: str) -> None:
    """Where tmux has the name: an unknown name is typed as text there, or sends nothing."""
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(MODES[mode])
    known = {
        name: bytes.fromhex(told)
        for name, told in TMUX[mode].items()
        if told and (bytes.fromhex(told) != name.encode() or len(name) == 1)
    }
    assert len(known) > 200
    differing = set()
    for name, theirs in known.items():
        why = [one for one in DIFFERENCES if re.fullmatch(one, name)]
        try:
            (ours,) = encode([name], screen.keyboard_protocol, False, screen.encode_key)
        except InputRefused:
            ours = b""
        if ours != theirs:
            assert why, (name, ours, theirs)
            differing.update(why)
    if mode == "first":
        assert {r"Home|End", r"(M-)?KPEnter"} < differing
    if mode == "keypad":
        assert r"M-KP.+" in differing


@pytest.mark.parametrize("number", range(1, 21))
def test_function_keys_are_those_of_xterm(number: int) -> None:
    """As `infocmp xterm-256color` has kf1 to kf12, and with shift kf13 to kf24."""
    screen = Screen(24, 80, lambda reply: None)
    plain = [b"\x1bOP", b"\x1bOQ", b"\x1bOR", b"\x1bOS"]
    numbers = (15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34)
    plain += [b"\x1b[%d~" % code for code in numbers]
    shifted = [b"\x1b[1;2P", b"\x1b[1;2Q", b"\x1b[1;2R", b"\x1b[1;2S"]
    shifted += [b"\x1b[%d;2~" % code for code in numbers]
    sent = encode([f"F{number}", f"S-F{number}"], False, False, screen.encode_key)
    assert sent == (plain[number - 1], shifted[number - 1])


@pytest.mark.parametrize(
    ("name", "numeric", "application"),
    [
        ("KP0", b"0", b"\x1bOp"),
        ("KP9", b"9", b"\x1bOy"),
        ("KP+", b"+", b"\x1bOk"),
        ("KP-", b"-", b"\x1bOm"),
        ("KP*", b"*", b"\x1bOj"),
        ("KP/", b"/", b"\x1bOo"),
        ("KP.", b".", b"\x1bOn"),
        ("KPEnter", b"\r", b"\x1bOM"),
        ("M-KP5", b"\x1b5", b"\x1bO3u"),
    ],
)
def test_the_keypad_mode_is_honoured(name: str, numeric: bytes, application: bytes) -> None:
    screen = Screen(24, 80, lambda reply: None)
    for modes, sent in ((b"", numeric), (b"\x1b=", application), (b"\x1b>", numeric)):
        screen.feed(modes)
        assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (sent,)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("C-i", b"\x1b[27;5;105~"),
        ("Tab", b"\t"),
        ("C-Enter", b"\x1b[27;5;13~"),
        ("S-Enter", b"\x1b[27;2;13~"),
        ("M-x", b"\x1b[27;3;120~"),
        ("C-;", b"\x1b[27;5;59~"),
        ("a", b"a"),
        ("A", b"A"),
        ("Enter", b"\r"),
        ("Up", b"\x1b[A"),
    ],
)
def test_modify_other_keys_is_honoured(name: str, sent: bytes) -> None:
    """xterm's level 2; level 1 changes no key that has a code."""
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(b"\x1b[>4;2m")
    assert screen.keyboard_protocol
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (sent,)


@pytest.mark.parametrize("off", [b"\x1b[>4;1m", b"\x1b[>4m", b"\x1bc"])
def test_modify_other_keys_ends(off: bytes) -> None:
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(b"\x1b[>4;2m" + off)
    assert not screen.keyboard_protocol


@pytest.mark.parametrize(
    ("flags", "name", "sent"),
    [
        (1, "C-c", b"\x1b[99;5u"),
        (1, "Escape", b"\x1b[27u"),
        (1, "C-S-a", b"\x1b[97;6u"),
        (1, "Enter", b"\r"),
        (1, "S-Enter", b"\x1b[13;2u"),
        (1, "S-F3", b"\x1b[13;2~"),
        (8, "a", b"\x1b[97u"),
        (8, "Enter", b"\x1b[13u"),
        (8, "KP5", b"\x1b[57404u"),
    ],
)
def test_the_kitty_protocol_is_honoured(flags: int, name: str, sent: bytes) -> None:
    screen = Screen(24, 80, lambda reply: None)
    screen.feed(b"\x1b[>%du" % flags)
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key) == (sent,)


def test_the_other_code_of_the_backspace_key_is_honoured() -> None:
    screen = Screen(24, 80, lambda reply: None)
    for modes, sent in ((b"", b"\x7f"), (b"\x1b[?67h", b"\b"), (b"\x1b[?67l", b"\x7f")):
        screen.feed(modes)
        swapped = screen.swaps_backspace
        assert encode(["BSpace"], False, swapped, screen.encode_key) == (sent,)


@pytest.mark.parametrize("name", ["C-;", "C-é", "C-.", "M-C-="])
def test_protocol_codes_are_not_sent_without_a_request(name: str) -> None:
    screen = Screen(24, 80, lambda reply: None)
    with pytest.raises(InputRefused, match="has a code for the key") as refused:
        encode([name], screen.keyboard_protocol, False, screen.encode_key)
    assert ascii(name) not in refused.value.message(secret=True)
    screen.feed(b"\x1b[>1u")
    assert encode([name], screen.keyboard_protocol, False, screen.encode_key)[0].endswith(b"u")


@pytest.mark.parametrize(("char", "shift"), [("A", False), ("a", True), ("!", True), ("?", False)])
def test_a_shifted_character_is_text_where_codes_are_for_keys_only(char: str, shift: bool) -> None:
    """The kitty protocol's first flag is for ambiguous keys; a capital is not ambiguous."""
    screen = new()
    screen.feed(b"\x1b[>1u")
    assert screen.encode_key(KeyPress(char=char, shift=shift)) == char.encode()
