"""Settings of a tool's handles, from its definition: rights, policies and notices.

Rules: frozen values, given to a handle when its id is taken. By default nothing needs approval, a turn's end
aborts the handle, and a session is notified of ends and questions. Sections 6, 7 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

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


class HandleSettings(msgspec.Struct, frozen=True):
    """Settings of one handle, which do not change while it exists."""

    policy: Mapping[str, str] = MappingProxyType({})
    """Actions that are not done unattended, each with the action that replaces it."""
    may: frozenset[str] = frozenset()
    """Rights of its processes to act for a person."""
    on_turn_end: Literal["abort", "await", "keep", "inquire"] = "abort"
    on_disconnect: Literal["keep", "abort"] = "keep"
    """Action when the session's last connection closes."""
    notify: NotifySettings = DEFAULT_NOTIFY
    """Notices that the session gets of the handle."""
    is_reviewed: bool = False
    """True if a reviewer decides whether the result is handed out."""


DEFAULT_SETTINGS = HandleSettings()
