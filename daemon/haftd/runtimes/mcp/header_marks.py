"""Arguments of an MCP call that HTTP headers repeat, by marks (`x-mcp-header`) in the tool's schema.

Only servers of the stateless protocol (opened by `server/discover`) read these headers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "Mcp-Param-"
_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PLAIN = re.compile(r"|[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_KINDS = ("string", "integer", "boolean")
_MAX_DEPTH = 16

Marks = Mapping[tuple[str, ...], str]
"""Header names, without `PREFIX`, by the path of the argument in the call."""


class WrongMark(ValueError):
    """The specification forbids a mark of the schema, and so any call of the tool."""


def read_marks(schema: Mapping[str, Any]) -> Marks:
    """Return the marks of a tool's schema, nested ones too. Raises `WrongMark` unless each is on a
    string, integer or boolean and has an HTTP token as its name, unique regardless of case."""
    marks: dict[tuple[str, ...], str] = {}
    for path, form in _marked(schema, ()):
        name = form[_MARK]
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise WrongMark(f"{name!r} is no name of a header")
        if form.get("type") not in _KINDS:
            raise WrongMark(
                f"{name!r} is on a {form.get('type')}, not on one of {', '.join(_KINDS)}"
            )
        if name.lower() in (other.lower() for other in marks.values()):
            raise WrongMark(f"{name!r} is given twice")
        marks[path] = name
    return marks


def headers_of(marks: Marks, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headers of a call; null and missing arguments have none."""
    headers = []
    for path, name in marks.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None:
            headers.append((f"{PREFIX}{name}", encoded(str(value))))
    return headers


def encoded(text: str) -> str:
    """Return a header value: printable ASCII as is, any other text, and one that looks encoded, in
    base64."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _marked(
    form: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    properties = form.get("properties")
    if not isinstance(properties, Mapping) or len(path) > _MAX_DEPTH:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            if _MARK in inner:
                yield (*path, name), inner
            yield from _marked(inner, (*path, name))
