"""Settings of a tool's handles (docs/definitions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from haftd.notice_settings import DEFAULT_NOTICES, NoticeSettings


class HandleSettings(msgspec.Struct, frozen=True):
    policy: Mapping[str, str] = MappingProxyType({})
    """Mode (`ask`, `edit` or `skip`) of each action that is not unattended."""
    may: frozenset[str] = frozenset()
    """Rights of the processes to act for a person."""
    is_sandboxed: bool = False
    """The processes run in a sandbox, without the right to call haftd."""
    on_turn_end: Literal["abort", "await", "keep", "inquire"] = "abort"
    on_disconnect: Literal["keep", "abort"] = "keep"
    """Action when the session's last connection closes."""
    notify: NoticeSettings = DEFAULT_NOTICES
    """Notices to the session."""
    is_transient: bool = False
    """Forgotten once ended and without a reader."""
    is_reviewed: bool = False
    """A reviewer decides on the result."""


DEFAULT_SETTINGS = HandleSettings()
