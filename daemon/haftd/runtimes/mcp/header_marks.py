"""Arguments repeated in HTTP headers, by marks (`x-mcp-header`) in the tool's schema; read by
modern servers only."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from haftd.lazy_pattern import lazy_pattern

PREFIX = "Mcp-Param-"
_MARK = "x-mcp-header"
_TOKEN = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PLAIN = lazy_pattern(r"|[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_MARKED_TYPES = ("string", "integer", "boolean")
_MAX_DEPTH = 16

HeaderMarks = Mapping[tuple[str, ...], str]
"""Header names, without `PREFIX`, by the argument's path."""


class InvalidMark(ValueError):
    """Mark that the specification forbids; the tool must not be called."""


def read_marks(schema: Mapping[str, Any]) -> HeaderMarks:
    """Return the marks of a schema, also of nested properties. Raises `InvalidMark` unless each is
    on a string, integer or boolean and has a unique HTTP token (any case) as its name."""
    marks: dict[tuple[str, ...], str] = {}
    for path, subschema in _marked(schema, ()):
        name = subschema[_MARK]
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidMark(f"{name!r} is not a valid header name")
        if subschema.get("type") not in _MARKED_TYPES:
            raise InvalidMark(
                f"{name!r} is on a {subschema.get('type')}, not on one of {', '.join(_MARKED_TYPES)}"
            )
        if name.lower() in (other.lower() for other in marks.values()):
            raise InvalidMark(f"{name!r} is given twice")
        marks[path] = name
    return marks


def argument_headers(marks: HeaderMarks, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headers of a call; null and missing arguments have none."""
    headers = []
    for path, name in marks.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None:
            headers.append((f"{PREFIX}{name}", encoded_value(str(value))))
    return headers


def encoded_value(text: str) -> str:
    """Return a header value: base64 unless printable ASCII that does not look encoded."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _marked(
    subschema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    properties = subschema.get("properties")
    if not isinstance(properties, Mapping) or len(path) > _MAX_DEPTH:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            if _MARK in inner:
                yield (*path, name), inner
            yield from _marked(inner, (*path, name))
