"""Notification settings of a handle, from its tool's definition.

Rules: frozen values. By default a session is notified of ends and questions. Sections 7 and 11.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["DEFAULT_NOTIFY", "Level", "NotifyPattern", "NotifySettings"]

Level = Literal["info", "warning", "error", "critical"]


class NotifyPattern(msgspec.Struct, frozen=True):
    """A named expression whose matching output lines raise a notice of this level."""

    name: str
    match: str
    level: Level = "info"


class NotifySettings(msgspec.Struct, frozen=True):
    """Events of a handle that raise notices."""

    on_success: bool = True
    on_failure: bool = True
    on_waiting: bool = True
    on_content: bool = False
    patterns: tuple[NotifyPattern, ...] = ()

    @property
    def needs_output(self) -> bool:
        """True if notices depend on the output."""
        return self.on_content or bool(self.patterns)


DEFAULT_NOTIFY = NotifySettings()
