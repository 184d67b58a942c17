"""The last lines of a handle, for a sentence about it: few, short, and nothing in them but text.

Rules: pure. What a program prints cannot leave its line: nothing that is not seen or changes the order
of what is stays as it is. Reading them moves no mark.
"""

from __future__ import annotations

from .handles import Handle
from .text import cut

__all__ = ["last_lines", "printable"]


def last_lines(handle: Handle, most: int, longest: int) -> tuple[str, ...]:
    """The last lines with something in them, `most` of them, each of `longest` characters at most."""
    spool = handle.spool
    # A character has up to four bytes; a line whose beginning is cut off here would be cut anyway.
    piece = cut(
        spool, 0, spool.end, 4 * most * longest, final=True, tail=True, rendering=handle.rendering
    )
    lines = [line.rpartition("\r")[2] for line in piece.text.rstrip().splitlines()[-4 * most :]]
    return tuple(printable(line, longest) for line in lines if line.strip())[-most:]


def printable(text: str, longest: int) -> str:
    """A line of a program as one that is safe to show, cut at `longest` characters."""
    text = text[: longest + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
