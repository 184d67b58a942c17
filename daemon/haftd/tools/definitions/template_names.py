"""Check that templates name only declared variables: an undeclared name renders as nothing, and `rm
-rf build/{{ typo }}` would remove `build/`.

A template with `default` or `is defined` may name an absent option. Computed names
(`tool.arguments[key]`) are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import minijinja

from haftd.lazy_pattern import lazy_pattern
from haftd.schemas.intersection import is_never
from haftd.schemas.normalization import UnsupportedSchema, normalize
from haftd.schemas.object_root import flatten

from .definition import Command, Each, Tool
from .parameters import InvalidField

_OF_TOOL = frozenset({"name", "arguments", "answers", "options"})
_OF_CONTEXT = frozenset({"action", "root", "session", "handle", "access", "vars"})
_OF_OLDER_CONTEXT = _OF_CONTEXT | {"workspace_id", "conversation_id"}
"""Context of `[conversation.tools.<name>]`, the format of another program."""
_FREE = frozenset({"answers", "access", "vars"})
"""Fields whose names are not declared."""
_SUBSCRIPT = lazy_pattern(r"""\btool\.(arguments|options)\[\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*\]""")
_COMBINED = frozenset(["anyOf", "oneOf", "allOf", "$ref", "then", "else", "dependentSchemas"])
"""Keywords with further schemas of the same object, whose properties are declared too."""
_MAX_NAMED = 12
"""Declared names in a message."""
_PARSER = minijinja.Environment()


def check_names(tool: Tool, *, arguments: bool = True) -> None:
    """Raise `InvalidField` for the first undeclared name.

    `arguments=False` leaves `tool.arguments.*` unchecked, for a tool whose program is yet to be
    asked for its parameters.
    """
    for path, source in _list_templates(tool):
        for name in sorted(_find_names(source)):
            if why := _find_name_fault(tool, name.split("."), source, arguments=arguments):
                raise InvalidField(path, f"its template uses `{name}`, {why}")


def _list_templates(tool: Tool) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path of the field and source of each template."""
    yield from _list_of_command(("command",), tool.command)
    # Instead of a named style, a command may print the arguments for a person who approves a call.
    yield from _list_of_command(("style", "parameters"), tool.style.get("parameters"))
    yield from (
        (("env", name), value) for name, value in tool.env.items() if isinstance(value, str)
    )
    yield from (
        (("limits", name), value) for name, value in tool.limits.items() if isinstance(value, str)
    )
    for key in ("cwd", "rows", "cols", "runtime"):
        value = getattr(tool, key)
        if isinstance(value, str):
            yield (key,), value


def _list_of_command(
    path: tuple[str, ...], command: object
) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(command, Command):
        for word in command.words:
            yield path, f"{{{{ {word.each} }}}}" if isinstance(word, Each) else word


def _find_names(source: str) -> set[str]:
    if "{" not in source:
        return set()
    names = _PARSER.undeclared_variables_in_str(source, nested=True)
    subscripts = {
        f"tool.{kind}.{quoted or other}" for kind, quoted, other in _SUBSCRIPT.findall(source)
    }
    return {name for name in names if name.startswith(("tool.", "context."))} | subscripts


def _find_name_fault(tool: Tool, name: list[str], source: str, *, arguments: bool) -> str:
    """Return the fault as the end of a sentence; empty if declared."""
    owner, part, *rest = name
    fields = _OF_TOOL if owner == "tool" else _OF_OLDER_CONTEXT if tool.older else _OF_CONTEXT
    if part not in fields:
        return f"which does not exist: `{owner}` has {', '.join(sorted(fields))}"
    if not rest or part in _FREE or _is_method(rest[-1], source):
        return ""
    if part == "options":
        is_optional = re.search(rf"{re.escape('.'.join(name))}\s*(\|\s*d(efault)?\b|is\b)", source)
        return (
            ""
            if is_optional or rest[0] in tool.options
            else _explain_undeclared("options", rest[0], tool.options)
        )
    if part == "arguments" and arguments:
        return _find_parameter_fault(tool.parameters, rest)
    return ""


def _is_method(name: str, source: str) -> bool:
    return (
        name in ("items", "keys", "values", "get")
        and re.search(rf"\.{name}\s*\(", source) is not None
    )


def _find_parameter_fault(schema: Mapping[str, Any], path: list[str]) -> str:
    properties = schema.get("properties", {})
    if path[0] in properties:
        inner = properties[path[0]]
        is_nested = len(path) > 1 and isinstance(inner, dict) and "properties" in inner
        return _find_parameter_fault(inner, path[1:]) if is_nested else ""
    if "patternProperties" in schema:
        return ""  # a pattern may permit any name
    # With `additionalProperties = false` only the schema's own properties are permitted, whatever
    # its branches declare.
    if schema.get("additionalProperties") is not False:
        if not _COMBINED & schema.keys():
            return ""
        try:
            flat = flatten(normalize(schema))[0]
        except UnsupportedSchema:
            return ""
        properties = flat.get("properties", {})
        if path[0] in properties or not is_never(flat.get("additionalProperties", {})):
            return ""
    return _explain_undeclared("parameters", path[0], properties)


def _explain_undeclared(field: str, name: str, declared: Mapping[str, Any]) -> str:
    if near := get_close_matches(name[:64], declared, n=1):
        return f"which `{field}` does not declare; did you mean `{near[0]}`?"
    names = ", ".join(f"`{name_}`" for name_ in list(declared)[:_MAX_NAMED])
    return f"which `{field}` does not declare" + (f"; it has {names}" if names else "")
