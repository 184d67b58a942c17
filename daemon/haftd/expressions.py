"""Regular expressions from outside, compiled: by RE2 alone, so that time is linear in the text.

Rules: what cannot be used is refused with a sentence, whoever has written it. `^` and `$` mean lines.
An expression has a bounded size, and those that are used often are kept. What is done with one, and
how much text it may be given at once, is for others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

import re2

__all__ = ["BadExpression", "Match", "Pattern", "compile_expression"]

_LARGEST = 4_000
"""Instructions that an expression may have; 900 of them can be down to 0.2 MB/s."""

_MEMORY = 1_048_576


class BadExpression(ValueError):
    """The expression cannot be used; the argument says why, as the rest of a sentence."""


class Match(Protocol):
    """Where an expression matched."""

    def start(self) -> int:
        """The offset of its first byte."""

    def end(self) -> int:
        """The offset after its last byte."""


class Pattern(Protocol):
    """A compiled expression, on bytes that are UTF-8 or not."""

    @property
    def pattern(self) -> str:
        """Its text."""

    @property
    def programsize(self) -> int:
        """How many instructions it has."""

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        """Return the first match from `pos` on; what is before it is still looked back at."""


def compile_expression(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile it; `within_lines`: nothing in it ever matches a line end. Raises `BadExpression`."""
    try:
        return _compile(text, within_lines)
    except UnicodeEncodeError:
        raise BadExpression("it is no UTF-8") from None
    except re2.error as error:
        said = error.args[0] if error.args else b""
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        why = why.replace("(?m)", "", 1)
        raise BadExpression(
            f"{why} (it takes RE2's syntax: no look-around, no back references)"
        ) from None


@lru_cache(maxsize=32)
def _compile(text: str, within_lines: bool) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.never_nl = within_lines
    pattern = cast(Pattern, re2.compile("(?m)" + text, options))
    # re2 keeps every expression in a cache of its own, several times the size of ours.
    re2.purge()
    if pattern.programsize > _LARGEST:
        raise BadExpression("it is too large, use smaller repetition counts")
    return pattern
