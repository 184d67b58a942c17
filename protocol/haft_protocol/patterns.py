"""Limits and messages of regular expressions (RE2); daemon and clients compile, as this package has no RE2."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["MAX_INSTRUCTIONS", "InvalidPattern", "check_size", "configure", "invalid"]

MAX_INSTRUCTIONS = 4_000
"""RE2 program size; 900 instructions can slow a search to 0.2 MB/s."""
_MAX_MEMORY = 1_048_576


class InvalidPattern(ValueError):
    """Unusable expression; the argument ends a sentence."""


class _Sized(Protocol):
    """Compiled expression."""

    @property
    def programsize(self) -> int:
        """Number of instructions."""


def configure(options: Any) -> None:
    """Set the limits in new `re2.Options`."""
    options.log_errors = False
    options.max_mem = _MAX_MEMORY


def check_size(pattern: _Sized) -> None:
    """Raise `InvalidPattern` for an expression that would slow searches down."""
    if pattern.programsize > MAX_INSTRUCTIONS:
        raise InvalidPattern("it is too large; use smaller repetition counts")


def invalid(error: Exception, *, added: str = "") -> InvalidPattern:
    """Return the error for an `re2.error`, whose message repeats the expression after `added`."""
    message = error.args[0] if error.args else b""
    reason = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    reason = reason.replace(added, "", 1) if added else reason
    return InvalidPattern(f"{reason} (the syntax is RE2's: no look-around, no back references)")
