"""Schema of a call: a tool's own parameters and its actions' arguments.

A stateful tool has one `oneOf` branch per action, or, flat, one object. The tool's parameters stand
beside `action` and `id`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from haft_protocol.methods import ID_FORM, Style

from .descriptions import joined, quoted_names, sentences
from .dialects import PLAIN
from .normalization import UnsupportedSchema, normalize
from .object_root import flatten
from .passthrough import PassThrough

_ID_PATTERN = f"^{ID_FORM}$"
_NEW_ID = {
    "type": "string",
    "pattern": _ID_PATTERN,
    "description": "A name of your choice for this run, unique among those that have not stopped.",
}
_ID = {"type": "string", "pattern": _ID_PATTERN, "description": "The name given to spawn."}
READING: dict[str, Any] = {
    "wait": {
        "type": "string",
        "enum": ["none", "output", "input", "pattern", "quiet", "stopped"],
        "description": (
            "When to answer: none: now; output: when there is something new; input: when the program"
            " reads its input, or has stopped; pattern: when new output matches `pattern`; quiet:"
            " when nothing came for a while; stopped: when it has ended. By default spawn and apply"
            " wait for input on a terminal and for a moment (250 ms) on a pipe; fetch does not wait."
        ),
    },
    "pattern": {
        "type": "string",
        "description": "A regular expression; by itself it means wait = pattern.",
    },
    "timeout_ms": {
        "type": "integer",
        "minimum": 0,
        "description": "How long to wait at most; then the current state is returned, and nothing is ended. Default: 10,000.",
    },
    "view": {
        "type": "string",
        "enum": ["delta", "answer", "all", "tail", "screen"],
        "description": (
            "What to return: delta (the default): what is new; answer: the same without the echo of what was typed and"
            " the prompt; all; tail: the end; screen: the terminal's."
        ),
    },
}
"""Arguments of spawn, fetch and apply beside `id`."""
_SIZE = {"type": "integer", "minimum": 1}
_PLACE = {"type": "integer", "minimum": 0}
INPUT: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "boolean"},
        {"type": "number"},
        {
            "type": "object",
            "properties": {
                "line": {"type": "string", "description": "Text, written with a line end."},
                "keys": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names such as C-c, Up, Enter, F5.",
                },
                "paste": {"type": "string", "description": "Text, as if pasted."},
                "text": {"type": "string", "description": "Text, unchanged."},
                "eof": {"type": "boolean", "description": "The end of the input."},
                "signal": {"type": "string", "description": "INT, TERM and so on."},
                "resize": {
                    "type": "object",
                    "properties": {"rows": _SIZE, "cols": _SIZE},
                    "required": ["rows", "cols"],
                    "additionalProperties": False,
                    "description": "The terminal's new size.",
                },
                "mouse": {
                    "type": "object",
                    "properties": {
                        "row": _PLACE,
                        "col": _PLACE,
                        "action": {
                            "type": "string",
                            "enum": [
                                "click",
                                "press",
                                "release",
                                "move",
                                "scroll_up",
                                "scroll_down",
                            ],
                        },
                        "button": {"type": "string", "enum": ["left", "middle", "right"]},
                        "mods": {
                            "type": "array",
                            "items": {"type": "string", "enum": ["shift", "ctrl", "meta"]},
                        },
                    },
                    "required": ["row", "col", "action"],
                    "additionalProperties": False,
                    "description": "A mouse action, for a program that reads the mouse.",
                },
                "secret": {"type": "boolean", "description": "Keep it out of logs."},
            },
            "additionalProperties": False,
        },
    ],
    "description": (
        "A string is written as it is, without a line end. An object is one of `line`, `keys`, `paste`,"
        " `text`, `eof`, `signal`, `resize`, `mouse`. While a question waits, the answer to it: a string, true"
        " or false, a number, or JSON text for any other answer."
    ),
}
"""Input of apply."""

AWAIT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "any": {"type": "array", "items": _ID, "description": "One of these is enough."},
        "all": {"type": "array", "items": _ID, "description": "All of these must stop."},
        "timeout_secs": {
            "type": "number",
            "minimum": 0,
            "description": "How long to wait at most; by default without a limit.",
        },
    },
    "additionalProperties": False,
}
"""Parameters of the builtin `await`."""

_RESERVED = ("action", "id")
_OWN = ("type", "properties", "required", "additionalProperties", "$defs", "definitions")
_COMPOSED = ("oneOf", "anyOf", "allOf", "not", "if", "then", "else", "dependentSchemas")
_IN_DEFINITIONS = ("#/$defs/", "#/definitions/")
_COUNTING = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
)
_OF_ALL_NAMES = ("propertyNames", "minProperties", "maxProperties")
_DOES = {
    "spawn": "start a run under a new `id`",
    "fetch": "read the output of the run `id`, or wait for it",
    "apply": "give the run `id` its `input`, then read",
    "abort": "end the run `id`",
}
_ENDS = "Without `action`: run it to its end; the reply has its result."
_REPLY = (
    "Each reply has the run's `state`: running, waiting (it asks something; answer with apply) or"
    " stopped (with `result` or `error`)."
)


def stateful(
    parameters: Mapping[str, Any],
    actions: Iterable[str],
    style: Style,
    *,
    one_shot: bool = False,
) -> dict[str, Any]:
    """Build a stateful tool's schema, with `one_shot` also of a call without an action.

    Raises `UnsupportedSchema` for a parameter with a name of the protocol.
    """
    own, notes = flatten(normalize(parameters))
    notes += sentences(own, _OF_ALL_NAMES)  # not about `action` and `id`
    own = {word: value for word, value in own.items() if word not in _OF_ALL_NAMES}
    for name in _RESERVED:
        if name in own.get("properties", {}):
            raise UnsupportedSchema(
                f"its parameter `{name}` has a name that every call of a stateful tool needs;"
                " give it another one"
            )
    if style == "flat":
        return _flat(PassThrough(PLAIN).root(own), notes, list(actions), one_shot=one_shot)
    named = frozenset(own.get("properties", ()))
    if _moves_badly(parameters):
        plain = PassThrough(PLAIN).root(own)
        return _variants(plain, named, list(actions), joined(*notes), one_shot=one_shot)
    return _variants(parameters, named, list(actions), "", one_shot=one_shot)


def _moves_badly(parameters: Mapping[str, Any]) -> bool:
    """True if the parameters change their meaning with two names added, or elsewhere in a schema."""
    if any(word in parameters for word in _COUNTING[1:]) or "enum" in parameters:
        return True
    return _refers_upwards(parameters) or any(
        _counts(parameters[word]) for word in _COMPOSED if word in parameters
    )


def _counts(form: Any) -> bool:
    if isinstance(form, list):
        return any(_counts(item) for item in form)
    if not isinstance(form, dict):
        return False
    inner = (value for key, value in form.items() if key in _COMPOSED)
    return any(word in form for word in _COUNTING) or any(_counts(item) for item in inner)


def _refers_upwards(form: Any) -> bool:
    waiting = [form]
    while waiting:
        form = waiting.pop()
        if isinstance(form, dict):
            reference = form.get("$ref")
            if isinstance(reference, str) and not reference.startswith(_IN_DEFINITIONS):
                return True
            waiting.extend(form.values())
        elif isinstance(form, list):
            waiting.extend(form)
    return False


def _variants(
    own: Mapping[str, Any], named: Set[str], actions: list[str], note: str, *, one_shot: bool
) -> dict[str, Any]:
    reading = {name: form for name, form in READING.items() if name not in named}
    variants = {
        "spawn": lambda: _spawn(own, reading, note),
        "fetch": lambda: _variant("fetch", {"id": _ID, **READING}, ["id"]),
        "apply": lambda: _variant("apply", {"id": _ID, "input": INPUT, **READING}, ["id", "input"]),
        "abort": lambda: _variant("abort", {"id": _ID}, ["id"]),
    }
    schema: dict[str, Any] = {
        "type": "object",
        "oneOf": [
            *(variants[action]() for action in actions),
            *([_without_action(own, note)] if one_shot else ()),
        ],
    }
    for key in ("$defs", "definitions"):
        if key in own:
            schema[key] = own[key]
    return copy.deepcopy(schema)


def _variant(action: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"action": {"const": action}, **properties},
        "required": ["action", *required],
        "additionalProperties": False,
    }


def _without_action(own: Mapping[str, Any], note: str) -> dict[str, Any]:
    variant = {key: value for key, value in own.items() if key not in ("$defs", "definitions")}
    if own.get("additionalProperties", True) is not False or "patternProperties" in own:
        variant["not"] = {"required": ["action"]}
        if "not" in own:
            variant["allOf"] = [*own.get("allOf", ()), {"not": own["not"]}]
    variant["description"] = joined(_ENDS, own.get("description"), note)
    return {"type": "object", **variant}


def _spawn(own: Mapping[str, Any], reading: Mapping[str, Any], note: str) -> dict[str, Any]:
    variant = _variant(
        "spawn",
        {"id": _NEW_ID, **own.get("properties", {}), **reading},
        ["id", *own.get("required", ())],
    )
    if own.get("additionalProperties", True) is not False:
        variant["additionalProperties"] = own.get("additionalProperties", True)
    variant.update({key: value for key, value in own.items() if key not in _OWN})
    if note:
        variant["description"] = joined(variant.get("description"), note)
    return variant


def _flat(
    own: dict[str, Any], notes: list[str], actions: list[str], *, one_shot: bool
) -> dict[str, Any]:
    action = _actions(own, notes, actions, one_shot=one_shot)
    properties: dict[str, Any] = {
        "action": {"type": "string", "enum": actions, "description": action},
        "id": {**_NEW_ID, "description": "The run's name: for spawn a new one of your choice."},
    }
    starts = "For spawn and without `action`" if one_shot else "For spawn"
    for name, schema in own["properties"].items() if "properties" in own else ():
        needed = f"{starts}, required." if name in own.get("required", ()) else f"{starts}."
        properties[name] = _described(needed, schema)
    readers = [action for action in ("spawn", "fetch", "apply") if action in actions]
    for name, schema in READING.items():
        # At spawn, the tool's own name shadows a protocol name.
        own_form = properties.get(name)
        readers_of_it = readers if own_form is None else readers[1:]
        if readers_of_it:
            belongs = f"For {_listed(readers_of_it)}."
            properties[name] = _either_form(own_form, _described(belongs, schema))
    if "apply" in actions:
        applied = _described("For apply, required.", INPUT)
        properties["input"] = _either_form(properties.get("input"), applied)
    flat: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [] if one_shot else ["action", "id"],
    }
    for word in ("additionalProperties", "patternProperties"):
        if word in own:
            flat[word] = own[word]
    return copy.deepcopy(flat)


def _actions(own: dict[str, Any], notes: list[str], actions: list[str], *, one_shot: bool) -> str:
    parts = []
    for action in actions:
        text = f"{action}: {_DOES[action]}"
        if action == "spawn" and own.get("required"):
            text += f", with {quoted_names(own['required'])}"
        parts.append(text)
    starts = "For spawn and without `action`" if one_shot else "For spawn"
    spawn = f"{starts}: {joined(*notes)}" if notes else ""
    return joined(_ENDS if one_shot else None, f"{'; '.join(parts)}.", spawn, _REPLY)


def _listed(actions: Sequence[str]) -> str:
    *first, last = actions
    return f"{', '.join(first)} and {last}" if first else last


def _described(belongs: str, schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise AssertionError(f"a translated schema is a {type(schema).__name__}, not an object")
    return {**schema, "description": joined(belongs, schema.get("description"))}


def _either_form(form: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Combine a name's meanings at spawn and at a reading action."""
    return other if form is None else {"anyOf": [form, other]}
