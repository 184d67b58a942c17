"""Coercion of a value to a schema, without guesses.

JSON in a string is decoded where no string is accepted (models write `"[1, 2]"` and `"5"`); `null`
for an optional property is dropped (strict providers require every property); translated names are
restored; defaults added. Of a choice, the first branch that accepts the value's type decides. Value
and schema are untrusted: each has a step budget.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from haft_protocol.json_text import decode_text

from .names import map_to_originals

_MAX_DEPTH = 16
_MAX_VALUE_DEPTH = 64
_MAX_STEPS = 20_000
_SHARE = 8_000
"""Steps for one property, so that the other properties are still coerced."""
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
_SCALARS = {name: _TYPES[name] for name in ("string", "boolean", "number", "integer")}
_PLAIN_VALUE = frozenset(["type", "title", "description"])
_PLAIN_OBJECT = _PLAIN_VALUE | {"properties", "required", "additionalProperties"}
_MAX_PLAIN = 64
"""Properties of a plain schema."""
_Schema = Mapping[str, Any]
# Shared: subschemas are cached by identity.
_NOTHING: _Schema = {}


class _Spent(Exception):
    """The step budget is spent."""


class Steps:
    def __init__(self, left: int = _MAX_STEPS) -> None:
        self.left = left
        self.taken = 0

    def take(self, count: int = 1) -> None:
        """Raises `_Spent`."""
        if count > self.left:
            raise _Spent
        self.left -= count
        self.taken += count


def coerce(
    value: Any, schema: _Schema, steps: Steps | None = None, *, with_defaults: bool = True
) -> Any:
    """Return the coerced value; the input is unchanged."""
    if steps is None and _is_plain(value, schema):
        return dict(value)
    try:
        return _Coercion(schema, steps or Steps(), with_defaults=with_defaults).coerce(
            value, schema
        )
    except _Spent:
        return value


def _is_plain(value: Any, schema: _Schema) -> bool:
    """True if coercion would change nothing: an object of scalars, each of its declared
    type, and a schema without other keywords. Most calls are, and take a tenth of the time."""
    if (
        type(value) is not dict
        or not schema.keys() <= _PLAIN_OBJECT
        or schema.get("type") != "object"
    ):
        return False
    properties = schema.get("properties", _NOTHING)
    if not isinstance(properties, Mapping) or len(properties) > _MAX_PLAIN:
        return False
    found = 0
    for name, form in properties.items():
        if type(form) is not dict or not form.keys() <= _PLAIN_VALUE:
            return False
        if name in value:
            kind = form.get("type")
            if not isinstance(kind, str) or type(value[name]) not in _SCALARS.get(kind, ()):
                return False
            found += 1
    return found == len(value)


def _values(schema: _Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _branches(schema: _Schema, keyword: str) -> list[Any]:
    branches = schema.get(keyword)
    return branches if isinstance(branches, list) else []


def _mapping(schema: _Schema, keyword: str) -> _Schema:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else _NOTHING


def _is(value: object, types: frozenset[str]) -> bool:
    return any(type(value) in _TYPES.get(name, ()) for name in types)


def _decoded(text: str) -> Any:
    try:
        return decode_text(text)
    except ValueError:
        return text


def _unwrap(text: str, types: frozenset[str]) -> Any:
    """Decode JSON of one of these types, else return the text."""
    value = _decoded(text)
    if isinstance(value, float) and "number" not in types and value.is_integer():
        value = int(value)
    return value if _is(value, types) else text


class _Schemas:
    def __init__(self, whole: _Schema, steps: Steps) -> None:
        self._whole = whole
        self.steps = steps
        self._led: dict[int, _Schema] = {}
        self._typed: dict[int, frozenset[str] | None] = {}
        self._named: dict[int, tuple[dict[str, Any], Mapping[str, str]]] = {}

    def resolved(self, schema: Any) -> _Schema:
        """Follow a local `$ref`; empty if unresolvable."""
        if not isinstance(schema, Mapping):
            return _NOTHING
        if "$ref" not in schema:
            return schema
        target = self._led.get(id(schema))
        if target is None:
            target = self._led[id(schema)] = self._follow(schema)
        return target

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
        """Return the accepted JSON types; None if unrestricted."""
        key = id(schema)
        if key not in self._typed:
            self.steps.take()
            self._typed[key] = None  # guard against a cycle
            self._typed[key] = self._types(schema, depth)
        return self._typed[key]

    def _types(self, schema: _Schema, depth: int) -> frozenset[str] | None:
        if depth > _MAX_DEPTH:
            return None
        declared = schema.get("type")
        if isinstance(declared, str):
            return frozenset((declared, "null") if schema.get("nullable") is True else (declared,))
        if isinstance(declared, Sequence):
            return frozenset(declared)
        if (values := _values(schema)) is not None:
            self.steps.take(len(values) // 256)
            kinds = set(map(type, values))
            return frozenset(name for name, types in _TYPES.items() if kinds.intersection(types))
        for keyword in _CHOICES:
            if branches := _branches(schema, keyword):
                union: set[str] = set()
                for branch in branches:
                    types = self.types(self.resolved(branch), depth + 1)
                    if types is None:
                        return None
                    union |= types
                return frozenset(union)
        for part in _branches(schema, "allOf"):
            if (types := self.types(self.resolved(part), depth + 1)) is not None:
                return types
        return None

    def is_among(self, value: Any, values: list[Any]) -> bool:
        self.steps.take(len(values) // 64)
        return value in values

    def names(self, schema: _Schema) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Return all properties of the schema and its subschemas, its own first, and the translated
        names."""
        cached = self._named.get(id(schema))
        if cached is None:
            properties = self._all_properties(schema)
            cached = self._named[id(schema)] = properties, map_to_originals(properties)
        return cached

    def _all_properties(self, schema: _Schema) -> dict[str, Any]:
        all_properties: dict[str, Any] = {}
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
                all_properties.setdefault(name, form)
            parts = [each for keyword in ("allOf", *_CHOICES) for each in _branches(part, keyword)]
            parts += [part[keyword] for keyword in ("then", "else") if keyword in part]
            parts += _mapping(part, "dependentSchemas").values()
            waiting.extend(reversed(parts))
        return all_properties


class _Coercion:
    def __init__(self, whole: _Schema, steps: Steps, *, with_defaults: bool) -> None:
        self._schemas = _Schemas(whole, steps)
        self._steps = steps
        self._with_defaults = with_defaults
        self._level = 0

    def coerce(self, value: Any, schema: Any) -> Any:
        return self._fit(value, schema, set(), 0)

    def _inner(self, value: Any, schema: Any) -> Any:
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
        """Coerce one value; `applied` are the schemas already applied to it, `depth` counts them."""
        self._steps.take()
        schema = self._schemas.resolved(schema)
        if depth > _MAX_DEPTH or (id(schema), fill) in applied:
            return value
        applied.add((id(schema), fill))
        value = self._as_wanted(value, schema)
        for part in _branches(schema, "allOf"):
            value = self._fit(value, part, applied, depth + 1, fill=fill)
        for keyword in _CHOICES:
            if branches := _branches(schema, keyword):
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
            raise _Spent  # fail before the first item
        return [
            self._inner(item, first[at] if at < len(first) else rest)
            for at, item in enumerate(value)
        ]

    def _as_wanted(self, value: Any, schema: _Schema) -> Any:
        values = _values(schema)
        if (
            isinstance(value, str)
            and values is not None
            and not self._schemas.is_among(value, values)
        ):
            decoded = _decoded(value)
            if decoded is not value and any(
                type(decoded) is type(each) and decoded == each for each in values
            ):
                return decoded
        types = self._schemas.types(schema)
        if types is None:
            return value
        if isinstance(value, str) and "string" not in types:
            value = _unwrap(value, types)
        if isinstance(value, float) and "integer" in types and "number" not in types:
            return int(value) if value.is_integer() else value
        return value

    def _are_plain(self, items: list[Any], schema: Any) -> bool:
        types = self._schemas.types(self._schemas.resolved(schema)) or frozenset()
        plain = {kind for name in types - {"object", "array"} for kind in _TYPES.get(name, ())}
        return bool(plain) and set(map(type, items)) <= plain

    def _chosen(self, value: Any, branches: list[Any]) -> Any:
        """Choose the first branch that accepts the type, else the decoded JSON."""
        resolved = [self._schemas.resolved(branch) for branch in branches]
        for branch in resolved:
            if self._is_meant(value, branch):
                return branch
        if isinstance(value, str):
            for branch in resolved:
                decoded = self._as_wanted(value, branch)
                if decoded is not value and self._is_meant(decoded, branch):
                    return branch
        return _NOTHING

    def _is_meant(self, value: Any, branch: _Schema) -> bool:
        """True if type, property names and fixed values suit the branch. `null` counts as absent."""
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
        present = {name for name, item in value.items() if item is not None}
        properties = _mapping(branch, "properties")
        if branch.get("additionalProperties") is False and not present <= properties.keys():
            return False
        if any(name not in present for name in branch.get("required", ())):
            return False
        for name in present & properties.keys():
            form = self._schemas.resolved(properties[name])
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
        declared, shown = self._schemas.names(schema)
        fitted: dict[str, Any] = {}
        for name, item in value.items():
            if name not in declared and (own := shown.get(name)) is not None and own not in value:
                name = own
            if item is None and name in declared and name not in required:
                types = self._schemas.types(self._schemas.resolved(declared[name]))
                if types is not None and "null" not in types:
                    continue
            if name in properties:
                item = self._inner(item, properties[name])
            elif name not in declared and isinstance(others, Mapping):
                item = self._inner(item, others)
            fitted[name] = item
        if fill and self._with_defaults:
            self._fill(fitted, properties)
        return fitted

    def _fill(self, fitted: dict[str, Any], properties: _Schema) -> None:
        self._steps.take(len(properties) // 16)
        for name, form in properties.items():
            form = self._schemas.resolved(form)
            if name in fitted or "default" not in form:
                continue
            types = self._schemas.types(form)
            if form["default"] is None and types is not None and "null" not in types:
                continue  # "no default", as some generators write it
            fitted[name] = copy.deepcopy(form["default"])
