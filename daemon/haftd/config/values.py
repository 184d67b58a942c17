"""Readers of single values of the configuration: numbers, sizes, lists of texts.

Rules: a reader takes what TOML gave and returns the value, or raises `Wrong`, which says what the value
must be. It knows no section and no key.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from haft_protocol.errors import shown
from haftd.tools.fields import Wrong, read_size

__all__ = ["Reader", "number", "size", "texts", "unknown"]

Reader = Callable[[object], Any]


def _described(reader: Reader, form: str) -> Reader:
    """The reader with what its values are, for the page that lists all keys."""
    reader.form = form  # type: ignore[attr-defined]
    return reader


def number(low: float, high: float, *, whole: bool = True) -> Callable[[object], Any]:
    """A number within these bounds."""

    kind = "a whole number" if whole else "a number"

    def read_number(value: object) -> Any:
        right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if right and low <= value <= high:  # type: ignore[operator]
            return value
        raise Wrong((), f"it is {shown(value)}; it must be {kind} from {low} to {high}")

    return _described(read_number, f"{kind} from {low:,} to {high:,}")


def size(low: int, high: int) -> Callable[[object], int]:
    """Bytes, as a number or with a unit."""

    def read_bytes(value: object) -> int:
        size = read_size(value)
        if low <= size <= high:
            return size
        raise Wrong((), f"it is {shown(value)}; it must be from {low} to {high} bytes")

    return _described(read_bytes, f"bytes from {low:,} to {high:,}")


def texts(*allowed: str) -> Callable[[object], tuple[str, ...]]:
    """A list of texts, some of `allowed` if any are."""

    def read_texts(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise Wrong((), "it must be a list of texts")
        for item in value:
            if allowed and item not in allowed:
                raise Wrong((), f"{shown(item)} is not one of {', '.join(allowed)}")
        return tuple(value)

    choice = " of " + ", ".join(f"`{name}`" for name in allowed) if allowed else ""
    return _described(read_texts, f"list{choice or ' of texts'}")


def unknown(name: str, known: Sequence[str], what: str) -> str:
    """What to say of a name that is not known."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"there is no such {what}{hint}"
