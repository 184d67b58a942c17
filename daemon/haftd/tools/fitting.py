"""A value brought nearer to what a schema wants, without guessing.

Rules: the value is never changed, a new one is made. A text that is JSON of the wanted type is taken
for it where a text is not wanted (models write `"[1, 2]"` and `"5"`); `null` for a property that may
be left out and may not be null is left out (strict providers make a model give every property); a
property under the name that a provider was shown is taken for it; defaults are filled in. Nothing
else: whether the result fits is for `arguments` to say. Where a schema leaves a choice, the first
branch that the value is meant for decides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from haft_protocol.dialects.names import own_properties

__all__ = ["fit"]

_DEEPEST = 16
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


def fit(value: Any, schema: _Schema) -> Any:
    """The value as the schema wants it, as far as it can be taken for that."""
    return _fit(value, schema, schema, 0)


def _resolved(schema: Any, whole: _Schema) -> _Schema:
    """The schema that a local `$ref` names; an empty one where it cannot be followed."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = whole
        for key in reference[1:].split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}


def _types(schema: _Schema, whole: _Schema, depth: int = 0) -> frozenset[str] | None:
    """The JSON types that the schema takes; None when it does not say."""
    if depth > _DEEPEST:
        return None
    said = schema.get("type")
    if isinstance(said, str):
        return frozenset((said, "null")) if schema.get("nullable") is True else frozenset((said,))
    if isinstance(said, Sequence):
        return frozenset(said)
    if (values := _values(schema)) is not None:
        return frozenset(
            name for value in values for name, types in _TYPES.items() if type(value) in types
        )
    for word in _CHOICES:
        if branches := _branches(schema, word):
            found: set[str] = set()
            for branch in branches:
                types = _types(_resolved(branch, whole), whole, depth + 1)
                if types is None:
                    return None
                found |= types
            return frozenset(found)
    for part in _branches(schema, "allOf"):
        if (types := _types(_resolved(part, whole), whole, depth + 1)) is not None:
            return types
    return None


def _values(schema: _Schema) -> list[Any] | None:
    """The values that the schema names one by one; None when it does not."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _branches(schema: _Schema, word: str) -> list[Any]:
    branches = schema.get(word)
    return branches if isinstance(branches, list) else []


def _is(value: object, types: frozenset[str]) -> bool:
    return any(type(value) in _TYPES.get(name, ()) for name in types)


def _fit(value: Any, schema: Any, whole: _Schema, depth: int, *, fill: bool = True) -> Any:
    """`depth` counts the schemas that were applied to this very value."""
    schema = _resolved(schema, whole)
    if depth > _DEEPEST:
        return value
    value = _as_wanted(value, schema, whole)
    for part in _branches(schema, "allOf"):
        value = _fit(value, part, whole, depth + 1, fill=fill)
    for word in _CHOICES:
        if branches := _branches(schema, word):
            chosen = _chosen(value, branches, whole)
            value = _fit(value, chosen, whole, depth + 1, fill=False)
    if isinstance(value, dict):
        return _fit_object(value, schema, whole, fill=fill)
    if isinstance(value, list):
        first = schema.get("prefixItems", schema.get("items"))
        first = first if isinstance(first, list) else []
        rest = schema.get(
            "additionalItems" if first and "prefixItems" not in schema else "items", {}
        )
        if not first and _are_plain(value, rest, whole):
            return value
        return [
            _fit(item, first[at] if at < len(first) else rest, whole, 0)
            for at, item in enumerate(value)
        ]
    return value


def _as_wanted(value: Any, schema: _Schema, whole: _Schema) -> Any:
    """A text as what it says in JSON where that is wanted, a whole number as an integer."""
    values = _values(schema)
    if isinstance(value, str) and values is not None and value not in values:
        found = _decoded(value)
        if any(type(found) is type(each) and found == each for each in values):
            return found
    types = _types(schema, whole)
    if types is None:
        return value
    if isinstance(value, str) and "string" not in types:
        value = _unwrap(value, types)
    if isinstance(value, float) and "integer" in types and "number" not in types:
        return int(value) if value.is_integer() else value
    return value


def _are_plain(items: list[Any], schema: Any, whole: _Schema) -> bool:
    """Whether all items are texts, numbers or the like of the types that are wanted: then there
    is nothing to fit, however many they are."""
    types = _types(_resolved(schema, whole), whole) or frozenset()
    plain = {kind for name in types - {"object", "array"} for kind in _TYPES.get(name, ())}
    return bool(plain) and {type(item) for item in items} <= plain


def _decoded(text: str) -> Any:
    """What the text is as JSON; the text when it is none."""
    try:
        return msgspec.json.decode(text.strip().encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


def _unwrap(text: str, types: frozenset[str]) -> Any:
    """What the text is as JSON, if that is of a wanted type; else the text."""
    value = _decoded(text)
    if isinstance(value, float) and "number" not in types and value.is_integer():
        value = int(value)
    return value if _is(value, types) else text


def _chosen(value: Any, branches: list[Any], whole: _Schema) -> Any:
    """The branch that the value is meant for: the first that takes its type as it is, else the first
    that takes what it says as JSON; an empty schema when there is none."""
    known = [_resolved(branch, whole) for branch in branches]
    for branch in known:
        if _is_meant(value, branch, whole):
            return branch
    if isinstance(value, str):
        for branch in known:
            found = _as_wanted(value, branch, whole)
            if found is not value and _is_meant(found, branch, whole):
                return branch
    return {}


def _is_meant(value: Any, branch: _Schema, whole: _Schema) -> bool:
    """Whether the value looks as if it were given for this branch: by its type, by the names that it
    has, and by the values that the branch fixes. `null` counts as not given."""
    types = _types(branch, whole)
    if types is None and not isinstance(value, dict):
        return False
    if types is not None and not _is(value, types):
        return False
    if not isinstance(value, dict):
        values = _values(branch)
        return values is None or value in values
    given = {name for name, item in value.items() if item is not None}
    known = _mapping(branch, "properties")
    if branch.get("additionalProperties") is False and not given <= known.keys():
        return False
    if any(name not in given for name in branch.get("required", ())):
        return False
    for name in given & known.keys():
        form = _resolved(known[name], whole)
        values = _values(form)
        if values is not None and _as_wanted(value[name], form, whole) not in values:
            return False
    return True


def _mapping(schema: _Schema, word: str) -> _Schema:
    found = schema.get(word)
    return found if isinstance(found, Mapping) else {}


def _known(schema: Any, whole: _Schema, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every property that the schema or a part of it names, its own first."""
    schema = _resolved(schema, whole)
    yield from _mapping(schema, "properties").items()
    if depth < _DEEPEST:
        parts = [part for word in ("allOf", *_CHOICES) for part in _branches(schema, word)]
        parts += [schema[word] for word in ("then", "else") if word in schema]
        parts += _mapping(schema, "dependentSchemas").values()
        for part in parts:
            yield from _known(part, whole, depth + 4)


def _fit_object(
    value: dict[str, Any], schema: _Schema, whole: _Schema, *, fill: bool
) -> dict[str, Any]:
    properties = _mapping(schema, "properties")
    others = schema.get("additionalProperties")
    required = schema.get("required", ())
    known: dict[str, Any] = {}
    for name, each in _known(schema, whole):
        known.setdefault(name, each)
    fitted: dict[str, Any] = {}
    shown = own_properties(known)
    for name, item in value.items():
        if name not in known and (own := shown.get(name)) is not None and own not in value:
            name = own
        if item is None and name in known and name not in required:
            types = _types(_resolved(known[name], whole), whole)
            if types is not None and "null" not in types:
                continue
        if name in properties:
            item = _fit(item, properties[name], whole, 0)
        elif name not in known and isinstance(others, Mapping):
            item = _fit(item, others, whole, 0)
        fitted[name] = item
    for name, form in properties.items() if fill else ():
        form = _resolved(form, whole)
        if name in fitted or "default" not in form:
            continue
        types = _types(form, whole)
        if form["default"] is None and types is not None and "null" not in types:
            continue  # "no default", as some generators write it
        fitted[name] = copy.deepcopy(form["default"])
    return fitted
