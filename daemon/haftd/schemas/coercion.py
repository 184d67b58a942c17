"""Coerce a value towards a schema, without guessing.

A new value is made. A text that holds JSON of the expected type is decoded where no text is accepted (models write
`"[1, 2]"` and `"5"`); `null` for an optional property that is not nullable is dropped (strict providers make a model
send every property); a property under its translated name is renamed back; defaults are filled in. `validation`
decides whether the result matches. In a choice, the first branch that accepts the value's type decides.

The work is bounded, since both value and schema are untrusted: the parts of a schema are analysed once a call, each
is applied to a value once, and the number of steps is limited. A value over its share stays unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from haft_protocol.json_text import decode_text

from .names import own_properties

_MAX_DEPTH = 16
_MAX_VALUE_DEPTH = 64
_MAX_STEPS = 20_000
_SHARE = 8_000
"""The most steps for one property of the whole value, so that the others are still fitted."""
_CHOICES = ("anyOf", "oneOf")
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}
_Schema = Mapping[str, Any]
# One object for "says nothing": what is known of a part is kept by its identity.
_NOTHING: _Schema = {}


class _Spent(Exception):
    """There are no more steps for this value."""


class Steps:
    """How much work a fit may still do."""

    def __init__(self, left: int = _MAX_STEPS) -> None:
        self.left = left
        self.taken = 0

    def take(self, count: int = 1) -> None:
        """Take so many; raises `_Spent`."""
        if count > self.left:
            raise _Spent
        self.left -= count
        self.taken += count


def coerce(
    value: Any, schema: _Schema, steps: Steps | None = None, *, with_defaults: bool = True
) -> Any:
    """The value as the schema wants it, as far as it can be taken for that."""
    try:
        return _Coercion(schema, steps or Steps(), with_defaults=with_defaults).coerce(
            value, schema
        )
    except _Spent:
        return value


def _values(schema: _Schema) -> list[Any] | None:
    """The values that the schema names one by one; None when it does not."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _branches(schema: _Schema, word: str) -> list[Any]:
    branches = schema.get(word)
    return branches if isinstance(branches, list) else []


def _mapping(schema: _Schema, word: str) -> _Schema:
    found = schema.get(word)
    return found if isinstance(found, Mapping) else _NOTHING


def _is(value: object, types: frozenset[str]) -> bool:
    return any(type(value) in _TYPES.get(name, ()) for name in types)


def _decoded(text: str) -> Any:
    """What the text is as JSON; the text when it is none."""
    try:
        return decode_text(text)
    except ValueError:
        return text


def _unwrap(text: str, types: frozenset[str]) -> Any:
    """What the text is as JSON, if that is of a wanted type; else the text."""
    value = _decoded(text)
    if isinstance(value, float) and "number" not in types and value.is_integer():
        value = int(value)
    return value if _is(value, types) else text


class _Schemas:
    """What the parts of one schema say, each looked up once."""

    def __init__(self, whole: _Schema, steps: Steps) -> None:
        self._whole = whole
        self.steps = steps
        self._led: dict[int, _Schema] = {}
        self._typed: dict[int, frozenset[str] | None] = {}
        self._named: dict[int, tuple[dict[str, Any], Mapping[str, str]]] = {}

    def resolved(self, schema: Any) -> _Schema:
        """The schema that a local `$ref` names; an empty one where it cannot be followed."""
        if not isinstance(schema, Mapping):
            return _NOTHING
        if "$ref" not in schema:
            return schema
        found = self._led.get(id(schema))
        if found is None:
            found = self._led[id(schema)] = self._follow(schema)
        return found

    def _follow(self, schema: Any) -> _Schema:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return _NOTHING
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            self.steps.take()
            schema = self._whole
            for key in reference[1:].split("/")[1:]:
                key = key.replace("~1", "/").replace("~0", "~")
                schema = schema.get(key) if isinstance(schema, Mapping) else None
        return _NOTHING

    def types(self, schema: _Schema, depth: int = 0) -> frozenset[str] | None:
        """The JSON types that the schema takes; None when it does not say."""
        key = id(schema)
        if key not in self._typed:
            self.steps.take()
            self._typed[key] = None  # one that comes back to itself says no more
            self._typed[key] = self._types(schema, depth)
        return self._typed[key]

    def _types(self, schema: _Schema, depth: int) -> frozenset[str] | None:
        if depth > _MAX_DEPTH:
            return None
        said = schema.get("type")
        if isinstance(said, str):
            return frozenset((said, "null") if schema.get("nullable") is True else (said,))
        if isinstance(said, Sequence):
            return frozenset(said)
        if (values := _values(schema)) is not None:
            self.steps.take(len(values) // 256)
            kinds = set(map(type, values))
            return frozenset(name for name, types in _TYPES.items() if kinds.intersection(types))
        for word in _CHOICES:
            if branches := _branches(schema, word):
                found: set[str] = set()
                for branch in branches:
                    types = self.types(self.resolved(branch), depth + 1)
                    if types is None:
                        return None
                    found |= types
                return frozenset(found)
        for part in _branches(schema, "allOf"):
            if (types := self.types(self.resolved(part), depth + 1)) is not None:
                return types
        return None

    def is_among(self, value: Any, values: list[Any]) -> bool:
        """Whether the value is one of those."""
        self.steps.take(len(values) // 64)
        return value in values

    def names(self, schema: _Schema) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Every property that the schema or a part of it names, its own first, and the names that
        they are shown under instead."""
        found = self._named.get(id(schema))
        if found is None:
            known = self._known(schema)
            found = self._named[id(schema)] = known, own_properties(known)
        return found

    def _known(self, schema: _Schema) -> dict[str, Any]:
        found: dict[str, Any] = {}
        seen: set[int] = set()
        waiting: list[Any] = [schema]
        while waiting:
            part = self.resolved(waiting.pop())
            if id(part) in seen:
                continue
            seen.add(id(part))
            properties = _mapping(part, "properties")
            self.steps.take(1 + len(properties) // 64)
            for name, form in properties.items():
                found.setdefault(name, form)
            parts = [each for word in ("allOf", *_CHOICES) for each in _branches(part, word)]
            parts += [part[word] for word in ("then", "else") if word in part]
            parts += _mapping(part, "dependentSchemas").values()
            waiting.extend(reversed(parts))
        return found


class _Coercion:
    """One call's value being fitted."""

    def __init__(self, whole: _Schema, steps: Steps, *, with_defaults: bool) -> None:
        self._schemas = _Schemas(whole, steps)
        self._steps = steps
        self._with_defaults = with_defaults
        self._level = 0

    def coerce(self, value: Any, schema: Any) -> Any:
        """The value by a schema that nothing else was applied for yet."""
        return self._fit(value, schema, set(), 0)

    def _inner(self, value: Any, schema: Any) -> Any:
        """A value inside of another. One right in the whole has its share of the steps."""
        if self._level >= _MAX_VALUE_DEPTH:
            return value
        held = max(self._steps.left - _SHARE, 0) if self._level == 0 else 0
        self._steps.left -= held
        self._level += 1
        try:
            return self.coerce(value, schema)
        except _Spent:
            if self._level > 1:
                raise
            return value
        finally:
            self._level -= 1
            self._steps.left += held

    def _fit(
        self,
        value: Any,
        schema: Any,
        applied: set[tuple[int, bool]],
        depth: int,
        *,
        fill: bool = True,
    ) -> Any:
        """`applied` are the schemas that were applied to this very value, `depth` how many of them
        led here."""
        self._steps.take()
        schema = self._schemas.resolved(schema)
        if depth > _MAX_DEPTH or (id(schema), fill) in applied:
            return value
        applied.add((id(schema), fill))
        value = self._as_wanted(value, schema)
        for part in _branches(schema, "allOf"):
            value = self._fit(value, part, applied, depth + 1, fill=fill)
        for word in _CHOICES:
            if branches := _branches(schema, word):
                chosen = self._chosen(value, branches)
                value = self._fit(value, chosen, applied, depth + 1, fill=False)
        if isinstance(value, dict):
            return self._object(value, schema, fill=fill)
        if isinstance(value, list):
            return self._list(value, schema)
        return value

    def _list(self, value: list[Any], schema: _Schema) -> list[Any]:
        first = schema.get("prefixItems", schema.get("items"))
        first = first if isinstance(first, list) else []
        further = "additionalItems" if first and "prefixItems" not in schema else "items"
        rest = schema.get(further, _NOTHING)
        if not first and self._are_plain(value, rest):
            return value
        if len(value) > self._steps.left:
            raise _Spent  # known before the first item
        return [
            self._inner(item, first[at] if at < len(first) else rest)
            for at, item in enumerate(value)
        ]

    def _as_wanted(self, value: Any, schema: _Schema) -> Any:
        """A text as what it says in JSON where that is wanted, a whole number as an integer."""
        values = _values(schema)
        if (
            isinstance(value, str)
            and values is not None
            and not self._schemas.is_among(value, values)
        ):
            found = _decoded(value)
            if found is not value and any(
                type(found) is type(each) and found == each for each in values
            ):
                return found
        types = self._schemas.types(schema)
        if types is None:
            return value
        if isinstance(value, str) and "string" not in types:
            value = _unwrap(value, types)
        if isinstance(value, float) and "integer" in types and "number" not in types:
            return int(value) if value.is_integer() else value
        return value

    def _are_plain(self, items: list[Any], schema: Any) -> bool:
        """Whether all items are texts, numbers or the like of the types that are wanted: then there
        is nothing to fit, however many they are."""
        types = self._schemas.types(self._schemas.resolved(schema)) or frozenset()
        plain = {kind for name in types - {"object", "array"} for kind in _TYPES.get(name, ())}
        return bool(plain) and set(map(type, items)) <= plain

    def _chosen(self, value: Any, branches: list[Any]) -> Any:
        """The branch that the value is meant for: the first that takes its type as it is, else the
        first that takes what it says as JSON; an empty schema when there is none."""
        known = [self._schemas.resolved(branch) for branch in branches]
        for branch in known:
            if self._is_meant(value, branch):
                return branch
        if isinstance(value, str):
            for branch in known:
                found = self._as_wanted(value, branch)
                if found is not value and self._is_meant(found, branch):
                    return branch
        return _NOTHING

    def _is_meant(self, value: Any, branch: _Schema) -> bool:
        """Whether the value looks as if it were given for this branch: by its type, by the names
        that it has, and by the values that the branch fixes. `null` counts as not given."""
        self._steps.take()
        types = self._schemas.types(branch)
        if types is None and not isinstance(value, dict):
            return False
        if types is not None and not _is(value, types):
            return False
        if not isinstance(value, dict):
            values = _values(branch)
            return values is None or self._schemas.is_among(value, values)
        self._steps.take(len(value) // 16)
        given = {name for name, item in value.items() if item is not None}
        known = _mapping(branch, "properties")
        if branch.get("additionalProperties") is False and not given <= known.keys():
            return False
        if any(name not in given for name in branch.get("required", ())):
            return False
        for name in given & known.keys():
            form = self._schemas.resolved(known[name])
            values = _values(form)
            if values is not None and not self._schemas.is_among(
                self._as_wanted(value[name], form), values
            ):
                return False
        return True

    def _object(self, value: dict[str, Any], schema: _Schema, *, fill: bool) -> dict[str, Any]:
        self._steps.take(len(value))
        properties = _mapping(schema, "properties")
        others = schema.get("additionalProperties")
        required = schema.get("required", ())
        known, shown = self._schemas.names(schema)
        fitted: dict[str, Any] = {}
        for name, item in value.items():
            if name not in known and (own := shown.get(name)) is not None and own not in value:
                name = own
            if item is None and name in known and name not in required:
                types = self._schemas.types(self._schemas.resolved(known[name]))
                if types is not None and "null" not in types:
                    continue
            if name in properties:
                item = self._inner(item, properties[name])
            elif name not in known and isinstance(others, Mapping):
                item = self._inner(item, others)
            fitted[name] = item
        if fill and self._with_defaults:
            self._fill(fitted, properties)
        return fitted

    def _fill(self, fitted: dict[str, Any], properties: _Schema) -> None:
        """Put the defaults in."""
        self._steps.take(len(properties) // 16)
        for name, form in properties.items():
            form = self._schemas.resolved(form)
            if name in fitted or "default" not in form:
                continue
            types = self._schemas.types(form)
            if form["default"] is None and types is not None and "null" not in types:
                continue  # "no default", as some generators write it
            fitted[name] = copy.deepcopy(form["default"])
