"""Settings of notices. Ends and questions notify by default."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Level = Literal["info", "warning", "error", "critical"]
LEVELS: Final[tuple[Level, ...]] = ("info", "warning", "error", "critical")


class NoticePattern(msgspec.Struct, frozen=True):
    """Expression for output lines, with their notice's level."""

    name: str
    match: str
    level: Level = "info"


class NoticeSettings(msgspec.Struct, frozen=True):
    """Events of a handle that raise notices."""

    on_success: bool = True
    on_failure: bool = True
    on_waiting: bool = True
    on_content: bool = False
    patterns: tuple[NoticePattern, ...] = ()

    @property
    def needs_output(self) -> bool:
        return self.on_content or bool(self.patterns)


DEFAULT_NOTICES: Final = NoticeSettings()
