"""Constraints of a schema as sentences for a model, for keywords that a dialect lacks.

Each keyword has one sentence, a nested schema a phrase, values are JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from haft_protocol.ellipsis import shorten

from .intersection import ANNOTATIONS, Node, is_never
from .normalization import CUT, types_of

_MAX_VALUE_LENGTH = 200
_MAX_PHRASE_LENGTH = 400
_MAX_PART_LENGTH = 120
_MAX_PHRASE_DEPTH = 5
_MAX_VALUES = 20
_MAX_PARTS = 10
_NO_COMMA_BEFORE = ("with ", "perhaps ", "of ", "either ")
"""Parts of a phrase that follow the type without a comma."""
_NO_STOP_AFTER = (".", "!", "?", ":", "…", ")", "`")
"""Ends of a text after which `joined` adds no full stop."""
_PAIRS = {
    "minLength": ("maxLength", "characters"),
    "minItems": ("maxItems", "items"),
    "minProperties": ("maxProperties", "names"),
}


def compact(value: object, longest: int = _MAX_VALUE_LENGTH) -> str:
    """Format a value as one line of JSON, cut at `longest`."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = "…"
    return shorten(text, longest)


def quoted_names(items: Iterable[str], last: str = "and") -> str:
    quoted = [f"`{name}`" for name in items]
    if len(quoted) > _MAX_VALUES:
        quoted = [*quoted[:_MAX_VALUES], f"{len(quoted) - _MAX_VALUES} more"]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def choice_sentence(values: list[Any]) -> str:
    """List the values of an `enum` that the dialect cannot hold."""
    if len(values) == 1:
        return f"It must be {compact(values[0])}."
    shown = ", ".join(compact(value, 60) for value in values[:_MAX_VALUES])
    more = f", … ({len(values):,} in all)" if len(values) > _MAX_VALUES else ""
    return f"One of {shown}{more}."


def sentences(node: Node, keywords: Iterable[str]) -> list[str]:
    """Describe these keywords of a node. Annotations without a constraint (`title`, `description`)
    have no sentence."""
    omitted = [keyword for keyword in keywords if keyword in node]
    return [sentence for keyword in omitted if (sentence := _sentence(keyword, node, omitted))]


def _sentence(keyword: str, node: Node, omitted: list[str]) -> str:
    value = node[keyword]
    if keyword in _PAIRS:
        other, noun = _PAIRS[keyword]
        if other in omitted and other in node:
            return f"{_count(value, node[other])} {noun}."
        return "" if not value else "Not empty." if value == 1 else f"At least {value:,} {noun}."
    for low, (high, noun) in _PAIRS.items():
        if keyword == high:
            return "" if low in omitted and low in node else f"At most {value:,} {noun}."
    if keyword in ("minimum", "maximum"):
        if "minimum" in omitted and "maximum" in omitted and {"minimum", "maximum"} <= node.keys():
            return f"From {node['minimum']} to {value}." if keyword == "maximum" else ""
        return f"At {'least' if keyword == 'minimum' else 'most'} {value}."
    match keyword:
        case "exclusiveMinimum":
            return f"More than {value}."
        case "exclusiveMaximum":
            return f"Less than {value}."
        case "multipleOf":
            return f"A multiple of {value}."
        case "pattern":
            return f"It must match the regular expression {compact(value)}."
        case "format":
            return f"Format: {shorten(value, 60)}."
        case "uniqueItems":
            return "No item twice."
        case "default":
            return "" if value is None else f"Default: {compact(value)}."
        case "examples":
            return f"For example {', '.join(compact(example, 80) for example in value[:3])}."
        case "title" | "description" | "type":
            return ""
        case "prefixItems":
            forms = "; ".join(f"{n}. {_form(item)}" for n, item in enumerate(value[:10], 1))
            return f"In this order: {forms}."
        case "additionalProperties" | "unevaluatedProperties":
            return _additional(value)
        case "patternProperties":
            shown = [f"{compact(name, 80)}: {_form(item)}" for name, item in value.items()]
            return f"Names that match a regular expression: {'; '.join(shown[:5])}."
        case "propertyNames":
            return "" if _is_unconstrained(value) else f"Each name: {phrase(value)}."
        case "dependentRequired":
            return " ".join(
                f"With {quoted_names([name])}, {quoted_names(needs)} must also be given."
                for name, needs in list(value.items())[:10]
                if isinstance(needs, list) and needs
            )
        case "then" | "else" | "minContains" | "maxContains":
            return ""  # described with their owner
        case "if":
            return _condition(node)
        case "contains":
            return _contained(node)
        case "allOf":
            return " ".join(f"It must also be {phrase(part)}." for part in value[:5])
        case "not":
            return f"Not {phrase(value)}."
        case "oneOf" | "anyOf":
            how = "Exactly" if keyword == "oneOf" else "At least"
            return f"{how} one of these: {_parts(value)}."
        case "dependentSchemas":
            return " ".join(
                f"With {quoted_names([name])}: {phrase(part)}."
                for name, part in list(value.items())[:5]
            )
        case "unevaluatedItems":
            return (
                "No further items." if is_never(value) else f"Each further item: {phrase(value)}."
            )
        case "enum":
            return choice_sentence(value)
        case _:
            return ""


def _count(low: int, high: int) -> str:
    return f"Exactly {low:,}" if low == high else f"{low:,} to {high:,}"


def _condition(node: Node) -> str:
    then, otherwise = node.get("then", {}), node.get("else", {})
    parts = [] if _is_unconstrained(then) else [f"If it is {phrase(node['if'])}: {phrase(then)}."]
    if not _is_unconstrained(otherwise):
        parts.append(f"If it is not {phrase(node['if'])}: {phrase(otherwise)}.")
    return " ".join(parts)


def _contained(node: Node) -> str:
    low, high = node.get("minContains", 1), node.get("maxContains")
    item = phrase(node["contains"])
    if high is not None:
        return f"{_count(low, high)} items are {item}."
    return f"At least one item is {item}." if low == 1 else f"At least {low:,} items are {item}."


def _form(node: Node) -> str:
    text = node.get("description")
    types = node.get("type")
    if types and set(node) <= {"type", "description"}:
        word = " or ".join(types)
        return f"{word} ({text})" if text and len(text) <= 60 else word
    return phrase(node, _MAX_PART_LENGTH)


def _additional(value: Node) -> str:
    if is_never(value) or _is_unconstrained(value):
        return ""
    return f"Any names, each value: {_form(value)}."


def _is_unconstrained(node: Node) -> bool:
    return all(key in ANNOTATIONS or key == CUT for key in node)


def phrase(node: Node, longest: int = _MAX_PHRASE_LENGTH) -> str:
    """Describe the accepted values: ``object with `a` (integer), perhaps `b` ``."""
    return shorten(_phrase(node, 0), longest)


def details(node: Node, longest: int) -> str:
    """Format the constraints of a node with one type as the rest of a sentence; may be empty."""
    return shorten(", ".join(_details(node, 0)), longest)


def _phrase(node: Node, depth: int) -> str:
    if is_never(node):
        return "nothing"
    if CUT in node:
        return f"{compact(node[CUT], 80)} again"
    if depth > _MAX_PHRASE_DEPTH:
        return "…"
    if "enum" in node:
        head = choice_sentence(node["enum"]).rstrip(".")
        head = head.removeprefix("It must be ").replace("One of", "one of", 1)
        rest = [keyword for keyword in ("allOf", "not", "if") if keyword in node]
        parts = [_lowered(sentence) for sentence in sentences(node, rest)]
    else:
        types = node.get("type") or types_of(node)
        head = " or ".join(types)
        parts = _details(node, depth)
    if head and parts:
        head += " " if parts[0].startswith(_NO_COMMA_BEFORE) else ", "
    return f"{head}{', '.join(parts)}" or "anything"


def _details(node: Node, depth: int) -> list[str]:
    parts = []
    if properties := _properties(node, depth):
        parts.append(properties)
    if "items" in node and not is_never(node["items"]) and not _is_unconstrained(node["items"]):
        parts.append(f"of {_phrase(node['items'], depth + 1)}")
    parts += [
        f"{'either ' if len(node[keyword]) > 1 else ''}{_parts(node[keyword], depth, ' or ')}"
        for keyword in ("anyOf", "oneOf")
        if keyword in node
    ]
    covered = ("type", "enum", "properties", "required", "items", "anyOf", "oneOf", *ANNOTATIONS)
    parts += [
        _lowered(sentence)
        for sentence in sentences(node, [keyword for keyword in node if keyword not in covered])
    ]
    return parts


def _properties(node: Node, depth: int) -> str:
    properties, required = node.get("properties", {}), node.get("required", [])
    parts = []
    for is_required, word in ((True, "with "), (False, "perhaps ")):
        listed = required if is_required else [name for name in properties if name not in required]
        shown = [_property(name, properties.get(name, {}), depth) for name in listed[:_MAX_PARTS]]
        if len(listed) > _MAX_PARTS:
            shown.append(f"{len(listed) - _MAX_PARTS} more")
        if shown:
            parts.append(word + ", ".join(shown))
    return ", ".join(parts)


def _property(name: str, node: Node, depth: int) -> str:
    if _is_unconstrained(node):
        return quoted_names([name])
    return f"{quoted_names([name])} ({_phrase(node, depth + 1)})"


def _parts(nodes: list[Node], depth: int = 0, between: str = "; ") -> str:
    shown = [_phrase(node, depth + 1) for node in nodes[:_MAX_PARTS]]
    return between.join([*shown, *(["…"] if len(nodes) > _MAX_PARTS else [])])


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def joined(*texts: str | None) -> str:
    """Join texts as sentences, without those that an earlier one contains."""
    result = ""
    for text in texts:
        if not text or text in result:
            continue
        if result and not result.endswith(_NO_STOP_AFTER):
            result += "."
        result = f"{result} {text}".strip()
    return result


def with_notes(text: str, notes: Iterable[str], longest: int) -> str:
    """Append notes to a description within `longest` characters; the description is cut first."""
    more = joined(*notes)
    room = longest if not more else max(longest - len(more) - 2, longest // 2)
    full = joined(_cut(text, room), more)
    return _cut(full, longest)


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


def recursion_sentence(name: str) -> str:
    return f"The same form as {compact(name, 80)} above, again."


def original_name_sentence(name: str) -> str:
    return f"(The tool calls it {compact(name, 200)}.)"
