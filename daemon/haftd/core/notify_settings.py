"""What a session is told of one handle without asking, as its tool's definition says.

Rules: values, frozen. Without a word there: its end and its questions. Sections 7 and 11.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["DEFAULT_NOTIFY", "Level", "NotifyPattern", "NotifySettings"]

Level = Literal["info", "warning", "error", "critical"]


class NotifyPattern(msgspec.Struct, frozen=True):
    """An expression that makes a notice of this level when a line of the output matches it."""

    name: str
    match: str
    level: Level = "info"


class NotifySettings(msgspec.Struct, frozen=True):
    """Which news of a handle become notices."""

    on_success: bool = True
    on_failure: bool = True
    on_waiting: bool = True
    on_content: bool = False
    patterns: tuple[NotifyPattern, ...] = ()

    @property
    def needs_output(self) -> bool:
        """Whether its output has to be looked at."""
        return self.on_content or bool(self.patterns)


DEFAULT_NOTIFY = NotifySettings()
