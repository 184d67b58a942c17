"""`notify`: which news of a tool's handles become notices, read from its definition.

Rules: pure. What is not known is refused, and an expression that cannot be used, too: a notice that
never comes is missed too late. Nothing here looks at output.
"""

from __future__ import annotations

import re
from typing import Any, cast

from haft_protocol.errors import shown
from haftd.notice_settings import LEVELS, Level, NoticePattern, NoticeSettings
from haftd.regex import InvalidExpression, compile_expression

from .parameters import Wrong

_SWITCHES = ("on_success", "on_failure", "on_waiting", "on_content")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MAX_PATTERNS = 16
_MAX_PATTERN_LENGTH = 1_024


def read_notify(value: object) -> NoticeSettings:
    """Read the table; raises `Wrong` with the path inside it."""
    if not isinstance(value, dict):
        raise Wrong((), f"it must be a table of {', '.join(_SWITCHES)} and patterns")
    found: dict[str, Any] = {}
    for key, one in value.items():
        if key == "patterns":
            found[key] = _read_patterns(one)
        elif key not in _SWITCHES:
            known = ", ".join((*_SWITCHES, "patterns"))
            raise Wrong((key,), f"there is no such notice; there are {known}")
        elif not isinstance(one, bool):
            raise Wrong((key,), "it must be true or false")
        else:
            found[key] = one
    return NoticeSettings(**found)


def _read_patterns(value: object) -> tuple[NoticePattern, ...]:
    if not isinstance(value, dict):
        raise Wrong(("patterns",), 'it must be a table of expressions by name: name = "expression"')
    if len(value) > _MAX_PATTERNS:
        raise Wrong(("patterns",), f"it has {len(value)} patterns; {_MAX_PATTERNS} are allowed")
    return tuple(_read_pattern(name, one) for name, one in value.items())


def _read_pattern(name: str, value: object) -> NoticePattern:
    path: tuple[str, ...] = ("patterns", name)
    if not _NAME.fullmatch(name):
        raise Wrong(path, "a name has 1 to 64 letters, digits or `_.-`")
    level: object = "info"
    if isinstance(value, dict):
        if unknown := sorted(set(value) - {"match", "level"}):
            raise Wrong((*path, unknown[0]), "a pattern has `match` and `level`")
        if "match" not in value:
            raise Wrong(path, "it needs a `match`, an expression")
        level = value.get("level", "info")
        if level not in LEVELS:
            raise Wrong(
                (*path, "level"), f"it is {shown(level)}; it must be one of {', '.join(LEVELS)}"
            )
        value = value["match"]
        path = (*path, "match")
    if not isinstance(value, str) or not value or len(value) > _MAX_PATTERN_LENGTH:
        raise Wrong(path, f"it must be an expression of at most {_MAX_PATTERN_LENGTH} characters")
    try:
        compile_expression(value, within_lines=True)
    except InvalidExpression as bad:
        raise Wrong(path, f"the expression {shown(value)} cannot be used: {bad}") from None
    return NoticePattern(name, value, cast(Level, level))
