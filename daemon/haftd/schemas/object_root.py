"""Parameters as one object without a choice or condition at the root.

A property is required if every branch requires it; other constraints become sentences.
"""

from __future__ import annotations

from typing import Any

from .descriptions import choice_sentence, compact, phrase, quoted_names, sentences
from .intersection import ANNOTATIONS, Node, is_never, merge
from .normalization import UnsupportedSchema

_CHOICES = ("anyOf", "oneOf")
_REMOVED = (
    *_CHOICES,
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "dependentRequired",
    "dependentSchemas",
)
_MAX_DEPTH = 12
_MAX_FORM_LENGTH = 300
_MAX_FORMS = 12


def flatten(node: Node) -> tuple[Node, list[str]]:
    """Return the object, and sentences on constraints removed from its root; raises `UnsupportedSchema`."""
    if is_never(node):
        raise UnsupportedSchema("its parameters accept no value")
    if "type" in node and "object" not in node["type"]:
        raise UnsupportedSchema(f"its parameters are {' or '.join(node['type'])}, not an object")
    root, notes = _flat(node, 0)
    return {**root, "type": ["object"]}, notes


def _flat(node: Node, depth: int) -> tuple[Node, list[str]]:
    root = {key: value for key, value in node.items() if key not in _REMOVED}
    notes: list[str] = []
    if depth > _MAX_DEPTH:
        return root, sentences(node, [key for key in _REMOVED if key in node])
    for choice in _CHOICES:
        if choice in node:
            root, more = _choice(root, choice, node[choice], depth)
            notes.extend(more)
    for part in node.get("allOf", ()):  # not joinable: two choices, two conditions
        inner, more = _flat(part, depth + 1)
        root = _with_branch_properties(root, [inner], needed=True)
        notes.extend(more)
    further = [node[key] for key in ("then", "else") if isinstance(node.get(key), dict)]
    further += list(node.get("dependentSchemas", {}).values())
    root = _with_branch_properties(
        root, [_flat(part, depth + 1)[0] for part in further if not is_never(part)]
    )
    if "enum" in node:
        notes.append(choice_sentence(node["enum"]))
    notes.extend(sentences(node, ["not", "if", "dependentRequired", "dependentSchemas"]))
    return root, notes


def _choice(root: Node, choice: str, branches: list[Node], depth: int) -> tuple[Node, list[str]]:
    live = []
    notes: list[str] = []
    for branch in branches:
        if not is_never(branch) and "object" in branch.get("type", ["object"]):
            inner, more = _flat(branch, depth + 1)
            live.append(inner)
            notes.extend(note for note in more if note not in notes)
    if not live:
        raise UnsupportedSchema("no branch of its parameters is an object")
    how = "exactly" if choice == "oneOf" else "at least"
    if len(live) > 1 and (sentence := _describe_branches(live, how)):
        notes.insert(0, sentence)
    return _with_branch_properties(root, live, needed=True), notes


def _with_branch_properties(root: Node, branches: list[Node], *, needed: bool = False) -> Node:
    if not branches:
        return root
    further = {} if "patternProperties" in root else root.get("additionalProperties", {})
    properties = dict(root.get("properties", {}))
    named = list(dict.fromkeys(n for branch in branches for n in branch.get("properties", ())))
    for name in named:
        forms = [b["properties"][name] for b in branches if name in b.get("properties", {})]
        forms = [form for form in forms if not is_never(form)]
        if name in properties:
            if needed and len(forms) == len(branches):
                properties[name] = merge(properties[name], _any(forms))
        elif forms and not is_never(further):
            properties[name] = merge(_any(forms), _checks(further))
    root = {**root, "properties": properties} if properties else root
    if needed:
        shared = [
            name
            for name in branches[0].get("required", ())
            if all(name in branch.get("required", ()) for branch in branches)
        ]
        if shared:
            root["required"] = list(dict.fromkeys([*root.get("required", ()), *shared]))
        closed = [is_never(branch.get("additionalProperties", {})) for branch in branches]
        if "additionalProperties" not in root and all(closed):
            root["additionalProperties"] = branches[0]["additionalProperties"]
    return root


def _checks(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}


def _any(forms: list[Node]) -> Node:
    distinct = [form for at, form in enumerate(forms) if form not in forms[:at]]
    if len(distinct) == 1:
        return distinct[0]
    bare = [
        {k: v for k, v in form.items() if k not in ("enum", "description")} for form in distinct
    ]
    texts = list(dict.fromkeys(form["description"] for form in distinct if "description" in form))
    description = {"description": " / ".join(texts)} if texts else {}
    if all("enum" in form for form in distinct) and all(form_ == bare[0] for form_ in bare):
        values: dict[str, Any] = {}
        for form in distinct:
            for value in form["enum"]:
                values.setdefault(compact(value), value)
        return {**bare[0], "enum": list(values.values()), **description}
    if all(form_ == bare[0] for form_ in bare) and not any("enum" in form for form in distinct):
        return {**bare[0], **description}
    return {"anyOf": distinct}


def _describe_branches(branches: list[Node], how: str) -> str:
    sets = [branch.get("required", []) for branch in branches]
    if all(set(branch) <= {"required", "type"} | ANNOTATIONS for branch in branches):
        if not any(sets):
            return ""
        if all(len(needs) == 1 for needs in sets):
            required = [needs[0] for needs in sets]
            return f"Give {how} one of {quoted_names(dict.fromkeys(required), 'or')}."
        forms = [quoted_names(needs) or "nothing more" for needs in sets]
    else:
        forms = [_form(branch) for branch in branches]
    shown = "; or ".join(form[:_MAX_FORM_LENGTH] for form in forms[:_MAX_FORMS])
    return f"Give {how} one of these: {shown}{'; …' if len(forms) > _MAX_FORMS else ''}."


def _form(branch: Node) -> str:
    properties = branch.get("properties", {})
    needs = branch.get("required", [])
    fixed = {n: p["enum"][0] for n, p in properties.items() if len(p.get("enum", ())) == 1}
    parts = [f"`{name}` = {compact(value, 60)}" for name, value in fixed.items()]
    required = [name for name in needs if name not in fixed]
    more = [name for name in properties if name not in needs and name not in fixed]
    if required:
        parts.append(quoted_names(required))
    if more:
        parts.append(f"perhaps {quoted_names(more)}")
    return ", ".join(parts) if parts else phrase(branch, 120)
