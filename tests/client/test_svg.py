"""Pictures of screens: what a terminal shows, in a document that can do nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.svg import Grid, Style, picture, styled
from haftd.runtimes.terminal.screen import Screen
from tests.client.person import Place
from tests.forkserver import run_haft

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {
    "svg": {"width", "height", "viewBox", "role", "aria-label"},
    "title": set(),
    "rect": {"x", "y", "width", "height", "rx", "fill"},
    "g": {"font-family", "font-size", "fill", "{http://www.w3.org/XML/1998/namespace}space"},
    "text": {
        *("x", "y", "textLength", "lengthAdjust", "fill", "opacity"),
        *("font-weight", "font-style", "text-decoration"),
    },
}
ESCAPES = "[31m [0m [H [3;4H [K [2J [2C [A [5G [1J [?1049h [48;5;24m [38:2::1:2:3m [7m [8m [38;2m [99999999m"
SEQUENCES = st.sampled_from(
    [f"\x1b{escape}" for escape in ESCAPES.split()]
    + ["\r", "\n", "\r\n", "\t", "\b", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\"]
)


def drawn(text: str, rows: int = 6, cols: int = 12) -> list[str]:
    grid = Grid(rows, cols)
    grid.draw(text)
    return ["".join(char for char, _ in row).rstrip() for row in grid.rows]


@given(st.lists(st.one_of(st.text(max_size=20), SEQUENCES), max_size=20), st.text(max_size=20))
def test_a_picture_is_a_document_of_text_and_rectangles_for_any_output(
    parts: list[str], title: str
) -> None:
    grid = Grid(4, 9)
    grid.draw("".join(parts))
    assert {len(row) for row in grid.rows} == {9} and len(grid.rows) == 4
    document = picture(grid.trimmed(), title).encode("utf-8", "strict")
    for element in ElementTree.fromstring(document).iter():
        name = element.tag.removeprefix(SVG)
        assert element.attrib.keys() <= ALLOWED[name]
        assert not any(
            re.search(r"url|:/|script", value)
            for key, value in element.attrib.items()
            if key != "aria-label"
        )


def test_each_row_and_column_has_its_place_in_the_picture() -> None:
    def places(row: int, col: int) -> tuple[list[float], ...]:
        grid = Grid(4, 9)
        grid.draw(f"\x1b[{row + 1};{col + 1}H\x1b[41mx")
        elements = list(ElementTree.fromstring(picture(grid.rows, "t")).iter())
        found = [e for e in elements if e.tag == f"{SVG}text" or e.attrib.get("width") == "8.4"]
        assert len(found) == 2
        return tuple([float(e.attrib[axis]) for e in found] for axis in "xy")

    (left, _), (first, _) = places(0, 0)
    for row in range(4):
        for col in range(8):
            xs, ys = places(row, col)
            assert ys[0] - first == row * 18 and ys[1] - ys[0] == 13
            assert xs[0] == xs[1] == pytest.approx(left + col * 8.4, abs=0.06)


@pytest.mark.parametrize(
    "text",
    [
        "one\r\ntwo\rT",
        "a line that is longer than the screen is wide",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7",
        "\x1b[3;4Hplaced\x1b[2Dxx\x1b[1;1Hhome",
        "gone\x1b[2J\x1b[Hhere",
        "\ta\tb",
        "abcdef\x1b[3G\x1b[Kgh",
        "世界 wide",
        "\x1b[?1049h\x1b[Halternate",
    ],
)
def test_the_cells_are_those_of_a_terminal(text: str) -> None:
    screen = Screen(6, 12, lambda reply: None)
    screen.feed(text.encode())
    assert drawn(text) == [line.rstrip() for line in screen.snapshot().lines]
    screen.close()


@pytest.mark.parametrize(
    ("numbers", "style"),
    [
        ("", Style()),
        ("1;31", Style("#d16969", flags=frozenset(["bold"]))),
        ("38;5;24", Style("#005f87")),
        ("38:5:24", Style("#005f87")),
        ("38;5;153", Style("#afd7ff")),
        ("48;2;1;2;3", Style(background="#010203")),
        ("48:2::1:2:3", Style(background="#010203")),
        ("58;5;9;4", Style(flags=frozenset(["underline"]))),
        ("4:3", Style(flags=frozenset(["underline"]))),
        ("4;4:0", Style()),
        ("1;2;22;3;23", Style()),
        ("107;97;39;49", Style()),
        ("38;5;255", Style("#eeeeee")),
        ("38;5;256", Style()),
        ("38;5", Style()),
    ],
)
def test_a_style_is_that_of_its_parameters(numbers: str, style: Style) -> None:
    assert styled(Style(), numbers) == style


def test_hidden_text_is_not_in_the_picture_and_special_characters_are_escaped() -> None:
    grid = Grid(1, 40)
    grid.draw("\x1b[8msecret\x1b[0m </svg><script>&")
    document = picture(grid.trimmed(), '"><script>')
    assert "secret" not in document and "<script>" not in document
    texts = [element.text for element in ElementTree.fromstring(document).iter(f"{SVG}text")]
    assert texts == ["</svg><script>&"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_handles_screen_is_drawn_also_after_its_end(place: Place, terminal: bool) -> None:
    args = {"argv": ["printf", r"one\n\033[31mred\033[0m\n"], "terminal": terminal}
    place.call("spawn", tool="run", id="h", args=args, wait="stopped")
    words = ["--session", place.session, "record", "h", "--svg"]
    done = run_haft(words, env=place.daemon.env)
    assert done.returncode == 0, done.stderr
    texts = [*ElementTree.fromstring(done.stdout).iter(f"{SVG}text")]
    assert [(text.text, text.get("fill")) for text in texts] == [("one", None), ("red", "#d16969")]
