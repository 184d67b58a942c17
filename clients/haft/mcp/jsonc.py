"""JSON with comments, changed in place: one member set or removed, all other bytes unchanged.

A malformed text is refused, never repaired.

Example: set_member('{"a": 1} // mine', "servers", "haft", {"command": "haft"})
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_INDENT = "  "


class Malformed(ValueError):
    """No JSON with comments, or no object where one is expected."""


class _Member(NamedTuple):
    key: str
    start: int
    value: int
    end: int


def decode(text: str) -> Any:
    """Decode JSON with comments and trailing commas; an empty one is an empty object. Raises
    `Malformed`."""
    if not text.strip():
        return {}
    try:
        return json.loads(_plain(text))
    except ValueError as fault:
        raise Malformed(f"it is not valid JSON with comments: {fault}") from None


def set_member(text: str, section: str, name: str, value: Any) -> str:
    """Return the text with `value` under `name` of the object `section`, added if missing."""
    decode(text)
    text = text if text.strip() else "{}\n"
    root = _object(text, 0)
    holder = _find(text, root, section)
    if holder is None:
        return _insert(text, root, section, {name: value})
    inner = _object(text, holder.value)
    member = _find(text, inner, name)
    if member is None:
        return _insert(text, inner, name, value)
    indent = _indent_of(text, member.start)
    return text[: member.value] + _encoded(value, indent) + text[member.end :]


def remove_member(text: str, section: str, name: str, *, keep_section: bool = False) -> str:
    """Return the text without `name` of `section`, and without an emptied section unless kept."""
    decode(text)
    if not text.strip():
        return text
    root = _object(text, 0)
    holder = _find(text, root, section)
    if holder is None:
        return text
    inner = _object(text, holder.value)
    member = _find(text, inner, name)
    if member is None:
        return text
    is_emptied = len(_members(text, inner)) == 1
    if is_emptied and not keep_section and "//" not in text[holder.value : holder.end]:
        return _cut(text, root, holder)
    return _cut(text, inner, member)


def _cut(text: str, holder: int, member: _Member) -> str:
    members = _members(text, holder)
    number = members.index(member)
    start, end = member.start, member.end
    after = _skip(text, end)
    if text[after] == ",":
        end = after + 1
    elif number > 0:
        start = members[number - 1].end
    line = text.rfind("\n", 0, start) + 1
    rest = text.find("\n", end)
    if not text[line:start].strip() and rest >= 0 and not text[end:rest].strip():
        return text[:line] + text[rest + 1 :]
    return text[:start] + text[end:]


def _insert(text: str, holder: int, name: str, value: Any) -> str:
    members = _members(text, holder)
    outer = _indent_of(text, holder)
    if not members:
        close = _skip(text, holder + 1)
        indent = outer + _INDENT
        member = f"{json.dumps(name)}: {_encoded(value, indent)}"
        kept = text[holder + 1 : close].rstrip()
        return f"{text[: holder + 1]}{kept}\n{indent}{member}\n{outer}{text[close:]}"
    last = members[-1]
    indent = _indent_of(text, last.start)
    member = f"{json.dumps(name)}: {_encoded(value, indent)}"
    after = _skip(text, last.end)
    if text[after] == ",":
        at = _line_end(text, after + 1)
        return f"{text[:at]}\n{indent}{member},{text[at:]}"
    at = _line_end(text, last.end)
    return f"{text[: last.end]},{text[last.end : at]}\n{indent}{member}{text[at:]}"


def _line_end(text: str, at: int) -> int:
    """Return the line's end if only a comment follows `at`, else `at`."""
    end = text.find("\n", at)
    return end if end >= 0 and _skip(text, at) > end else at


def _encoded(value: Any, indent: str) -> str:
    return json.dumps(value, indent=_INDENT, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _find(text: str, holder: int, key: str) -> _Member | None:
    return next((member for member in _members(text, holder) if member.key == key), None)


def _object(text: str, at: int) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != "{":
        raise Malformed("there is something else where an object is expected")
    return at


def _members(text: str, holder: int) -> list[_Member]:
    members = []
    at = _skip(text, holder + 1)
    while text[at] != "}":
        key_end = _string_end(text, at)
        value = _skip(text, _skip(text, key_end) + 1)
        end = _value_end(text, value)
        members.append(_Member(json.loads(text[at:key_end]), at, value, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members


def _value_end(text: str, at: int) -> int:
    if text[at] == '"':
        return _string_end(text, at)
    if text[at] in "{[":
        depth = 0
        while True:
            if text[at] == '"':
                at = _string_end(text, at)
                continue
            depth += (text[at] in "{[") - (text[at] in "}]")
            at += 1
            if depth == 0:
                return at
            at = _skip(text, at)
    while at < len(text) and text[at] not in ",}] \t\r\n/":
        at += 1
    return at


def _string_end(text: str, at: int) -> int:
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text):
        if text[at] in " \t\r\n\ufeff":
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise Malformed("a comment does not end")
            at = end + 2
        else:
            break
    return at


def _plain(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (at := _skip(text, at)) < len(text):
        if text[at] == '"':
            try:
                end = _string_end(text, at)
            except IndexError:
                raise Malformed("a string does not end") from None
        else:
            end = at + 1
        part = text[at:end]
        if part in ("}", "]") and parts and parts[-1] == ",":
            parts.pop()
        parts.append(part)
        # A space takes the place of a comment, so that tokens stay apart.
        if end < len(text) and text[end] in " \t\r\n/" and part not in ("{", "}", "[", "]", ","):
            parts.append(" ")
        at = end
    return "".join(parts)
