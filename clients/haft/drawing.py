"""What goes to a person's own terminal while attached: the program's bytes, less what would answer.

Rules: no I/O. The daemon's screen has answered the program's queries already; a second answer
would arrive as if it were typed, so queries are taken out. What the program turns on is noted, and
turned off again at the end, nothing else is. Bytes come cut anywhere; a sequence that is not
complete waits for its rest, and so does a character.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["Drawing", "notice"]

_LONGEST = 4096
"""A sequence longer than this is none of those that are looked for, and does not wait."""

_MOST_ROWS = 3

_QUERY = re.compile(
    rb"\x05|\x1bZ"
    rb"|\x1b\[(?:[>=]?[\d;]*c|\??[\d;]*n|\??[\d;]*\$p|[\d;]*x|>[\d;]*q|\?u|&u|\??[\d;]*\$[uw]"
    rb"|(?:1[1345689]|2[01])(?:;\d*)*t|\?[\d;]*[Sm]|[\d;]*\*y|\d*'\||\"v|[\d;]*#R)"
    rb"|\x1b\](?:(?:4|5|1\d|22|50|52)(?:;[^;\x07\x1b]*)*;\?(?:;[^\x07\x1b]*)?"
    rb"|21;[^\x07\x1b]*\?[^\x07\x1b]*|99;[^\x07\x1b]*p=\?[^\x07\x1b]*|6[01]|1337;Report[^\x07\x1b]*"
    rb")(?:\x07|\x1b\\)"
    rb"|\x1bP[$+][qQ][^\x1b]*\x1b\\"
    rb"|\x1b_G(?:[^;\x1b]*,)?a=q[^\x1b]*\x1b\\"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[ -/]+|[\]P_][^\x07\x1b]*\x1b?)?\Z")
_CHANGE = re.compile(
    rb"\x1b\[(?P<private>\??)(?P<modes>\d+(?:;\d+)*)(?P<way>[hl])"
    rb"|(?P<reset>\x1bc)"
    rb"|(?P<keypad>\x1b=)"
    rb"|(?P<margins>\x1b\[\d*;?\d*r)"
    rb"|(?P<keyboard>\x1b\[[>=][\d;]*u)"
    rb"|(?P<modified>\x1b\[>4(?:;\d*)?m)"
    rb"|(?P<shape>\x1b\[\d* q)"
    rb"|(?P<colours>\x1b\](?:4|1\d);)"
    rb"|(?P<link>\x1b\]8;)"
    rb"|(?P<progress>\x1b\]9;4)"
)
_ON_AT_THE_START = {(b"?", 7), (b"?", 25), (b"", 12)}
_ALT = {47, 1047, 1049}
_NOT_UNDONE = {1048}
"""Not a mode: saves and restores the cursor."""

_UNDOING = {
    "keypad": b"\x1b>",
    "keyboard": b"\x1b[<99u\x1b[=0u",
    "modified": b"\x1b[>4m",
    "shape": b"\x1b[0 q",
    "colours": b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\",
    "link": b"\x1b]8;;\x1b\\",
    "progress": b"\x1b]9;4;0\x1b\\",
}


class Drawing:
    """The state of one person's terminal, as far as the program has changed it."""

    def __init__(self) -> None:
        self._held = b""
        self._modes: dict[tuple[bytes, int], bool] = {}
        self._seen: set[str] = set()

    @property
    def alt(self) -> bool:
        """Whether the alternate screen is shown."""
        return any(self._modes.get((b"?", number), False) for number in _ALT)

    def draw(self, data: bytes) -> bytes:
        """Return what is to be written for `data`."""
        data, self._held = self._held + data, b""
        unfinished = _UNFINISHED.search(data, max(0, len(data) - _LONGEST))
        self._held = _unfinished_character(data) if unfinished is None else unfinished[0]
        data = data[: len(data) - len(self._held)]
        if b"\x1b" not in data and b"\x05" not in data:
            return data
        data = _QUERY.sub(b"", data)
        for found in _CHANGE.finditer(data):
            self._note(found)
        return data

    def undo(self) -> bytes:
        """Return what makes the terminal as it was, in modes and styles, and forget what was."""
        out = bytearray()
        # The keyboard's modes belong to the screen that is shown: before it is left, and after.
        if "keyboard" in self._seen:
            out += _UNDOING["keyboard"]
        for (private, number), on in self._modes.items():
            if on is not ((private, number) in _ON_AT_THE_START) and number not in _NOT_UNDONE:
                out += b"\x1b[%b%d%b" % (private, number, b"l" if on else b"h")
        for name, undoing in _UNDOING.items():
            if name in self._seen:
                out += undoing
        if "margins" in self._seen:
            out += b"\x1b7\x1b[r\x1b8"
        out += b"\x0f\x1b(B\x1b[0m"
        self._modes.clear()
        self._seen.clear()
        self._held = b""
        return bytes(out)

    def _note(self, found: re.Match[bytes]) -> None:
        if found["modes"]:
            for number in found["modes"].split(b";"):
                self._modes[found["private"], int(number)] = found["way"] == b"h"
        elif found["reset"]:
            self._modes.clear()
            self._seen -= {"keypad", "margins", "keyboard", "modified", "shape"}
        elif found.lastgroup is not None:
            self._seen.add(found.lastgroup)


def _unfinished_character(data: bytes) -> bytes:
    """The bytes at the end that begin a character."""
    for size in range(1, min(4, len(data) + 1)):
        first = data[-size]
        if first < 0x80:
            break
        if first >= 0xC0:
            whole = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            return data[-size:] if size < whole else b""
    return b""


def notice(text: str, rows: int, cols: int, *, asks: bool = False) -> bytes:
    """Draw words of haft's own over the last rows, `_MOST_ROWS` at most; with `asks` the end of
    the text is what is shown of a longer one, and the cursor stays behind it."""
    lines = _wrapped(text, max(1, cols - 1))
    most = max(1, min(_MOST_ROWS, rows))
    lines = lines[-most:] if asks else lines[:most]
    drawn = b"\x1b[?6l"
    for place, line in enumerate(lines):
        row = rows - len(lines) + place + 1
        drawn += b"\x1b[%d;1H\x1b[0;7m\x1b[2K%b\x1b[0m" % (row, line.encode("utf-8", "replace"))
    return drawn + b"\x1b[?25h" if asks else b"\x1b7" + drawn + b"\x1b8"


def _wrapped(text: str, width: int) -> list[str]:
    """Cut a text into rows; what is not to be printed becomes a blank."""
    lines, room = [""], width
    for char in text:
        char = char if char.isprintable() else " "
        room -= _columns(char)
        if room < 0:
            lines.append("")
            room = width - _columns(char)
        lines[-1] += char
    return lines


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
