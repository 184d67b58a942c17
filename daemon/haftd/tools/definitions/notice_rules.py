"""Notice rules: a definition's `notify`.

Unknown keys and unusable expressions are refused: a notice that never fires goes unnoticed.
"""

from __future__ import annotations

from typing import Any, cast

from haft_protocol.errors import shown
from haft_protocol.patterns import InvalidPattern
from haftd.lazy_pattern import lazy_pattern
from haftd.notice_settings import LEVELS, Level, NoticePattern, NoticeSettings
from haftd.regex import compile_expression

from .parameters import InvalidField

_SWITCHES = ("on_success", "on_failure", "on_waiting", "on_content")
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MAX_PATTERNS = 16
_MAX_PATTERN_LENGTH = 1_024
"""Characters. Both bounds keep the search of output cheap: each line is searched for each pattern."""


def read_notify(value: object) -> NoticeSettings:
    if not isinstance(value, dict):
        raise InvalidField((), f"it must be a table of {', '.join(_SWITCHES)} and patterns")
    fields: dict[str, Any] = {}
    for key, item in value.items():
        if key == "patterns":
            fields[key] = _read_patterns(item)
        elif key not in _SWITCHES:
            keys = ", ".join((*_SWITCHES, "patterns"))
            raise InvalidField((key,), f"there is no such notice; the notices are {keys}")
        elif not isinstance(item, bool):
            raise InvalidField((key,), "it must be true or false")
        else:
            fields[key] = item
    return NoticeSettings(**fields)


def _read_patterns(value: object) -> tuple[NoticePattern, ...]:
    if not isinstance(value, dict):
        raise InvalidField(
            ("patterns",), 'it must be a table of expressions by name: name = "expression"'
        )
    if len(value) > _MAX_PATTERNS:
        raise InvalidField(
            ("patterns",), f"it has {len(value)} patterns; at most {_MAX_PATTERNS} are allowed"
        )
    return tuple(_read_pattern(name, pattern) for name, pattern in value.items())


def _read_pattern(name: str, value: object) -> NoticePattern:
    path: tuple[str, ...] = ("patterns", name)
    if not _NAME.fullmatch(name):
        raise InvalidField(path, "a name must have 1 to 64 letters, digits or `_.-`")
    level: object = "info"
    if isinstance(value, dict):
        if unknown := sorted(set(value) - {"match", "level"}):
            raise InvalidField((*path, unknown[0]), "a pattern can have `match` and `level`")
        if "match" not in value:
            raise InvalidField(path, "it needs a `match`, an expression")
        level = value.get("level", "info")
        if level not in LEVELS:
            raise InvalidField(
                (*path, "level"), f"it is {shown(level)}; it must be one of {', '.join(LEVELS)}"
            )
        value = value["match"]
        path = (*path, "match")
    if not isinstance(value, str) or not value or len(value) > _MAX_PATTERN_LENGTH:
        raise InvalidField(
            path, f"it must be an expression of at most {_MAX_PATTERN_LENGTH} characters"
        )
    try:
        compile_expression(value, within_lines=True)
    except InvalidPattern as bad:
        raise InvalidField(path, f"the expression {shown(value)} cannot be used: {bad}") from None
    return NoticePattern(name, value, cast(Level, level))
