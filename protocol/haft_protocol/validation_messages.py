"""Messages about faulty JSON or params, from msgspec's and `Meta(description=…)`; imported by a
faulty call only."""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec
from msgspec import inspect

from .errors import RpcError, invalid_params, parse_error, shown

__all__ = ["explain", "in_words", "why_malformed"]

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_NAMED = re.compile(
    r"^Object (?P<how>contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL
)
_HALF = re.compile(rb"\\u[dD][89abAB]")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_ELSEWHERE = {
    "clientInfo": "client",
    "input": "arguments",
    "name": "tool",
    "names": "tools",
    "protocolVersion": "protocol",
}
"""Fields of other protocols (MCP, the providers' tool calls) and their counterparts here."""
_TYPE_NAMES = {
    "int": "an integer",
    "str": "a text",
    "bool": "true or false",
    "float": "a number",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def why_malformed(fault: str, message: bytes) -> str:
    """Return why `message` is no JSON, from msgspec's `fault`."""
    if not message:
        return "it is empty"
    if message.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark, which JSON on the wire does not have"
    why = fault.removeprefix("JSON is malformed: ")
    # msgspec seeks the second half of a surrogate pair even behind the text's end.
    may_be_half = "truncated" in why or "hex escape" in why
    is_whole = message.rstrip().endswith((b"}", b"]"))
    if "surrogate" in why or (may_be_half and is_whole and _HALF.search(message)):
        return "a text in it has half of a surrogate pair, which is no character"
    return why


def explain(problem: str, raw: bytes, kind: type[Any], method: str) -> RpcError:
    """Translate msgspec's `problem` with `raw`, which is no `kind`, into the error."""
    if raw.startswith(b"["):
        return invalid_params(f"params go by name, send an object; {_takes(kind, method)}")
    if not raw.startswith(b"{"):
        return invalid_params(f"params is an object, or left out; {_takes(kind, method)}")
    place = _PLACE.match(problem)
    if place is None:
        raise AssertionError("the pattern matches every text")
    fault, path = place["what"], (place["path"] or "").removeprefix(".")
    if fault.endswith("out of range"):
        where = f" at `{path}`" if path else ""
        return parse_error(f"a number is out of range{where}")
    node = _walk(inspect.type_info(kind), path)
    named = _NAMED.match(fault)
    if named is not None:
        name, inner = named["name"], node if isinstance(node, inspect.StructType) else None
        field = shown(name)[1:-1]
        full = f"{path}.{field}" if path else field
        takes = _takes(inner.cls if inner else kind, f"`{path}`" if path else method)
        if named["how"] == "missing required":
            return invalid_params(f"the field `{full}` is missing; {takes}", field=full)
        meant = _similar_field(name, _fields(inner.cls if inner else kind))
        hint = f" (is `{meant}` meant?)" if meant else ""
        return invalid_params(f"unknown field `{full}`{hint}; {takes}", field=full)
    field = shown(path, 200)[1:-1] if path else "params"
    return invalid_params(_expected(field, fault, node), field=field)


def in_words(kind: type[Any], path: str, fault: str) -> str:
    """Return msgspec's `fault` at a path of `kind` in words ("it must be …")."""
    message = _expected(path, fault, _walk(inspect.type_info(kind), path))
    subject = f"`{path}` "
    return f"it {message.removeprefix(subject)}" if message.startswith(subject) else fault


def _similar_field(name: str, fields: list[str]) -> str | None:
    if (field := _ELSEWHERE.get(name)) in fields:
        return field
    near = difflib.get_close_matches(name, fields, 1)
    return near[0] if near else None


def _expected(field: str, fault: str, node: inspect.Type | None) -> str:
    described = _described(node)
    values = _literals(node)
    if fault.startswith("Invalid enum value") and values:
        value = fault.removeprefix("Invalid enum value ")
        return f"`{field}` must be {_one_of(values)}, not {shown(value, 60)[1:-1]}"
    if "matching regex" in fault:
        return f"`{field}` must be {described or 'of another form: ' + fault}"
    wrong = re.fullmatch(r"Expected `(?P<want>[^`]*)`, got `(?P<got>[^`]*)`", fault)
    if wrong is not None:
        want = " or ".join(_TYPE_NAMES.get(word, word) for word in wrong["want"].split(" | "))
        fraction = wrong["got"] == "float" and "int" in wrong["want"]
        got = "one with a fraction" if fraction else _TYPE_NAMES.get(wrong["got"], wrong["got"])
        if values:
            want = _one_of(values)
        return f"`{field}` must be {described or want}, not {got}"
    bound = re.fullmatch(r"Expected `(?P<want>[^`]*)` (?P<how>.*)", fault)
    if bound is not None:
        want = _TYPE_NAMES.get(bound["want"], bound["want"])
        return f"`{field}` must be {want} {bound['how']}"
    return f"`{field}`: {fault}"


def _one_of(values: tuple[Any, ...]) -> str:
    listed = ", ".join(msgspec.json.encode(value).decode() for value in values)
    return listed if len(values) == 1 else f"one of {listed}"


def _fields(kind: type[Any]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def _takes(kind: type[Any], method: str) -> str:
    """List `kind`'s fields, required fields first and marked."""
    fields = msgspec.structs.fields(kind)
    ordered = [f for f in fields if f.required] + [f for f in fields if not f.required]
    listed = ", ".join(f.encode_name + (" (required)" if f.required else "") for f in ordered)
    return f"{method or _method(kind)} takes: {listed}"


def _method(kind: type[Any]) -> str:
    from .methods import METHODS

    names = [method.name for method in METHODS.values() if method.params is kind]
    return names[0] if len(names) == 1 else "this method"


def _walk(node: inspect.Type | None, path: str) -> inspect.Type | None:
    for name, index in _STEP.findall("." + path if path and not path.startswith("[") else path):
        node = _bare(node)
        match node:
            case inspect.StructType(fields=fields) if name:
                node = next((f.type for f in fields if f.encode_name == name), None)
            case inspect.DictType(value_type=value) if index:
                node = value
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item) if index:
                node = item
            case _:
                return None
    return node


def _parts(node: inspect.Type | None) -> tuple[inspect.Type, ...]:
    match node:
        case None:
            return ()
        case inspect.UnionType(types=types):
            return types
        case _:
            return (node,)


def _bare(node: inspect.Type | None) -> inspect.Type | None:
    """Return the one type that is not null, without its metadata."""
    for part in _parts(node):
        inner = part.type if isinstance(part, inspect.Metadata) else part
        if not isinstance(inner, inspect.NoneType):
            return inner
    return None


def _described(node: inspect.Type | None) -> str:
    for part in _parts(node):
        if isinstance(part, inspect.Metadata) and part.extra_json_schema:
            return str(part.extra_json_schema.get("description", ""))
    return ""


def _literals(node: inspect.Type | None) -> tuple[Any, ...]:
    bare = _bare(node)
    return bare.values if isinstance(bare, inspect.LiteralType) else ()
