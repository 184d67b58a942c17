"""Regular expressions by RE2: linear time, bounded size, cached; `^` and `$` match at lines."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

from haft_protocol.patterns import InvalidPattern, check_size, configure, invalid

_LINES = "(?m)"


class Match(Protocol):
    def start(self) -> int:
        """Offset of the first byte."""

    def end(self) -> int:
        """Offset after the last byte."""


class Pattern(Protocol):
    """Compiled expression for bytes, UTF-8 or not."""

    @property
    def pattern(self) -> str:
        """Source text."""

    @property
    def programsize(self) -> int:
        """Number of instructions."""

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        """Return the first match from `pos` on, None without one; look-behind sees earlier text."""


def compile_expression(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile; `within_lines` keeps line ends out of matches. Raises `InvalidPattern`."""
    try:
        return _compile(text, within_lines)
    except UnicodeEncodeError:
        raise InvalidPattern("it is not UTF-8") from None
    except re2.error as error:
        raise invalid(error, added=_LINES) from None


@lru_cache(maxsize=32)
def _compile(text: str, within_lines: bool) -> Pattern:
    options = re2.Options()
    configure(options)
    options.never_nl = within_lines
    pattern = cast(Pattern, re2.compile(_LINES + text, options))
    # re2's own cache is several times larger.
    re2.purge()
    check_size(pattern)
    return pattern
