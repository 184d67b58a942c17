"""Output for an emulator: queries and clipboard writes are left out, all else is unchanged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.cli.terminal import terminal_modes
from haft_protocol import terminal_queries
from haft_protocol.terminal_queries import QueryFilter

QUERIES = [
    b"\x05",
    b"\x1bZ",
    b"\x1b[c",
    b"\x1b[0c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?996n",
    b"\x1b[?2026$p",
    b"\x1b[4$p",
    b"\x1b[>q",
    b"\x1b[>0q",
    b"\x1b[x",
    b"\x1b[14t",
    b"\x1b[18t",
    b"\x1b[21t",
    b"\x1b[?u",
    b"\x1b[?4m",
    b"\x1b[?1;1;0S",
    b"\x1b]10;?\x07",
    b"\x1b]11;?\x1b\\",
    b"\x1b]4;1;?\x07",
    b"\x1b]52;c;?\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
]
OTHERS = [
    b"text",
    "größe🦊".encode(),
    b"\x1b[1;31m",
    b"\x1b[2J",
    b"\x1b[10;20H",
    b"\x1b[?25l",
    b"\x1b[?1049h",
    b"\x1b[22;0t",
    b"\x1b[8;24;80t",
    b"\x1b[3;10r",
    b"\x1b[2 q",
    b"\x1b[>1u",
    b"\x1b]0;is it; ?\x07",
    b"\x1b]8;;http://x\x1b\\",
    b"\x1b(B",
    b"\x1b7",
    b"\x1b=",
]


COPY = b"\x1b]52;c;YWJj\x07"


def filtered(*pieces: bytes, clipboard: bool = False) -> bytes:
    output = QueryFilter(clipboard=clipboard)
    return b"".join(output.feed(piece) for piece in pieces)


@given(st.lists(st.sampled_from([*QUERIES, *OTHERS, COPY]), max_size=12), st.data())
def test_any_cut_of_the_bytes_gives_the_same(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts) + b"."
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1)))) if len(whole) > 1 else []
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert filtered(*pieces) == b"".join(part for part in parts if part in OTHERS) + b"."


@pytest.mark.parametrize("end", [b"\x07", b"\x1b\\"])
@pytest.mark.parametrize("size", [1, 4_096, 5_000, 100_000])
def test_a_long_clipboard_write_is_left_out_and_passes_where_it_may(size: int, end: bytes) -> None:
    whole = b"a\x1b]52;c;" + b"YWJj" * 9_000 + end + b"b"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert filtered(*pieces) == b"ab"
    assert filtered(*pieces, clipboard=True) == whole


@pytest.mark.parametrize(
    "expression",
    [
        terminal_queries.SEQUENCE,
        terminal_queries.UNFINISHED,
        terminal_queries._ASKS,
        terminal_modes._CHANGES,
    ],
)
def test_filtering_takes_linear_time(expression: re.Pattern[bytes]) -> None:
    """By construction of the expressions: each repetition is one possessive class, and a failed
    search does not restart within the bytes it has passed, for no class contains Escape."""
    pattern = expression.pattern
    pieces = rb"\\x..|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    for one in re.findall(pieces, pattern):
        if one.startswith(b"["):
            inside = re.compile(b"[" + one[1:-1].replace(b"[", rb"\[") + b"]")
            assert inside.match(b"\x1b") is None, one
    bare = re.sub(pieces, b"C", pattern)
    bare = re.sub(rb"\(\?(?::|P<\w+>|<!)", b"(", bare)
    assert re.fullmatch(rb"(?:[^*+?]|[*+?]\+)*", bare), bare
    assert not re.search(rb"\)[*+]", bare), bare
    # Only the Escape's own run could begin again in itself.
    assert pattern.count(rb"\x1b++") == pattern.count(rb"(?<!\x1b)\x1b++")


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]21;" + b"?" * 60_000,
        b"\x1b]4" + b";?" * 30_000,
        b"\x1b_G" + b"a," * 30_000,
        b"\x1b]99;" + b"p=" * 30_000,
        b"\x1b" * 60_000 + b"x",
        b"\x1b[" + b"1;" * 30_000,
        b"\x1b[?" + b"9" * 60_000 + b"x",
        b"\x1b[1" * 20_000 + b".",
        b"\x1b]4;1;" * 10_000,
    ],
)
def test_an_unterminated_sequence_takes_no_other_output_along(hostile: bytes) -> None:
    shown = filtered(hostile[:50_000], hostile[50_000:], b"\x1b\\\x18\x1b\\end")
    assert shown.endswith(b"end")


def test_a_query_behind_a_second_escape_or_around_a_control_is_removed() -> None:
    assert filtered(b"a\x1b\x1b[c[6nb") == b"a[6nb"
    assert filtered(b"a\x1b[6\nnb") == b"a\nb"
    assert filtered(b"a\x1b]011;?\x07b") == b"ab"


def test_a_long_image_is_not_held_back() -> None:
    picture = b"\x1b_Ga=T,f=24;" + b"A" * 8192
    output = QueryFilter()
    assert output.feed(picture) == picture
    assert output.feed(b"A\x1b\\b") == b"A\x1b\\b"
