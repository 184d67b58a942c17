"""Regular expressions for the lines of programs, by RE2: a search takes linear time, so it keeps a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import re2

_MAX_INSTRUCTIONS = 4_000
"""As many as the daemon takes, so that each `--pattern` is a pattern here."""
_MAX_MEMORY = 1_048_576


class InvalidPattern(ValueError):
    """Unusable expression; the argument ends a sentence."""


class Match(Protocol):
    def __getitem__(self, group: int) -> str:
        """Return the text of a group; 0 is the whole match."""


class Pattern(Protocol):
    """Compiled expression."""

    @property
    def programsize(self) -> int:
        """Number of instructions."""

    def search(self, text: str) -> Match | None:
        """Return the first match."""

    def sub(self, repl: Callable[[Match], str], text: str) -> str:
        """Return the text with each match replaced."""


def compile_pattern(text: str, *, ignores_case: bool = False) -> Pattern:
    """Compile an expression. Raises `InvalidPattern`."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.case_sensitive = not ignores_case
    try:
        pattern = cast(Pattern, re2.compile(text, options))
    except re2.error as error:
        message = error.args[0] if error.args else b""
        reason = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise InvalidPattern(
            f"{reason} (it takes RE2's syntax: no look-around, no back references)"
        ) from None
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise InvalidPattern("it is too large, use smaller repetition counts")
    return pattern
