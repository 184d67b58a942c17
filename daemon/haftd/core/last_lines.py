"""Last lines of a handle's output, for a sentence; the read offset stays."""

from __future__ import annotations

from .handles import Handle
from .text import cut


def last_lines(handle: Handle, most: int, longest: int) -> tuple[str, ...]:
    """Return up to `most` last non-blank lines of up to `longest` characters."""
    spool = handle.spool
    # A character has up to four bytes; a line that loses its beginning here would be cut anyway.
    piece = cut(
        spool, 0, spool.end, 4 * most * longest, final=True, tail=True, rendering=handle.rendering
    )
    lines = [line.rpartition("\r")[2] for line in piece.text.rstrip().splitlines()[-4 * most :]]
    return tuple(printable(line, longest) for line in lines if line.strip())[-most:]


def printable(text: str, longest: int) -> str:
    """Cut and escape a line: no control or bidirectional character."""
    text = text[: longest + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
