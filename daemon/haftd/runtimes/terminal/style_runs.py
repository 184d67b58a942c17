"""Runs of equal style in a row of a screen."""

from __future__ import annotations

from haftd.lazy_pattern import lazy_pattern

_SGR = lazy_pattern(rb"\x1b\[([\d:;]*+)m")
_STRING = lazy_pattern(rb"\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)")


def runs_of(row: bytes) -> tuple[tuple[str, str], ...]:
    """Split a row of text with SGR sequences, without links and trailing blanks."""
    runs: list[tuple[str, str]] = []
    style: list[str] = []
    at = 0
    row = _STRING.sub(b"", row)
    for match in (*_SGR.finditer(row), None):
        text = row[at : len(row) if match is None else match.start()].decode("utf-8", "replace")
        shown = ";".join(style)
        if text and runs and runs[-1][1] == shown:
            runs[-1] = (runs[-1][0] + text, shown)
        elif text:
            runs.append((text, shown))
        if match is not None:
            at = match.end()
            first, _, rest = match[1].decode().partition(";")
            if first in ("", "0"):
                style, first = [], rest
            elif rest:
                first = f"{first};{rest}"
            style += [first] if first else []
    if runs and not runs[-1][1]:
        text = runs.pop()[0].rstrip(" ")
        runs += [(text, "")] if text else []
    return tuple(runs)
