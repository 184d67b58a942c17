"""Flatten parameters to one object without a choice or a condition at its root.

The properties of all branches stand side by side; a property is required if every branch requires it. The
constraints of each branch become sentences, and are checked at the call.
"""

from __future__ import annotations

from typing import Any

from .descriptions import among, compact, names, phrase, sentences
from .intersection import ANNOTATIONS, Node, is_never, merge
from .normalization import UnsupportedSchema

_CHOICES = ("anyOf", "oneOf")
_GONE = (
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
    """The object, and sentences about what its root no longer says; raises `UnsupportedSchema`."""
    if is_never(node):
        raise UnsupportedSchema("its parameters take nothing at all")
    if "type" in node and "object" not in node["type"]:
        raise UnsupportedSchema(f"its parameters are {' or '.join(node['type'])}, not an object")
    found, notes = _flat(node, 0)
    return {**found, "type": ["object"]}, notes


def _flat(node: Node, depth: int) -> tuple[Node, list[str]]:
    found = {key: value for key, value in node.items() if key not in _GONE}
    notes: list[str] = []
    if depth > _MAX_DEPTH:
        return found, sentences(node, [key for key in _GONE if key in node])
    for choice in _CHOICES:
        if choice in node:
            found, more = _choice(found, choice, node[choice], depth)
            notes.extend(more)
    for part in node.get("allOf", ()):  # what could not be joined: two choices, two conditions
        inner, more = _flat(part, depth + 1)
        found = _beside(found, [inner], needed=True)
        notes.extend(more)
    further = [node[key] for key in ("then", "else") if isinstance(node.get(key), dict)]
    further += list(node.get("dependentSchemas", {}).values())
    found = _beside(found, [_flat(part, depth + 1)[0] for part in further if not is_never(part)])
    if "enum" in node:
        notes.append(among(node["enum"]))
    notes.extend(sentences(node, ["not", "if", "dependentRequired", "dependentSchemas"]))
    return found, notes


def _choice(found: Node, choice: str, branches: list[Node], depth: int) -> tuple[Node, list[str]]:
    """Join the branches of a choice to what stands beside it."""
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
    if len(live) > 1 and (sentence := _told(live, how)):
        notes.insert(0, sentence)
    return _beside(found, live, needed=True), notes


def _beside(found: Node, branches: list[Node], *, needed: bool = False) -> Node:
    """The object with the names of the branches, too; `needed`: one of them has to fit."""
    if not branches:
        return found
    further = {} if "patternProperties" in found else found.get("additionalProperties", {})
    properties = dict(found.get("properties", {}))
    named = list(dict.fromkeys(n for branch in branches for n in branch.get("properties", ())))
    for name in named:
        forms = [b["properties"][name] for b in branches if name in b.get("properties", {})]
        forms = [form for form in forms if not is_never(form)]
        if name in properties:
            if needed and len(forms) == len(branches):
                properties[name] = merge(properties[name], _any(forms))
        elif forms and not is_never(further):
            properties[name] = merge(_any(forms), _checks(further))
    found = {**found, "properties": properties} if properties else found
    if needed:
        shared = [
            name
            for name in branches[0].get("required", ())
            if all(name in branch.get("required", ()) for branch in branches)
        ]
        if shared:
            found["required"] = list(dict.fromkeys([*found.get("required", ()), *shared]))
        closed = [is_never(branch.get("additionalProperties", {})) for branch in branches]
        if "additionalProperties" not in found and all(closed):
            found["additionalProperties"] = branches[0]["additionalProperties"]
    return found


def _checks(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}


def _any(forms: list[Node]) -> Node:
    """One form that takes what any of these takes."""
    distinct = [form for at, form in enumerate(forms) if form not in forms[:at]]
    if len(distinct) == 1:
        return distinct[0]
    bare = [
        {k: v for k, v in form.items() if k not in ("enum", "description")} for form in distinct
    ]
    texts = list(dict.fromkeys(form["description"] for form in distinct if "description" in form))
    said = {"description": " / ".join(texts)} if texts else {}
    if all("enum" in form for form in distinct) and all(one == bare[0] for one in bare):
        values: dict[str, Any] = {}
        for form in distinct:
            for value in form["enum"]:
                values.setdefault(compact(value), value)
        return {**bare[0], "enum": list(values.values()), **said}
    if all(one == bare[0] for one in bare) and not any("enum" in form for form in distinct):
        return {**bare[0], **said}
    return {"anyOf": distinct}


def _told(branches: list[Node], how: str) -> str:
    """What the branches ask for, as a sentence; empty when they ask for nothing."""
    sets = [branch.get("required", []) for branch in branches]
    if all(set(branch) <= {"required", "type"} | ANNOTATIONS for branch in branches):
        if not any(sets):
            return ""
        if all(len(needs) == 1 for needs in sets):
            found = [needs[0] for needs in sets]
            return f"Give {how} one of {names(dict.fromkeys(found), 'or')}."
        forms = [names(needs) or "nothing more" for needs in sets]
    else:
        forms = [_form(branch) for branch in branches]
    shown = "; or ".join(form[:_MAX_FORM_LENGTH] for form in forms[:_MAX_FORMS])
    return f"Give {how} one of these: {shown}{'; …' if len(forms) > _MAX_FORMS else ''}."


def _form(branch: Node) -> str:
    properties = branch.get("properties", {})
    needs = branch.get("required", [])
    fixed = {n: p["enum"][0] for n, p in properties.items() if len(p.get("enum", ())) == 1}
    parts = [f"`{name}` = {compact(value, 60)}" for name, value in fixed.items()]
    wanted = [name for name in needs if name not in fixed]
    more = [name for name in properties if name not in needs and name not in fixed]
    if wanted:
        parts.append(names(wanted))
    if more:
        parts.append(f"perhaps {names(more)}")
    return ", ".join(parts) if parts else phrase(branch, 120)
