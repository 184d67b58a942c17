"""Draw a terminal's screen as an SVG picture: rectangles and text only, no script, link or outside
resource.

Input: the view `paint`, or a process's raw output. Text, colours, styles (ECMA-48, SGR) and their
movements are drawn; other sequences and hidden text are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

_TOKEN = re.compile(
    r"\x1b\[(?P<private>[<-?]*)(?P<numbers>[\d;:]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|\Z)|\x1b[ -/]*[0-~]|(?P<control>[\x00-\x1f\x7f])|(?P<text>[^\x00-\x1f\x7f]+)",
    re.DOTALL | re.ASCII,
)
_WIDTH, _HEIGHT, _FONT, _MARGIN = 8.4, 18, 14, 12
_FOREGROUND, _BACKGROUND = "#d4d4d4", "#1e1e1e"
_PALETTE = (
    *("#1e1e1e", "#d16969", "#6a9955", "#d7ba7d", "#569cd6", "#c586c0", "#4ec9b0", "#d4d4d4"),
    *("#808080", "#f48771", "#89d185", "#f5d67b", "#79b8ff", "#e2a6de", "#7fe0d0", "#ffffff"),
)
_STEPS = (0, 95, 135, 175, 215, 255)
_ALTERNATE = {"47", "1047", "1049"}
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 8: "hidden", 9: "strike"}
_UNSET = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",)}
_UNSET |= {28: ("hidden",), 29: ("strike",)}


@dataclass(frozen=True, slots=True)
class Style:
    foreground: str | None = None
    background: str | None = None
    flags: frozenset[str] = frozenset()

    @property
    def colours(self) -> tuple[str, str | None]:
        """Return the colours of text and cell; None is the screen's."""
        if "reverse" not in self.flags:
            return self.foreground or _FOREGROUND, self.background
        return self.background or _BACKGROUND, self.foreground or _FOREGROUND

    @property
    def is_drawn_through(self) -> bool:
        """True if a space is visible."""
        return not self.flags.isdisjoint(("underline", "strike"))


_PLAIN = Style()
_BLANK = (" ", _PLAIN)

Cell = tuple[str, Style]
"""The characters of a cell, none of the second cell of a wide character, and the style."""


class Grid:
    """The cells of a screen.

    >>> grid = Grid(2, 10)
    >>> grid.draw("a\\x1b[31mb\\r\\nc")
    >>> ["".join(char for char, _ in row).rstrip() for row in grid.rows]
    ['ab', 'c']
    """

    def __init__(self, rows: int, cols: int) -> None:
        self._height, self._width = max(rows, 1), max(cols, 1)
        self.rows: list[list[Cell]] = self._empty()
        self._row = self._col = 0
        self._style = _PLAIN

    def draw(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            if token["text"] is not None:
                for char in token["text"]:
                    self._put(char)
            elif token["control"] is not None:
                self._control(token["control"])
            elif token["final"] is not None:
                self._sequence(token["private"], token["numbers"], token["final"])

    def trimmed(self) -> list[list[Cell]]:
        """Return the rows without blank rows at the end, at least one row."""
        rows = self.rows[:]
        while len(rows) > 1 and all(cell == _BLANK for cell in rows[-1]):
            rows.pop()
        return rows

    def _empty(self) -> list[list[Cell]]:
        return [[_BLANK] * self._width for _ in range(self._height)]

    def _put(self, char: str) -> None:
        size = _columns(char)
        if size == 0:
            before = self.rows[self._row]
            at = max(min(self._col, self._width) - 1, 0)
            at -= before[at][0] == "" and at > 0
            if len(before[at][0]) < 16:
                before[at] = before[at][0] + char, before[at][1]
            return
        if self._col + size > self._width:
            self._col = 0
            self._feed()
        row = self.rows[self._row]
        row[self._col] = char, self._style
        if size == 2 and self._col + 1 < self._width:
            row[self._col + 1] = "", self._style
        self._col += size

    def _control(self, char: str) -> None:
        if char == "\r":
            self._col = 0
        elif char == "\n":
            self._feed()
        elif char == "\b":
            self._col = max(min(self._col, self._width) - 1, 0)
        elif char == "\t":
            self._col = min((self._col // 8 + 1) * 8, self._width - 1)

    def _feed(self) -> None:
        if self._row + 1 < self._height:
            self._row += 1
        else:
            self.rows = [*self.rows[1:], [_BLANK] * self._width]

    def _sequence(self, private: str, numbers: str, final: str) -> None:
        if final == "m" and not private:
            self._style = styled(self._style, numbers)
            return
        if private == "?" and final in "hl" and not _ALTERNATE.isdisjoint(numbers.split(";")):
            self.rows, self._row, self._col = self._empty(), 0, 0
            return
        values = [int(number) for number in re.findall(r"\d{1,5}", numbers)]
        first = values[0] if values else 0
        if private:
            return
        if final in "Hf":
            col = values[1] if len(values) > 1 else 1
            self._row = min(max(first, 1), self._height) - 1
            self._col = min(max(col, 1), self._width) - 1
        elif final == "G":
            self._col = min(max(first, 1), self._width) - 1
        elif final in "ABCD":
            by = max(first, 1) * (-1 if final in "AD" else 1)
            if final in "AB":
                self._row = min(max(self._row + by, 0), self._height - 1)
            else:
                self._col = min(max(self._col + by, 0), self._width - 1)
        elif final == "K":
            self._erase(self._row, first)
        elif final == "J":
            self._erase(self._row, first)
            others = {0: range(self._row + 1, self._height), 1: range(self._row)}
            for row in others.get(first, range(self._height)):
                self._erase(row, 2)

    def _erase(self, row: int, part: int) -> None:
        at = min(self._col, self._width - 1)
        begin, end = {0: (at, self._width), 1: (0, at + 1)}.get(part, (0, self._width))
        self.rows[row][begin:end] = [(" ", Style(background=self._style.background))] * (
            end - begin
        )


def styled(style: Style, numbers: str) -> Style:
    """Return the style after an SGR sequence with these parameters."""
    parts = iter(numbers.split(";"))
    for part in parts:
        head, *more = part.split(":")
        number = int(head or 0) if len(head) < 6 else -1
        if number == 0:
            style = _PLAIN
        elif number in (38, 48, 58):
            colour = _colour(more if more else _rest(parts))
            if number == 38:
                style = replace(style, foreground=colour)
            elif number == 48:
                style = replace(style, background=colour)
        elif number == 4 and more[:1] == ["0"]:
            style = replace(style, flags=style.flags - {"underline"})
        elif number in _FLAGS:
            style = replace(style, flags=style.flags | {_FLAGS[number]})
        elif number in _UNSET:
            style = replace(style, flags=style.flags - {*_UNSET[number]})
        elif number == 39:
            style = replace(style, foreground=None)
        elif number == 49:
            style = replace(style, background=None)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style = replace(style, foreground=_PALETTE[number % 10 + (8 if number >= 90 else 0)])
        elif 40 <= number <= 47 or 100 <= number <= 107:
            style = replace(style, background=_PALETTE[number % 10 + (8 if number >= 100 else 0)])
    return style


def _rest(parts: Iterator[str]) -> list[str]:
    """Take the parameters of a colour: `5;N` or `2;R;G;B`."""
    kind = next(parts, "")
    return [kind, *(next(parts, "") for _ in range({"5": 1, "2": 3}.get(kind, 0)))]


def _colour(words: Sequence[str]) -> str | None:
    """Return the colour of `5 N`, `2 R G B` or, with colons, `2 SPACE R G B`."""
    numbers = [int(word) for word in words[1:] if word.isdecimal() and len(word) < 4]
    if words[:1] == ["2"] and len(numbers) >= 3 and max(numbers[-3:]) < 256:
        return _hex(numbers[-3:])
    if words[:1] != ["5"] or not numbers or numbers[0] > 255:
        return None
    number = numbers[0]
    if number < 16:
        return _PALETTE[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    steps = (_STEPS[number // 36], _STEPS[number // 6 % 6], _STEPS[number % 6])
    return _hex(steps)


def _hex(rgb: Sequence[int]) -> str:
    return "#" + bytes(rgb).hex()


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def picture(rows: Sequence[Sequence[Cell]], title: str) -> str:
    """Return the SVG document of a screen; the title is for screen readers."""
    cols = max(map(len, rows))
    width = round(cols * _WIDTH + 2 * _MARGIN, 1)
    height = len(rows) * _HEIGHT + 2 * _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    name = f'role="img" aria-label={quoteattr(_clean(title))}'
    font = f'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="{_FONT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {name}>',
        f"<title>{escape(_clean(title))}</title>",
        f'<rect width="100%" height="100%" rx="6" fill="{_BACKGROUND}"/>',
        f'<g {font} fill="{_FOREGROUND}" xml:space="preserve">',
    ]
    for number, row in enumerate(rows):
        lines += _row(number, row)
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"


def _row(number: int, row: Sequence[Cell]) -> Iterator[str]:
    top, at, texts = _MARGIN + number * _HEIGHT, 0, []
    for (style, _), run in groupby(row, key=_run):
        cells = list(run)
        foreground, background = style.colours
        if background is not None:
            x, length = _x_and_width(at, len(cells))
            yield f'<rect x="{x}" y="{top}" width="{length}" height="{_HEIGHT}" fill="{background}"/>'
        begin, end = at, at + len(cells)
        at = end
        if not style.is_drawn_through:
            while cells and cells[-1][0] == " ":
                cells.pop()
                end -= 1
            while cells and cells[0][0] == " ":
                del cells[0]
                begin += 1
        if style.flags.isdisjoint(("hidden",)) and cells:
            x, length = _x_and_width(begin, end - begin)
            text = escape(_clean("".join(char for char, _ in cells)))
            texts.append(
                f'<text x="{x}" y="{top + _FONT - 1}" textLength="{length}" '
                f'lengthAdjust="spacingAndGlyphs"{_attributes(style, foreground)}>{text}</text>'
            )
    yield from texts


def _run(cell: Cell) -> tuple[Style, bool]:
    """Return the attributes shared by the cells of one text."""
    char, style = cell
    return style, char == "" or _columns(char[0]) == 2


def _x_and_width(at: int, cells: int) -> tuple[float, float]:
    return round(_MARGIN + at * _WIDTH, 1), round(cells * _WIDTH, 1)


def _attributes(style: Style, foreground: str) -> str:
    names = {"underline": "underline", "strike": "line-through"}
    decorations = [name for flag, name in names.items() if flag in style.flags]
    values = {
        "fill": foreground if foreground != _FOREGROUND else "",
        "font-weight": "bold" if "bold" in style.flags else "",
        "font-style": "italic" if "italic" in style.flags else "",
        "text-decoration": " ".join(decorations),
        "opacity": "0.6" if "dim" in style.flags else "",
    }
    return "".join(f' {name}="{value}"' for name, value in values.items() if value)


def _clean(text: str) -> str:
    """Replace the characters that XML forbids."""
    return "".join(
        c if c.isprintable() or c == "\u00a0" or _columns(c) == 0 else "\ufffd" for c in text
    )
