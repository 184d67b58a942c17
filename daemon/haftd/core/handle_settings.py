"""Settings of a tool's handles: rights, policies, notices (docs/definitions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from haftd.notice_settings import DEFAULT_NOTICES, NoticeSettings


class HandleSettings(msgspec.Struct, frozen=True):
    policy: Mapping[str, str] = MappingProxyType({})
    """Run mode (`ask`, `edit` or `skip`) of each action that is not unattended."""
    may: frozenset[str] = frozenset()
    """Rights of the handle's processes to act for a person."""
    is_sandboxed: bool = False
    """True if the handle's processes run in a sandbox, which leaves them no right to call haftd."""
    on_turn_end: Literal["abort", "await", "keep", "inquire"] = "abort"
    on_disconnect: Literal["keep", "abort"] = "keep"
    """Action when the session's last connection closes."""
    notify: NoticeSettings = DEFAULT_NOTICES
    """Notices that the session gets of the handle."""
    is_transient: bool = False
    """True if the handle is forgotten as soon as all is over and no reader is left."""
    is_reviewed: bool = False
    """True if a reviewer decides whether the result is handed out."""


DEFAULT_SETTINGS = HandleSettings()
