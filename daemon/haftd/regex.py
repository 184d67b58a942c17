"""Regular expressions of clients and definitions, compiled by RE2 only: matching time is linear in the text.

Rules: an expression that cannot be used raises `InvalidExpression`. `^` and `$` match at lines. An
expression's size is bounded, and recent ones are cached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

_MAX_INSTRUCTIONS = 4_000
"""Instructions of an expression; 900 of them can be down to 0.2 MB/s."""

_MAX_MEMORY = 1_048_576


class InvalidExpression(ValueError):
    """The expression cannot be used; the argument gives the reason as the rest of a sentence."""


class Match(Protocol):
    """Position of a match."""

    def start(self) -> int:
        """The offset of the first byte."""

    def end(self) -> int:
        """The offset after the last byte."""


class Pattern(Protocol):
    """A compiled expression, for bytes in UTF-8 or any others."""

    @property
    def pattern(self) -> str:
        """The expression's text."""

    @property
    def programsize(self) -> int:
        """The number of instructions."""

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        """Return the first match from `pos` on; the text before `pos` still counts for look-behind."""


def compile_expression(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile an expression; with `within_lines` it never matches a line end. Raises `InvalidExpression`."""
    try:
        return _compile(text, within_lines)
    except UnicodeEncodeError:
        raise InvalidExpression("it is no UTF-8") from None
    except re2.error as error:
        message = error.args[0] if error.args else b""
        reason = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        reason = reason.replace("(?m)", "", 1)
        raise InvalidExpression(
            f"{reason} (it takes RE2's syntax: no look-around, no back references)"
        ) from None


@lru_cache(maxsize=32)
def _compile(text: str, within_lines: bool) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.never_nl = within_lines
    pattern = cast(Pattern, re2.compile("(?m)" + text, options))
    # re2 caches every expression itself, in a cache several times the size of this one.
    re2.purge()
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise InvalidExpression("it is too large, use smaller repetition counts")
    return pattern
