"""Shared by tests of the screen: drawing bytes, and the whole state of a screen."""

from __future__ import annotations

from hypothesis import strategies as st

from haft_protocol import states
from haftd.runtimes.terminal.screen import Screen

# fmt: off
MODES = (1, 4, 5, 6, 7, 8, 9, 12, 25, 45, 66, 67, 69, 1000, 1002, 1003, 1004, 1005, 1006,
         1007, 1015, 1016, 1035, 1036, 1039, 1045, 2004, 2027, 2031, 2048)
# fmt: on
"""The modes of a DEC terminal and its followers, but those of the width (3 and 40)."""

_CLUSTERS = 2027
_ANSI_MODES = (2, 4, 12, 20)
_SIZE = (8, 30)

_TEXT = st.sampled_from(
    [
        "a",
        "word ",
        "x" * 29,
        "x" * 30,
        "x" * 31,
        "é",
        "e\u0301",
        "漢字",
        "👍",
        "👨‍👩‍👧",
        "  ",
        "\t",
        "─│",
    ]
).map(str.encode)
_CONTROL = st.sampled_from([b"\r", b"\n", b"\r\n", b"\b", b"\x0e", b"\x0f", b"\x0b", b"\a", b"\0"])
_NUMBER = st.integers(0, 12)
_FINAL = st.sampled_from(b"ABCDEFGHIJKLMPSTXZ@`abdefg")
_MOVE = st.builds(lambda a, b, final: b"\x1b[%d;%d%c" % (a, b, final), _NUMBER, _NUMBER, _FINAL)
_PLACE = st.builds(lambda a, b: b"\x1b[%d;%dH" % (a, b), st.integers(0, 9), st.integers(0, 31))
_STYLE = st.sampled_from(
    [
        *(b"\x1b[%dm" % n for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 21, 31, 44, 53, 97, 103)),
        b"\x1b[38;5;200m",
        b"\x1b[48;2;10;20;30m",
        b"\x1b[4:3m\x1b[58:2::1:2:3m",
    ]
)
_REGION = st.builds(lambda a, b: b"\x1b[%d;%dr" % (a, b), _NUMBER, _NUMBER)
_MODE = st.builds(
    lambda mode, state: b"\x1b[?%d%c" % (mode, state),
    st.sampled_from([mode for mode in MODES if mode != _CLUSTERS]),
    st.sampled_from(b"hl"),
)
_OTHER = st.sampled_from(
    [
        *(b"\x1b[%d%c" % (mode, state) for mode in _ANSI_MODES for state in b"hl"),
        *(b"\x1b" + one for one in (b"7", b"8", b"=", b">", b"D", b"E", b"H", b"M", b"#8", b"c")),
        *(b"\x1b[" + one for one in (b"!p", b"3g", b"2 q", b"5 q", b"3J", b">5u", b"<u", b"=3u")),
        *(b"\x1b[" + one for one in (b">4;2m", b">4m", b"5;20s", b"2K", b"2J", b"1J", b"b")),
        *(b"\x1b" + one for one in (b"(B", b")B", b"*A", b"n", b"o", b"~", b"|")),
        # Closed again: a wide character drawn in that set is nothing that any bytes can repeat.
        b"\x1b(0qx\x1b(B",
        b"\x1b)0\x0eqx\x0f\x1b)B",
        b"\x1b]0;a title\x07",
        b"\x1b]2;\xc3\xa9 \xe2\x89\xa4\x1b\\",
        b"\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\",
        b"\x1b]4;1;#102030\x07",
        b"\x1b]133;A\x07",
        *(b"\x1b[?%d%c" % (mode, state) for mode in (47, 1047, 1049) for state in b"hl"),
        b"\xff",
        b"\xe2\x89",
        b"\xc2\x9b6n",
    ]
)
_PART = st.one_of(_TEXT, _TEXT, _CONTROL, _MOVE, _PLACE, _STYLE, _REGION, _MODE, _OTHER)
session = st.builds(
    lambda clusters, parts: clusters + b"".join(parts),
    # At the start only: text drawn without the mode keeps its width.
    st.sampled_from([b"", b"", b"\x1b[?%dh" % _CLUSTERS]),
    st.lists(_PART, max_size=30),
)
"""Bytes as programs print them, and as no program would."""


def new(replies: list[bytes] | None = None, rows: int = _SIZE[0], cols: int = _SIZE[1]) -> Screen:
    """A screen that is soon full."""
    return Screen(rows, cols, (replies if replies is not None else []).append)


def modes(screen: Screen) -> tuple[object, ...]:
    """Return the modes that change the program's input, and the continuation of text."""
    screen.catch_up()
    terminal = screen._terminal
    return (
        *((mode, terminal.mode(mode)) for mode in MODES),
        *((mode, terminal.mode(mode, ansi=True)) for mode in _ANSI_MODES),
        terminal.get("kitty_keyboard_flags", "uint8_t"),
        terminal.get("cursor_pending_wrap", "bool"),
        terminal.get("cursor_visible", "bool"),
    )


def whole(screen: Screen) -> tuple[states.Screen, tuple[object, ...]]:
    """Return everything that two equal screens share."""
    return screen.snapshot(), modes(screen)
