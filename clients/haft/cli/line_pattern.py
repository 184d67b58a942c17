"""Regular expressions for lines of output, by RE2: a search takes linear time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import re2

from haft_protocol.patterns import check_size, configure, invalid


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
    """Compile an expression; raise `InvalidPattern`."""
    options = re2.Options()
    configure(options)
    options.case_sensitive = not ignores_case
    try:
        pattern = cast(Pattern, re2.compile(text, options))
    except re2.error as error:
        raise invalid(error) from None
    check_size(pattern)
    return pattern
