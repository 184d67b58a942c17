"""Normalization of a schema of any draft to this package's form.

References are replaced by their targets, recursive ones marked with `CUT`. `type` is a list,
`const` an `enum` of one, an item list `prefixItems`, a limit a number, `true` the empty schema,
`false` `NEVER`. The number of nodes is bounded. A keyword that constrains one JSON type implies it
unless another keyword names types.
"""

from __future__ import annotations

from typing import Any

from .intersection import ANNOTATIONS, NEVER, Node, merge

CUT = "\0cut"
"""Key of a recursive node: the name of the repeated one."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_MAX_NODES = 1_000
_MAX_DEPTH = 40
_ONE_SCHEMA = (
    "items",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
)
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_COUNTS = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS = ("description", "title", "pattern", "format")


class UnsupportedSchema(ValueError):
    """A tool's schema cannot be expressed for a provider; the message has the reason."""


def normalize(schema: object) -> Node:
    return _Reader(schema).node(schema, 0)


class _Reader:
    """Reader of one schema: resolved references and remaining growth."""

    def __init__(self, whole: object) -> None:
        self._whole = whole
        self._nodes_left = _MAX_NODES
        self._stack: list[str] = []
        self._anchors: dict[str, Any] | None = None

    def node(self, form: object, depth: int) -> Node:
        if form is False:
            return dict(NEVER)
        if not isinstance(form, dict) or not form:
            return {}
        if depth > _MAX_DEPTH:
            return {CUT: "a value that is nested deeper"}
        self._nodes_left -= 1
        reference = form.get("$ref", form.get("$dynamicRef", form.get("$recursiveRef")))
        if isinstance(reference, str):
            beside = {key: value for key, value in form.items() if not key.startswith("$")}
            target = self._resolve(reference, depth)
            # A text beside a reference is about this use, and comes first.
            return merge(self.node(beside, depth), target) if beside else target
        return self._keywords(form, depth)

    def _resolve(self, reference: str, depth: int) -> Node:
        target = self._find(reference)
        if reference in self._stack or self._nodes_left < 0:
            declared = target.get("type") if isinstance(target, dict) else None
            if isinstance(target, dict) and declared is None and "properties" in target:
                declared = "object"
            cut: Node = {CUT: reference.rpartition("/")[2].lstrip("#") or "the whole"}
            if types := _types(declared):
                cut["type"] = types
            return cut
        self._stack.append(reference)
        node = self.node(target, depth)
        self._stack.pop()
        return node

    def _find(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return {}
        if reference[1:2] not in ("", "/"):
            return self._find_anchor(reference[1:])
        target: Any = self._whole
        for key in reference[1:].split("/")[1:]:
            key = _unescaped(key)
            if isinstance(target, dict):
                target = target.get(key, {})
            elif isinstance(target, list) and len(key) < 8 and key.isdecimal():
                if int(key) >= len(target):
                    return {}
                target = target[int(key)]
            else:
                return {}
        return target

    def _find_anchor(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            waiting: list[Any] = [self._whole]
            while waiting:
                form = waiting.pop()
                if isinstance(form, dict):
                    for key in ("$anchor", "$dynamicAnchor"):
                        if isinstance(form.get(key), str):
                            self._anchors.setdefault(form[key], form)
                    waiting.extend(form.values())
                elif isinstance(form, list):
                    waiting.extend(form)
        return self._anchors.get(name, {})

    def _keywords(self, form: dict[str, Any], depth: int) -> Node:
        node: Node = {}
        if types := _types(form.get("type")):
            node["type"] = types
        values = [form["const"]] if "const" in form else form.get("enum")
        if isinstance(values, list):
            node["enum"] = _distinct(values)
        if form.get("nullable") is True:
            if "type" in node and "null" not in node["type"]:
                node["type"] = [*node["type"], "null"]
            if "enum" in node and None not in node["enum"]:
                node["enum"] = [*node["enum"], None]
        for key in _TEXTS:
            if isinstance(form.get(key), str) and form[key].strip():
                node[key] = form[key].strip() if key in ("description", "title") else form[key]
        for key in _COUNTS:
            if (count := _number(form.get(key))) is not None and count >= 0:
                node[key] = int(count)
        for key in _LIMITS:
            if (limit := _number(form.get(key))) is not None:
                node[key] = limit
        for near, far in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if form.get(far) is True and near in node:  # draft 4
                node[far] = node.pop(near)
        if form.get("uniqueItems") is True:
            node["uniqueItems"] = True
        if "default" in form:
            node["default"] = form["default"]
        examples = form.get("examples", [form["example"]] if "example" in form else None)
        if isinstance(examples, list) and examples:
            node["examples"] = examples
        self._nested(form, node, depth)
        for part in _list(form.get("allOf")):
            node = merge(node, self.node(part, depth + 1))
        return node

    def _nested(self, form: dict[str, Any], node: Node, depth: int) -> None:
        for key in _ONE_SCHEMA:
            inner = form.get(key)
            if isinstance(inner, dict | bool) and inner is not True:
                node[key] = self.node(inner, depth + 1)
        first = form.get("prefixItems")
        if isinstance(form.get("items"), list):  # drafts up to 2019-09
            first = form["items"]
            rest = form.get("additionalItems")
            if isinstance(rest, dict | bool) and rest is not True:
                node["items"] = self.node(rest, depth + 1)
        if first := _list(first):
            node["prefixItems"] = [self.node(item, depth + 1) for item in first]
        for key in _LISTS_OF_SCHEMAS:
            if branches := _list(form.get(key)):
                node[key] = [self.node(branch, depth + 1) for branch in branches]
        for key in _SCHEMAS_BY_NAME:
            if isinstance(form.get(key), dict):
                node[key] = {str(n): self.node(v, depth + 1) for n, v in form[key].items()}
        required = [name for name in _list(form.get("required")) if isinstance(name, str)]
        if required:
            node["required"] = list(dict.fromkeys(required))
        needs = (
            dict(form.get("dependentRequired") or {}) if _is_dict(form, "dependentRequired") else {}
        )
        for name, need in form["dependencies"].items() if _is_dict(form, "dependencies") else ():
            if isinstance(need, list):  # drafts up to 7 wrote both
                needs.setdefault(name, need)
            else:
                node.setdefault("dependentSchemas", {}).setdefault(name, self.node(need, depth + 1))
        if needs:
            node["dependentRequired"] = needs


def _is_dict(form: dict[str, Any], key: str) -> bool:
    return isinstance(form.get(key), dict)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if value == value and abs(value) != float("inf") else None


def _types(value: object) -> list[str]:
    declared = [value] if isinstance(value, str) else _list(value)
    lowered = [entry.lower() for entry in declared if isinstance(entry, str)]
    return [name for name in TYPES if name in lowered]


def _distinct(values: list[Any]) -> list[Any]:
    """Remove duplicates; 1 and true differ, 1 and 1.0 do not."""
    values_: list[Any] = []
    seen: set[str] = set()
    for value in values:
        key = (
            repr(float(value))
            if type(value) in (int, float) and abs(value) < 2**53
            else repr(value)
        )
        if key not in seen:
            seen.add(key)
            values_.append(value)
    return values_


def _unescaped(key: str) -> str:
    if "%" in key:
        parts = key.split("%")
        data = parts[0].encode("utf-8", "surrogatepass")
        for part in parts[1:]:
            try:
                data += bytes.fromhex(part[:2]) + part[2:].encode("utf-8", "surrogatepass")
            except ValueError:
                return key
        key = data.decode("utf-8", "replace")
    return key.replace("~1", "/").replace("~0", "~")


KEYWORDS: dict[str, frozenset[str]] = {
    "string": frozenset(["minLength", "maxLength", "pattern", "format"]),
    "number": frozenset(
        ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"]
    ),
    "array": frozenset(
        [
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "unevaluatedItems",
        ]
    ),
    "object": frozenset(
        [
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        ]
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
KEYWORDS["integer"] = KEYWORDS["number"]
TYPED_KEYWORDS = frozenset().union(*KEYWORDS.values())
NUMBER_FORMATS = {"number": ("float", "double"), "integer": ("int32", "int64")}


def types_of(node: Node) -> list[str]:
    """Return the accepted types; empty for all."""
    types: list[str] = node.get("type", [])
    if not types and "enum" not in node:
        types = [kind for kind in TYPES if kind != "integer" and KEYWORDS[kind] & node.keys()]
        if "format" in node and types == ["string", "number"]:
            number = any(node["format"] in formats for formats in NUMBER_FORMATS.values())
            types = ["number"] if number else ["string"]
    if "number" in types and "integer" in types:
        types = [kind for kind in types if kind != "integer"]
    return types


def restrict_to_type(node: Node, kind: str) -> Node:
    others = TYPED_KEYWORDS - KEYWORDS[kind]
    kept = {k: v for k, v in node.items() if k not in others and k not in ANNOTATIONS}
    return {**kept, "type": [kind]}


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_of(value: Any, types: list[str]) -> bool:
    kind = type_of(value)
    if kind == "integer":
        return "integer" in types or "number" in types
    if kind == "number" and "integer" in types:
        return "number" in types or value.is_integer()
    return kind in types


def size(node: Any) -> int:
    if isinstance(node, dict):
        return 1 + sum(size(value) for value in node.values())
    if isinstance(node, list):
        return sum(size(value) for value in node)
    return 0
