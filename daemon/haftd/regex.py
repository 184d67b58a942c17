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


def find_match(
    pattern: Pattern, text: bytes, pos: int, carried: int | None = None
) -> tuple[int, int] | None:
    """Return the range of the first match from `pos` on.

    With `carried`, more output follows the text, and the text from the offset `carried` on is searched
    again with it: a match that begins before, and reaches the end, counts if it needs neither a line
    end nor a word boundary there.
    """
    match = pattern.search(text, pos)
    if match is None:
        return None
    begin, end = match.start(), match.end()
    if carried is None or end < len(text) or begin >= carried:
        return begin, end
    # The byte 0xFF is in no UTF-8: `.` and classes do not match it.
    is_in_word = text[-1:].isalnum() or text.endswith(b"_")
    match = pattern.search(text + (b"_\xff" if is_in_word else b"\xff"), pos)
    return None if match is None else (match.start(), min(match.end(), len(text)))


def is_undecided(match: tuple[int, int], text: bytes, carried: int | None) -> bool:
    """Return True if a match of `find_match` is to be searched again with the output behind the text."""
    return carried is not None and match[0] >= carried and match[1] == len(text)


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
