"""Regular expressions of clients and definitions, by RE2: linear time.

Unusable ones raise `InvalidExpression`. `^` and `$` match at lines. Sizes are bounded, recent
expressions cached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

_MAX_INSTRUCTIONS = 4_000
"""RE2 program size; 900 instructions can be down to 0.2 MB/s."""

_MAX_MEMORY = 1_048_576


class InvalidExpression(ValueError):
    """Unusable expression; the argument ends a sentence."""


class Match(Protocol):
    """Position of a match."""

    def start(self) -> int:
        """Offset of the first byte."""

    def end(self) -> int:
        """Offset behind the last byte."""


class Pattern(Protocol):
    """Compiled expression for bytes, UTF-8 or not."""

    @property
    def pattern(self) -> str:
        """The expression's text."""

    @property
    def programsize(self) -> int:
        """The number of instructions."""

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        """Return the first match from `pos` on; earlier text counts for look-behind."""


def compile_expression(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile; with `within_lines`, matches contain no line end. Raises `InvalidExpression`."""
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
    # re2 has a cache of its own, several times the size of this one.
    re2.purge()
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise InvalidExpression("it is too large, use smaller repetition counts")
    return pattern
