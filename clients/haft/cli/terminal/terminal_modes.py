"""Modes of a person's own terminal that a process's output changes, to reset them at the end.

Output is noted as drawn: whole sequences without queries, as `haft_protocol.terminal_queries` and
the daemon's bytes `for` a terminal give it.
"""

from __future__ import annotations

import re
import unicodedata

from haft_protocol.terminal_queries import COLOURS, CONTROLS, SEQUENCE, command_number

_MAX_ROWS = 3

_CHANGES = re.compile(
    rb"(?P<margins>\d*+;?+\d*+r)|(?P<keyboard>[>=][\d;]*+u)|(?P<modified>>4(?:;\d*+)?+m)"
    rb"|(?P<shape>\d*+ q)"
)
_MODE_DIGITS = 5
"""No mode has a longer number."""

_ON_AT_THE_START = {(b"?", 7), (b"?", 25), (b"", 12)}
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


class TerminalModes:
    def __init__(self) -> None:
        self._modes: dict[tuple[bytes, int], bool] = {}
        self._seen: set[str] = set()

    def note(self, data: bytes) -> bytes:
        """Note the changes of drawn bytes; return the bytes."""
        if b"\x1b" in data:
            for match in SEQUENCE.finditer(data):
                self._note(match)
        return data

    def undo(self) -> bytes:
        """Return the bytes that reset modes and styles; forget the state."""
        out = bytearray()
        # Each screen (main, alternate) has its own keyboard modes, so they are reset before the
        # screen is left, and after.
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
        return bytes(out)

    def _note(self, match: re.Match[bytes]) -> None:
        if (control := match["control"]) is not None:
            self._note_control(control.translate(None, CONTROLS))
        elif (command := match["command"]) is not None:
            self._note_command(*command_number(command))
        elif (key := match["key"]) == b"c":
            self._modes.clear()
            self._seen -= {"keypad", "margins", "keyboard", "modified", "shape"}
        elif key == b"=":
            self._seen.add("keypad")

    def _note_control(self, bare: bytes) -> None:
        if bare[-1:] in (b"h", b"l"):
            private = b"?" if bare[:1] == b"?" else b""
            for number in bare[len(private) : -1].split(b";"):
                number = number.lstrip(b"0")
                if number.isdigit() and len(number) <= _MODE_DIGITS:
                    self._modes[private, int(number)] = bare[-1:] == b"h"
        elif (match := _CHANGES.fullmatch(bare)) and match.lastgroup is not None:
            self._seen.add(match.lastgroup)

    def _note_command(self, number: bytes, rest: bytes) -> None:
        if number in COLOURS:
            self._seen.add("colours")
        elif number == b"8":
            self._seen.add("link")
        elif number == b"9" and rest[:1] == b"4":
            self._seen.add("progress")


def notice(text: str, rows: int, cols: int, *, asks: bool = False) -> bytes:
    """Draw a message over the last rows, at most `_MAX_ROWS`. With `asks`, draw the end of a longer
    text, and leave the cursor after it."""
    lines = _wrapped(text, max(1, cols - 1))
    most = max(1, min(_MAX_ROWS, rows))
    lines = lines[-most:] if asks else lines[:most]
    drawn = b"\x1b[?6l"
    for place, line in enumerate(lines):
        row = rows - len(lines) + place + 1
        drawn += b"\x1b[%d;1H\x1b[0;7m\x1b[2K%b\x1b[0m" % (row, line.encode("utf-8", "replace"))
    return drawn + b"\x1b[?25h" if asks else b"\x1b7" + drawn + b"\x1b8"


def _wrapped(text: str, width: int) -> list[str]:
    """Cut text into rows; an unprintable character becomes a space."""
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
