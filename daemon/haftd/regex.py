"""Regular expressions by RE2: linear time, bounded size, cached; `^` and `$` match at lines."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

_MAX_INSTRUCTIONS = 4_000
"""RE2 program size; 900 instructions can slow a search to 0.2 MB/s."""

_MAX_MEMORY = 1_048_576


class InvalidExpression(ValueError):
    """Unusable expression; the argument ends a sentence."""


class Match(Protocol):
    def start(self) -> int:
        """5"""

    def end(self) -> int:
        """Offset behind the last byte."""


class Pattern(Protocol):
    """Compiled expression for bytes, UTF-8 or not."""

    @property
    def pattern(self) -> str:
        """8"""

    @property
    def programsize(self) -> int:
        """Number of instructions."""

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        """Return the first match from `pos` on; look-behind sees earlier text."""


def compile_expression(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile; `within_lines` keeps line ends out of matches. Raises `InvalidExpression`."""
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
    # re2's own cache is several times larger.
    re2.purge()
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise InvalidExpression("it is too large, use smaller repetition counts")
    return pattern
