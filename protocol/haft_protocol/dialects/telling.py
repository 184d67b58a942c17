"""What a schema says and a provider does not take, as short sentences for a model.

Rules: one sentence a word, none longer than it is worth; what has no words of its own is given as
the JSON Schema that it is. Values are shown as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .merging import Node

__all__ = [
    "again",
    "among",
    "compact",
    "joined",
    "names",
    "own_name",
    "plain",
    "tell",
    "with_notes",
]

_LONGEST_VALUE = 200
_LONGEST_SCHEMA = 400
_MOST_SHOWN = 20
_ENDS = (".", "!", "?", ":", "…", ")", "`")
_PAIRS = {
    "minLength": ("maxLength", "characters"),
    "minItems": ("maxItems", "items"),
    "minProperties": ("maxProperties", "names"),
}


def compact(value: object, longest: int = _LONGEST_VALUE) -> str:
    """A value as JSON on one line, cut when it is long."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = "…"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def plain(node: Any) -> Any:
    """A schema of the one form as it is usually written, to be shown: without its texts."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    shown: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("description", "title", "examples", "default") or key.startswith("\0"):
            continue
        if key == "type" and isinstance(value, list):
            shown[key] = value[0] if len(value) == 1 else value
        elif key == "enum" and isinstance(value, list) and len(value) == 1:
            shown["const"] = value[0]
        elif key in ("enum", "required", "dependentRequired"):
            shown[key] = value
        elif key in ("properties", "patternProperties", "dependentSchemas") and isinstance(
            value, dict
        ):
            shown[key] = {name: plain(item) for name, item in value.items()}
        else:
            shown[key] = False if value == {"not": {}} else plain(value)
    return shown


def names(found: Iterable[str], last: str = "and") -> str:
    """Names in backticks, as a list in a sentence."""
    quoted = [f"`{name}`" for name in found]
    if len(quoted) > _MOST_SHOWN:
        quoted = [*quoted[:_MOST_SHOWN], f"{len(quoted) - _MOST_SHOWN} more"]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def among(values: list[Any]) -> str:
    """The values of an `enum` that cannot stay one."""
    if len(values) == 1:
        return f"It must be {compact(values[0])}."
    shown = ", ".join(compact(value, 60) for value in values[:_MOST_SHOWN])
    more = f", … ({len(values):,} in all)" if len(values) > _MOST_SHOWN else ""
    return f"One of {shown}{more}."


def tell(node: Node, words: Iterable[str]) -> list[str]:
    """Sentences for those words of the node that are left out; none for what checks nothing and
    helps nobody."""
    left = [word for word in words if word in node]
    return [sentence for word in left if (sentence := _sentence(word, node, left))]


def _sentence(word: str, node: Node, left: list[str]) -> str:
    value = node[word]
    if word in _PAIRS:
        other, what = _PAIRS[word]
        if other in left and other in node:
            return f"{_count(value, node[other])} {what}."
        return "" if not value else "Not empty." if value == 1 else f"At least {value:,} {what}."
    for near, (far, what) in _PAIRS.items():
        if word == far:
            return "" if near in left and near in node else f"At most {value:,} {what}."
    if word in ("minimum", "maximum"):
        if "minimum" in left and "maximum" in left and {"minimum", "maximum"} <= node.keys():
            return f"From {node['minimum']} to {value}." if word == "maximum" else ""
        return f"At {'least' if word == 'minimum' else 'most'} {value}."
    match word:
        case "exclusiveMinimum":
            return f"More than {value}."
        case "exclusiveMaximum":
            return f"Less than {value}."
        case "multipleOf":
            return f"A multiple of {value}."
        case "pattern":
            return f"It must match the regular expression {compact(value)}."
        case "format":
            return f"Format: {value[:60]}."
        case "uniqueItems":
            return "No item twice."
        case "default":
            return "" if value is None else f"Default: {compact(value)}."
        case "examples":
            return f"For example {', '.join(compact(one, 80) for one in value[:3])}."
        case "title" | "description" | "type":
            return ""
        case "prefixItems":
            forms = "; ".join(f"{n}. {_form(item)}" for n, item in enumerate(value[:10], 1))
            return f"In this order: {forms}."
        case "additionalProperties" | "unevaluatedProperties":
            return _further(value)
        case "patternProperties":
            shown = [f"{compact(name, 80)}: {_form(item)}" for name, item in value.items()]
            return f"Names that match a regular expression: {'; '.join(shown[:5])}."
        case "propertyNames":
            return "" if not plain(value) else f"Each name: {_form(value)}."
        case "dependentRequired":
            return " ".join(
                f"With {names([name])}, {names(needs)} must be given, too."
                for name, needs in list(value.items())[:10]
                if isinstance(needs, list) and needs
            )
        case "then" | "else" | "minContains" | "maxContains":
            return ""  # told with what they belong to
        case "if":
            return _schema({key: node[key] for key in ("if", "then", "else") if key in node})
        case "contains":
            counts: Node = {key: node[key] for key in ("minContains", "maxContains") if key in node}
            return _schema({"contains": value, **dict(counts)})
        case "allOf":
            return " ".join(_schema(part) for part in value[:5])
        case _:
            return _schema({word: value})


def _count(low: int, high: int) -> str:
    return f"Exactly {low:,}" if low == high else f"{low:,} to {high:,}"


def _schema(node: Node) -> str:
    return f"It must also fit the JSON Schema {compact(plain(node), _LONGEST_SCHEMA)}."


def _form(node: Node) -> str:
    """A node in a word if there is one, else as JSON."""
    text = node.get("description")
    types = node.get("type")
    if types and set(node) <= {"type", "description"}:
        word = " or ".join(types)
        return f"{word} ({text})" if text and len(text) <= 60 else word
    return compact(plain(node), 120) if plain(node) else "anything"


def _further(value: Node) -> str:
    if value == {"not": {}}:
        return ""
    return f"Any names, each value: {_form(value)}." if plain(value) else ""


def joined(*texts: str | None) -> str:
    """Texts after one another, each once, as sentences."""
    found = ""
    for text in texts:
        if not text or text in found:
            continue
        if found and not found.endswith(_ENDS):
            found += "."
        found = f"{found} {text}".strip()
    return found


def with_notes(text: str, notes: Iterable[str], longest: int) -> str:
    """A description and what has to be told beside it, no longer than `longest`; the notes stay."""
    more = joined(*notes)
    room = longest if not more else max(longest - len(more) - 2, longest // 2)
    found = joined(_cut(text, room), more)
    return _cut(found, longest)


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = text[: longest - 1]
    for end in ("\n\n", ". ", "\n", " "):
        at = head.rfind(end)
        if at > longest * 2 // 3:
            head = head[: at + len(end.rstrip())]
            break
    return f"{head.rstrip()}…"


def again(name: str) -> str:
    """That a node is one from further up."""
    return f"The same form as {compact(name, 80)} above, again."


def own_name(name: str) -> str:
    """How the tool calls a property that has another name here."""
    return f"(The tool calls it {compact(name, 200)}.)"
