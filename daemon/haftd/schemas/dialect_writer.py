"""Writer of a normalized schema in a dialect's keywords.

Dropped keywords are described at their node, a choice that must stand alone takes its siblings into
each branch; `lossless` turns false once a value may match the output but not the original. A node
that a strict dialect cannot hold (open objects, excessive depth, recursion) becomes a JSON string,
which `coercion` decodes.
"""

from __future__ import annotations

import re
from typing import Any

from haftd.lazy_pattern import lazy_pattern

from .descriptions import (
    choice_sentence,
    compact,
    details,
    joined,
    original_name_sentence,
    recursion_sentence,
    sentences,
    with_notes,
)
from .dialects import Dialect
from .intersection import ANNOTATIONS, NEVER, Node, is_never, merge
from .names import expose_properties
from .normalization import (
    CUT,
    KEYWORDS,
    NUMBER_FORMATS,
    TYPED_KEYWORDS,
    is_of,
    restrict_to_type,
    size,
    type_of,
    types_of,
)

_CHOICES = ("anyOf", "oneOf")
_NULL: Node = {"type": ["null"]}
_ANY_OF: list[Node] = [
    {"type": ["string"]},
    {"type": ["number"]},
    {"type": ["boolean"]},
    {"type": ["array"], "items": {"type": ["string"]}},
    _NULL,
]
_MAP: Node = {"type": ["object"], "properties": {}}
_MAX_COPIES = 20_000
_HARD_PATTERN = lazy_pattern(r"\(\?[^:]|\\[1-9pPkgZ]")


class DialectWriter:
    """Writes one schema; sets `lossless`."""

    def __init__(self, dialect: Dialect, enum_values: int | None = None) -> None:
        self._dialect = dialect
        self._most_values = enum_values
        self._copies = _MAX_COPIES
        self.lossless = True

    def root(self, node: Node) -> Node:
        written = self._object(node, 1)
        return dict(NEVER) if written is None else written

    def _described(self, written: Node, node: Node, notes: list[str]) -> Node:
        text = with_notes(node.get("description", ""), notes, self._dialect.text)
        if text:
            written["description"] = text
        return written

    def _node(self, node: Node, depth: int) -> Node | None:
        if is_never(node):
            return None
        for choice in _CHOICES:
            if choice in node:
                branches = self._branches(node, choice)
                if branches is not None:
                    return self._choice(branches, node, depth, [])
                node = {key: value for key, value in node.items() if key != choice} | {
                    "allOf": [*node.get("allOf", ()), {choice: node[choice]}]
                }
        types = types_of(node)
        if "enum" in node:
            return self._enum(node)
        if not types:
            return self._untyped(node, depth)
        if len(types) > 1:
            return self._choice([restrict_to_type(node, kind) for kind in types], node, depth, [])
        return self._single(node, types[0], depth)

    def _branches(self, node: Node, choice: str) -> list[Node] | None:
        """Return the branches, each joined with the siblings; None if too large."""
        beside = {k: v for k, v in node.items() if k != choice and k not in ANNOTATIONS}
        self._copies -= len(node[choice]) * (1 + size(beside))
        if self._copies < 0:
            return None
        if choice == "oneOf":
            self.lossless = False  # more than one branch may match
        return [merge(branch, beside) for branch in node[choice]]

    def _choice(
        self, branches: list[Node], node: Node, depth: int, notes: list[str]
    ) -> Node | None:
        parts: list[Node] = []
        null = False
        for branch in branches:
            if branch.get("type") == ["null"] or branch.get("enum") == [None]:
                null = null or not is_never(branch)
            elif (written := self._node(branch, depth)) is not None:
                inner = [written]
                if "anyOf" in written:
                    first, *rest = written["anyOf"]
                    inner = [self._with_text(first, written.get("description", "")), *rest]
                for part in inner:
                    if part == {"type": "null"}:
                        null = True
                    elif part not in parts:
                        parts.append(part)
        if not parts:
            return self._null(node) if null else None
        notes = [*notes, *sentences(node, ("default", "examples"))]
        text = joined(node.get("description"), *notes)
        written = self._with_text(parts[0] if len(parts) == 1 else {"anyOf": parts}, text)
        return self._or_null(written) if null else written

    def _with_text(self, written: Node, text: str) -> Node:
        """Prefix the description; a choice without siblings has it in its first branch."""
        if not text:
            return written
        if "anyOf" in written and self._dialect.null == "nullable":
            first, *rest = written["anyOf"]
            return {**written, "anyOf": [self._with_text(first, text), *rest]}
        own = joined(text, written.get("description"))
        return self._described(dict(written), {"description": own}, [])

    def _or_null(self, written: Node) -> Node:
        if self._dialect.null == "nullable":
            if "anyOf" in written:
                first, *rest = written["anyOf"]
                return {**written, "anyOf": [self._or_null(first), *rest]}
            return {**written, "nullable": True}
        if "anyOf" in written:
            if {"type": "null"} in written["anyOf"]:
                return written
            return {**written, "anyOf": [*written["anyOf"], {"type": "null"}]}
        kind = written.get("type")
        if kind == "null" or isinstance(kind, list):
            return written
        if kind in ("object", "array") or "enum" in written:
            outer: Node = {"anyOf": [written, {"type": "null"}]}
            if "description" in written:
                inner = {key: value for key, value in written.items() if key != "description"}
                outer = {"anyOf": [inner, {"type": "null"}], "description": written["description"]}
            return outer
        return {**written, "type": [kind, "null"]}

    def _null(self, node: Node) -> Node:
        if self._dialect.null == "nullable":
            self.lossless = False
            return self._described({"type": "string", "nullable": True}, node, ["Always null."])
        return self._described({"type": "null"}, node, [])

    def _enum(self, node: Node) -> Node | None:
        """Write an `enum` per type; compound values as JSON strings."""
        values = [v for v in node["enum"] if "type" not in node or is_of(v, node["type"])]
        distinct: dict[str, dict[Any, None]] = {}
        for value in values:
            kind = type_of(value)
            if kind in ("object", "array"):
                kind, value = "string", compact(value, 4_000)
            distinct.setdefault(kind, {})[value] = None
        groups = {kind: list(members) for kind, members in distinct.items()}
        if groups.keys() == {"number", "integer"}:
            groups = {"number": [*groups["number"], *groups["integer"]]}
        null = bool(groups.pop("null", None))
        flags = groups.keys() == {"boolean"} and len(groups["boolean"]) == 2
        if self._dialect.enum == "text" and groups.keys() - {"string"} and not flags:
            flat = [v if isinstance(v, str) else compact(v, 4_000) for v in values if v is not None]
            groups = {"string": list(dict.fromkeys(flat))}
        parts = []
        for kind, members in groups.items():
            part = self._values(kind, members)
            if part not in parts:
                parts.append(part)
        unwritten = [
            keyword
            for keyword in node
            if keyword in TYPED_KEYWORDS or keyword in ("allOf", "not", "if")
        ]
        notes = sentences(
            node,
            [keyword for keyword in node if keyword in unwritten or keyword in ANNOTATIONS],
        )
        self.lossless = self.lossless and not unwritten
        if not parts:
            return self._null(node) if null else None
        if len(parts) == 1:
            own = parts[0].pop("description", "")
            written = self._described(
                parts[0], {"description": joined(node.get("description"), own)}, notes
            )
        elif self._dialect.null == "nullable":
            raise AssertionError(f"{len(parts)} types for a dialect that has one per node")
        else:
            written = self._described({"anyOf": parts}, node, notes)
        return self._or_null(written) if null else written

    def _values(self, kind: str, values: list[Any]) -> Node:
        written: Node = {"type": kind}
        kept = [v for v in values if v != "" or self._dialect.empty_choice]
        if len(kept) < len(values):
            self.lossless = self.lossless and bool(kept)
            written["description"] = "It may be omitted, or an empty string." if not kept else ""
        if kind == "boolean" and len(kept) == 2:
            return {"type": kind}
        most, long = self._most_values, self._dialect.long_enum
        text = sum(len(value) for value in kept if isinstance(value, str))
        if (most is not None and len(kept) > most) or (
            long is not None and len(kept) > long[0] and text > long[1]
        ):
            self.lossless = False
            written["description"] = choice_sentence(kept)
        elif kept:
            written["enum"] = kept
        if not written.get("description", "x"):
            del written["description"]
        return written

    def _untyped(self, node: Node, depth: int) -> Node:
        forms = list(_ANY_OF)
        if not self._dialect.strict:
            forms.insert(4, _MAP)
        if CUT in node:
            self.lossless = False
        unwritten = [keyword for keyword in node if keyword not in ANNOTATIONS and keyword != CUT]
        self.lossless = self.lossless and not unwritten
        notes = sentences(node, unwritten)
        if CUT in node:
            notes.insert(0, recursion_sentence(node[CUT]))
        kept = self.lossless
        written = self._choice(forms, node, depth, notes)
        self.lossless = kept
        if written is None:
            raise AssertionError("a choice of every type was written as nothing")
        return written

    def _single(self, node: Node, kind: str, depth: int) -> Node | None:
        if kind == "null":
            return self._null(node)
        if kind in ("object", "array"):
            if depth >= self._dialect.depth or (self._dialect.strict and CUT in node):
                return self._text(node, kind)
            if kind == "object":
                return self._object(node, depth + 1)
            return self._array(node, depth + 1)
        written: Node = {"type": kind}
        unwritten = []
        for keyword, value in node.items():
            if keyword in ("type", "description"):
                continue
            if (
                keyword in self._dialect.keeps
                and keyword in KEYWORDS[kind]
                and self._takes(kind, keyword, value)
            ):
                written[keyword] = value
            else:
                unwritten.append(keyword)
        return self._finished(written, node, unwritten)

    def _takes(self, kind: str, keyword: str, value: Any) -> bool:
        if keyword == "format":
            formats = self._dialect.formats
            number = NUMBER_FORMATS.get(kind)
            if formats is not None and value not in formats:
                return False
            if number is None:
                return value not in ("float", "double", "int32", "int64")
            return value in number
        if keyword == "pattern" and self._dialect.plain_patterns:
            if _HARD_PATTERN.search(value):
                return False
            try:
                re.compile(value)
            except (re.error, RecursionError, OverflowError):
                return False
        return True

    def _finished(self, written: Node, node: Node, unwritten: list[str], *notes: str) -> Node:
        if CUT in unwritten:
            unwritten = [keyword for keyword in unwritten if keyword != CUT]
            self.lossless = False
            notes = (recursion_sentence(node[CUT]), *notes)
        if any(keyword not in ANNOTATIONS for keyword in unwritten):
            self.lossless = False
        return self._described(written, node, [*notes, *sentences(node, unwritten)])

    def _text(self, node: Node, kind: str) -> Node:
        noun = "an object" if kind == "object" else "an array"
        rest = "" if CUT in node else details(node, 1_000)
        notes = [f"Written as JSON text of {noun}{f', {rest}' if rest else ''}."]
        if CUT in node:
            notes.append(recursion_sentence(node[CUT]))
        self.lossless = False
        return self._described(
            {"type": "string"}, node, [*notes, *sentences(node, ("default", "examples"))]
        )

    def _object(self, node: Node, depth: int) -> Node | None:
        dialect = self._dialect
        further = node.get("additionalProperties", {})
        properties = dict(node.get("properties", {}))
        required = node.get("required", [])
        for name in required:
            if name not in properties:
                if is_never(further) and "patternProperties" not in node:
                    return None
                properties[name] = {} if "patternProperties" in node else further
        open_ = not is_never(further) or bool(node.get("patternProperties"))
        if dialect.strict and open_ and not properties and depth > 1:
            return self._text(node, "object")
        renamed = expose_properties(properties, dialect)
        written: Node = {"type": "object", "properties": {}}
        needed = []
        for name, inner in properties.items():
            form = self._node(inner, depth)
            if form is None:
                if name in required:
                    return None
                self.lossless = self.lossless and dialect.strict
                continue
            if renamed[name] != name:
                form = self._with_text(form, original_name_sentence(name))
            if dialect.strict and name not in required:
                form = self._or_null(form)
            written["properties"][renamed[name]] = form
            if dialect.strict or name in required:
                needed.append(renamed[name])
        if needed or dialect.strict:
            written["required"] = needed
        unwritten = [w for w in node if w not in ("type", "description", "properties", "required")]
        if dialect.strict:
            # Closed objects need no note.
            written["additionalProperties"] = False
            unwritten = [
                w for w in unwritten if w not in ("additionalProperties", "patternProperties")
            ]
        elif is_never(further):
            unwritten.remove("additionalProperties")  # implied by the closed object
        for keyword in ("minProperties", "maxProperties"):
            if keyword in unwritten and keyword in dialect.keeps:
                written[keyword] = node[keyword]
                unwritten.remove(keyword)
        return self._finished(written, node, unwritten)

    def _array(self, node: Node, depth: int) -> Node:
        first = node.get("prefixItems", [])
        rest = node.get("items", {})
        notes = []
        items: Node = rest
        if first:
            forms = [{k: v for k, v in item.items() if k not in ANNOTATIONS} for item in first]
            forms = [form for at, form in enumerate(forms) if form not in forms[:at]]
            if "items" in node and not is_never(rest):
                forms.append(rest)
            items = {"anyOf": forms} if len(forms) > 1 else forms[0]
        item_form = self._node(items, depth)
        written: Node = {"type": "array"}
        counts: Node = {
            keyword: node[keyword] for keyword in ("minItems", "maxItems") if keyword in node
        }
        if item_form is None or is_never(rest):
            counts["maxItems"] = min(len(first), counts.get("maxItems", len(first)))
            if not first:
                notes.append("It must be an empty array.")
            self.lossless = self.lossless and not first
        if item_form is None:
            item_form = self._node({"type": ["string"]}, depth)
        written["items"] = item_form
        unwritten = [
            w for w in node if w not in ("type", "description", "items", "minItems", "maxItems")
        ]
        for keyword, count in counts.items():
            if keyword in self._dialect.keeps:
                written[keyword] = count
            else:
                self.lossless = False
        notes.extend(
            sentences(counts, [keyword for keyword in counts if keyword not in self._dialect.keeps])
        )
        return self._finished(written, node, unwritten, *notes)
