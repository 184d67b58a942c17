"""Sequences of a process's output that ask the terminal for a reply.

A terminal's answers are typed into the process, so an output that one terminal has answered is shown
by others without its queries. Source: xterm's ctlseqs, ECMA-48, and the documents of kitty and iTerm2.

>>> control_asks(b"6n"), control_asks(b"31m")
(True, False)
"""

from __future__ import annotations

import re

__all__ = [
    "ASK_BY_A_FIELD",
    "COLOURS",
    "CONTROLS",
    "SEQUENCE",
    "UNFINISHED",
    "command_asks",
    "command_number",
    "control_asks",
    "string_asks",
]

# Processes choose the output, so these never backtrack: repetitions are possessive and of one
# class; only that of an Escape's own run contains an Escape.
SEQUENCE = re.compile(
    rb"\x05"
    rb"|(?<!\x1b)\x1b++(?:"
    rb"\[(?P<control>[\x00-\x17\x19\x1c-?\x7f]*+[@-~])"
    rb"|\](?P<command>[^\x07\x1b]*+)(?P<closed>\x07|\x1b\\)?+"
    rb"|(?P<string>[P_][^\x1b]*+)(?P<ended>\x1b\\)?+"
    rb"|(?P<key>[Zc=])"
    rb")"
)
"""ENQ, a control sequence, an operating system command, a device control string or a graphics
command, or a key: of these ENQ and the key `Z` ask."""

UNFINISHED = re.compile(
    rb"(?<!\x1b)\x1b++(?:\[[\x00-\x17\x19\x1c-?\x7f]*+|[ -/]++"
    rb"|\][^\x07\x1b]*+\x1b?+|[P_][^\x1b]*+\x1b?+)?+\Z"
)
"""A sequence's beginning at the end of the data."""

CONTROLS = bytes(range(0x20)) + b"\x7f"
"""Executed inside a control sequence, which continues."""

COLOURS = frozenset(b"%d" % number for number in (4, *range(10, 20)))
"""Numbers of the operating system commands for colours."""

ASK_BY_A_FIELD = COLOURS | {b"5", b"22", b"50", b"52"}
"""Numbers of the commands that ask by a field `?`."""

_ASKS = re.compile(
    rb"[>=]?+[\d;]*+c|\??+[\d;]*+n|\??+[\d;]*+\$p|[\d;]*+x|>[\d;]*+q|\?u|&u|\??+[\d;]*+\$[uw]"
    rb"|(?:1[1345689]|2[01])(?:;[\d;]*+)?+t|\?[\d;]*+[Sm]|[\d;]*+\*y|\d*+'\||\"v|[\d;]*+#R"
)


def control_asks(bare: bytes) -> bool:
    """Return True for a control sequence, without its introducer and `CONTROLS`, that asks."""
    return _ASKS.fullmatch(bare) is not None


def command_number(command: bytes) -> tuple[bytes, bytes]:
    """Return the number of an operating system command (OSC), without leading zeros, and the rest."""
    number, _, rest = command.partition(b";")
    return number.lstrip(b"0") or number[:1], rest


def command_asks(number: bytes, rest: bytes) -> bool:
    """Return True for an operating system command that asks."""
    if number in ASK_BY_A_FIELD:
        return b"?" in rest.split(b";")
    match number:
        case b"21":
            return b"?" in rest
        case b"99":
            return b"p=?" in rest
        case b"60" | b"61":
            return not rest
        case b"1337":
            return rest.startswith(b"Report")
    return False


def string_asks(string: bytes) -> bool:
    """Return True for a device control string (DCS) or a graphics command (APC) that asks."""
    if string[:1] == b"P":
        return string[1:2] in (b"$", b"+") and string[2:3] in (b"q", b"Q")
    keys = string[2:].partition(b";")[0].split(b",")
    return string[1:2] == b"G" and any(key.startswith(b"a=q") for key in keys)
