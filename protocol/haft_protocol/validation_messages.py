"""Messages about malformed JSON and wrong params, made from msgspec's texts and the descriptions of fields.

msgspec has no errors with parts, so its texts are read: those of 0.23, in `src/msgspec/_core.c`. A text that is
not known is passed on. Imported only after an error.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec
from msgspec import inspect

from .errors import RpcError, invalid_params, parse_error, shown

__all__ = ["describe_violation", "explain_malformed", "explain_params"]

# "Expected `int`, got `str` - at `$.all[0]`", "… - at `key in $.env`"
_MESSAGE = re.compile(
    r"^(?P<fault>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$",
    re.DOTALL,
)
_FIELD_FAULT = re.compile(
    r"^Object (?P<fault>contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL
)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<actual>[^`]*)`")
_OUT_OF_BOUNDS = re.compile(r"Expected `(?P<expected>[^`]*)` (?P<bound>.*)")
_WRONG_VALUE = re.compile(r"Invalid (?:enum )?value (?P<actual>.*)", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")
_STEP = re.compile(r"\.([^.\[]+)|\[(?:\d+|\.\.\.)\]")
"""A field with its name, or an element: `[0]` of an array, `[...]` of a dict."""
_COUNTERPARTS = {
    "clientInfo": "client",
    "input": "arguments",
    "name": "tool",
    "names": "tools",
    "protocolVersion": "protocol",
}
"""Field of this protocol by the name that MCP, or a provider's tool call, has for it."""
_TYPE_NAMES = {
    "int": "an integer",
    "str": "a string",
    "bool": "true or false",
    "float": "a number",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


def explain_malformed(fault: str, message: bytes) -> str:
    """Return the reason why `message` is not JSON; `fault` is msgspec's text."""
    if not message:
        return "it is empty"
    if message.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark, which JSON on the wire does not have"
    reason = fault.removeprefix("JSON is malformed: ")
    # After the first half of a surrogate pair msgspec expects the escape of the second, also after the
    # end of the string: then it reports the message as truncated, or an escape without hex digits.
    may_be_half = "truncated" in reason or "hex escape" in reason
    is_whole = message.rstrip().endswith((b"}", b"]"))
    if "surrogate" in reason or (may_be_half and is_whole and _SURROGATE.search(message)):
        return "a string in it has half of a surrogate pair, which is not a character"
    return reason


def explain_params(text: str, raw: bytes, kind: type[Any], method: str) -> RpcError:
    """Return the error for params `raw` that msgspec did not decode as the struct `kind`; `text` is its
    message. Without a `method` the name is looked up by `kind`."""
    if raw.startswith(b"["):
        fields = _list_fields(kind, method or _find_method(kind))
        return invalid_params(f"params are passed by name, send an object; {fields}")
    if not raw.startswith(b"{"):
        fields = _list_fields(kind, method or _find_method(kind))
        return invalid_params(f"`params` must be an object, or left out; {fields}")
    fault, path = _split(text)
    if fault.endswith("out of range"):
        where = f" at `{path}`" if path else ""
        return parse_error(f"a number is out of range{where}")
    node = _walk(inspect.type_info(kind), path)
    field_fault = _FIELD_FAULT.match(fault)
    if field_fault is None:
        field = _escape(path, 200) if path else "params"
        return invalid_params(_describe(field, fault, node), field=field)
    name, is_missing = field_fault["name"], field_fault["fault"] == "missing required"
    struct = _find_struct(node, name if is_missing else None)
    field = f"{path}.{_escape(name)}" if path else _escape(name)
    subject = f"`{path}`" if path else method or _find_method(kind)
    fields = "" if struct is None else f"; {_list_fields(struct, subject)}"
    if is_missing:
        return invalid_params(f"the field `{field}` is missing{fields}", field=field)
    similar = None if struct is None else _find_similar(name, struct)
    hint = f" (is `{similar}` meant?)" if similar else ""
    return invalid_params(f"unknown field `{field}`{hint}{fields}", field=field)


def describe_violation(kind: type[Any], text: str) -> tuple[str, str]:
    """Return the path of a value within the struct `kind`, and how it violates its type ("it must be …");
    `text` is msgspec's message."""
    fault, path = _split(text)
    message = _describe(path, fault, _walk(inspect.type_info(kind), path))
    subject = f"`{path}` "
    return path, f"it {message.removeprefix(subject)}" if message.startswith(subject) else fault


def _split(text: str) -> tuple[str, str]:
    """Return a message's fault, and the path, such as `client.name` or `all[0]`; empty for the root."""
    match = _MESSAGE.match(text)
    if match is None:
        raise AssertionError("the pattern matches every text")
    return match["fault"], (match["path"] or "").removeprefix(".")


def _escape(text: str, limit: int = 120) -> str:
    """Return the text escaped and shortened as by `shown`, without quotes."""
    quoted = shown(text, limit)
    return quoted[1:] if quoted.endswith("…") else quoted[1:-1]


def _describe(field: str, fault: str, node: inspect.Type | None) -> str:
    """Return a fault of a value in words: "`field` must be …, not …"."""
    description = _read_description(node)
    values = _read_values(node)
    if values and (wrong := _WRONG_VALUE.fullmatch(fault)):
        return f"`{field}` must be {_list_values(values)}, not {_escape(wrong['actual'], 60)}"
    if "matching regex" in fault:
        return f"`{field}` must be {description}" if description else f"`{field}`: {fault}"
    if wrong := _WRONG_TYPE.fullmatch(fault):
        expected = " or ".join(_name_type(word) for word in wrong["expected"].split(" | "))
        is_fraction = wrong["actual"] == "float" and "int" in wrong["expected"]
        actual = "a number with a fraction" if is_fraction else _name_type(wrong["actual"])
        if values:
            expected = _list_values(values)
        return f"`{field}` must be {description or expected}, not {actual}"
    if bound := _OUT_OF_BOUNDS.fullmatch(fault):
        return f"`{field}` must be {_name_type(bound['expected'])} {bound['bound']}"
    return f"`{field}`: {fault}"


def _name_type(word: str) -> str:
    return _TYPE_NAMES.get(word, word)


def _list_values(values: tuple[Any, ...]) -> str:
    listed = ", ".join(msgspec.json.encode(value).decode() for value in values)
    return listed if len(values) == 1 else f"one of {listed}"


def _find_similar(name: str, struct: type[Any]) -> str | None:
    names = [field.encode_name for field in msgspec.structs.fields(struct)]
    if (counterpart := _COUNTERPARTS.get(name)) in names:
        return counterpart
    similar = difflib.get_close_matches(name, names, 1)
    return similar[0] if similar else None


def _list_fields(struct: type[Any], subject: str) -> str:
    """Return the sentence with a struct's fields, the required ones first and marked."""
    fields = msgspec.structs.fields(struct)
    ordered = [f for f in fields if f.required] + [f for f in fields if not f.required]
    listed = ", ".join(f.encode_name + (" (required)" if f.required else "") for f in ordered)
    return f"{subject} takes: {listed}"


def _find_method(kind: type[Any]) -> str:
    from .methods import METHODS

    names = [method.name for method in METHODS.values() if method.params is kind]
    return names[0] if len(names) == 1 else "this method"


def _walk(node: inspect.Type | None, path: str) -> inspect.Type | None:
    """Return the type at a path below `node`; None where it is not known."""
    for name in _STEP.findall(path if not path or path.startswith("[") else f".{path}"):
        node = _find_field(node, name) if name else _find_element(node)
    return node


def _find_field(node: inspect.Type | None, name: str) -> inspect.Type | None:
    """Return the type of a field; of a union's structs the first that has it, as all have its tag."""
    structs = [part for part in _unwrap(node) if isinstance(part, inspect.StructType)]
    tags = [struct.tag for struct in structs if struct.tag_field == name]
    if tags:
        return inspect.LiteralType(tuple(tags))
    types = (f.type for struct in structs for f in struct.fields if f.encode_name == name)
    return next(types, None)


def _find_element(node: inspect.Type | None) -> inspect.Type | None:
    for part in _unwrap(node):
        match part:
            case inspect.DictType(value_type=element):
                return element
            case inspect.VarTupleType(item_type=element) | inspect.ListType(item_type=element):
                return element
    return None


def _find_struct(node: inspect.Type | None, missing: str | None) -> type[Any] | None:
    """Return the struct that was decoded; None where a union has several, unless only one has the
    `missing` field."""
    structs = [part for part in _unwrap(node) if isinstance(part, inspect.StructType)]
    if len(structs) > 1:
        structs = [s for s in structs if any(f.encode_name == missing for f in s.fields)]
    return structs[0].cls if len(structs) == 1 else None


def _unwrap(node: inspect.Type | None) -> list[inspect.Type]:
    """Return the types of a union, or the one type, without metadata and without null."""
    inner = [part.type if isinstance(part, inspect.Metadata) else part for part in _parts(node)]
    return [part for part in inner if not isinstance(part, inspect.NoneType)]


def _parts(node: inspect.Type | None) -> tuple[inspect.Type, ...]:
    match node:
        case None:
            return ()
        case inspect.UnionType(types=types):
            return types
        case _:
            return (node,)


def _read_description(node: inspect.Type | None) -> str:
    for part in _parts(node):
        if isinstance(part, inspect.Metadata) and part.extra_json_schema:
            return str(part.extra_json_schema.get("description", ""))
    return ""


def _read_values(node: inspect.Type | None) -> tuple[Any, ...]:
    """Return the values of a literal type, empty for any other type."""
    for part in _unwrap(node):
        if isinstance(part, inspect.LiteralType):
            return tuple(part.values)
    return ()
