"""The reference part of docs/protocol.md, generated from the daemon's message types. Types,
defaults, bounds, methods and error codes come from `haft_protocol`, meanings from `meanings`.
The text outside the two marks is written by hand and kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from haft_protocol import approvals, errors, inquiries, methods, pushes, questions, states, trust

from .meanings import DATA, MEANINGS, WHEN

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
BEGIN = "<!-- From here to the end mark: made by `python -m tests.gendocs`. -->"
END = "<!-- The end of what is made. -->"

SHARED = methods.Params.__struct_fields__
READING = tuple(name for name in methods.ReadingParams.__struct_fields__ if name not in SHARED)
STATES = (states.Pending, states.Running, states.Waiting, states.Stopped)
TYPES: tuple[type[msgspec.Struct], ...] = (
    states.EndedBy,
    states.Exit,
    states.ToolError,
    states.LeftBehind,
    states.Truncated,
    states.Notice,
    states.InputWanted,
    states.Screen,
    questions.Question,
    questions.Boolean,
    questions.Text,
    questions.Secret,
    questions.Select,
    questions.Form,
    questions.Choice,
    inquiries.Inquiry,
    approvals.Approval,
    approvals.Decided,
    states.TerminalSize,
    pushes.PushedOutput,
    pushes.PushedBytes,
    pushes.PushedScreen,
    pushes.PushedForgotten,
    pushes.PushedTools,
    pushes.InquiryClosed,
    pushes.ApprovalClosed,
    methods.Client,
    methods.ClientCapabilities,
    methods.ServerInfo,
    methods.LimitsResult,
    methods.StdinFrom,
    methods.HandleInfo,
    methods.FoundLine,
    methods.Inquired,
    methods.SessionInfo,
    methods.OpenQuestion,
    methods.ToolInfo,
    methods.Annotations,
    methods.ToolDescription,
    methods.ParameterInfo,
    methods.Problem,
    trust.DefinitionFile,
    trust.DefinedTool,
    trust.TrustedRoot,
    methods.WebSocketInfo,
)

RIDING = ("call_id", "notifications")
"""What a call is answered besides what its verb is."""

OWN_SESSION = (
    methods.HandlesListParams,
    methods.InquiriesListParams,
    methods.ApprovalsListParams,
)
"""Params whose session may be all of them."""

SENT = (methods.Client, methods.ClientCapabilities, methods.StdinFrom, approvals.Decided)
"""Types that clients send."""


def page(text: str) -> str:
    """Return the page with its generated part renewed; raise ValueError without the marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError("the marks of the made part are missing")
    made = "\n".join(_reference())
    return f"{head}{BEGIN}\n\n{made}\n\n{END}{tail}"


def unused() -> set[str]:
    """Meanings of fields that are no more."""
    used: set[str] = set()
    for struct in _structs():
        used |= {_key(struct, field.encode_name) for field in _fields(struct)}
    return set(MEANINGS) - used


def _structs() -> Iterator[type[msgspec.Struct]]:
    for method in methods.METHODS.values():
        yield method.params
        if isinstance(method.result, type) and issubclass(method.result, msgspec.Struct):
            yield method.result
    yield methods.CalledAwait
    yield methods.CalledText
    yield from STATES
    yield from TYPES


def _reference() -> Iterator[str]:
    yield "## Methods"
    yield ""
    yield "Every method takes these besides its own params (`handles/list`, `inquiries/list` and `approvals/list` have a `session` of their own):"
    yield ""
    yield from _table(methods.Params, SHARED, defaults=True)
    yield ""
    yield "`spawn`, `fetch` and `apply` then read the handle, and take:"
    yield ""
    yield from _table(methods.SpawnParams, READING, defaults=True)
    for method in methods.METHODS.values():
        yield ""
        yield f"### {method.name}"
        yield ""
        yield from _method(method)
    yield ""
    yield "## The handle state"
    yield ""
    yield "The result of `spawn`, `fetch`, `apply` and `abort`. Always present:"
    yield ""
    common = tuple(states._Handle.__struct_fields__)
    always = tuple(name for name in common if name in states._Handle.__struct_fields__[:6])
    yield "| field | type | meaning |"
    yield "| --- | --- | --- |"
    yield f"| `state` | {_or(_quoted(kind.__struct_config__.tag) for kind in STATES)} | the state |"
    yield from _rows(states.Pending, always, defaults=False)
    yield ""
    yield "Present if not empty:"
    yield ""
    yield from _table(states.Pending, [name for name in common if name not in always])
    for kind in STATES:
        own = [field for field in kind.__struct_fields__ if field not in common]
        yield ""
        yield f"While `{kind.__struct_config__.tag}`. {_line(kind)}"
        yield ""
        yield from _table(kind, own)
    yield ""
    yield "## Types"
    for struct in TYPES:
        yield ""
        yield f"### {struct.__name__}"
        yield ""
        tag = "" if _fields(struct) else f"Written `{msgspec.json.encode(struct()).decode()}`. "
        yield tag + _line(struct)
        if _fields(struct):
            yield ""
            yield from _table(struct, defaults=struct in SENT)
    yield ""
    yield "## Errors"
    yield ""
    yield "`error.data.kind` names the error, its `code` is the number. `message` is one sentence for a"
    yield "person or a model: the fault and the remedy."
    yield ""
    yield from _errors()


def _method(method: methods.Method) -> Iterator[str]:
    yield _line(method.params) if method.params is not methods.Empty else method.summary
    yield ""
    shared: tuple[str, ...] = () if method.params in OWN_SESSION else SHARED
    if issubclass(method.params, methods.ReadingParams):
        shared += READING
    own = [field.encode_name for field in _fields(method.params) if field.encode_name not in shared]
    if own:
        yield from _table(method.params, own, defaults=True)
    else:
        yield "No params of its own."
    yield ""
    if method.reads_only:
        yield "Permitted on [read-only connections](#read-only-connections)."
        yield ""
    if method.result is methods.Empty:
        yield "**Result.** An empty object."
    elif method.result == states.HandleState:
        yield "**Result.** The [handle state](#the-handle-state)."
    elif isinstance(method.result, tuple) and methods.CalledAwait in method.result:
        yield "**Result.** That of the verb, the [handle state](#the-handle-state) or the result of"
        yield "[await](#await), and beside its fields:"
        yield ""
        yield from _table(methods.CalledAwait, RIDING)
        yield ""
        yield "With the format `text` it is instead:"
        yield ""
        yield from _table(methods.CalledText)
    elif isinstance(method.result, type) and issubclass(method.result, msgspec.Struct):
        yield f"**Result.** {_line(method.result)}"
        yield ""
        yield from _table(method.result)
    else:
        yield "**Result.** An object."


def _errors() -> Iterator[str]:
    yield "| code | kind | when | `data` besides `kind` |"
    yield "| --- | --- | --- | --- |"
    for kind, code in errors.CODES.items():
        yield f"| {code} | `{kind}` | {WHEN[kind]} | {DATA.get(kind, '')} |"


def _table(
    struct: type[msgspec.Struct], names: Iterable[str] | None = None, *, defaults: bool = False
) -> Iterator[str]:
    yield "| field | type | default | meaning |" if defaults else "| field | type | meaning |"
    yield "| --- | --- | --- | --- |" if defaults else "| --- | --- | --- |"
    config = struct.__struct_config__
    if names is None and config.tag_field and config.tag:
        yield f"| `{config.tag_field}` | {_quoted(config.tag)} | the type |"
    yield from _rows(struct, names, defaults=defaults)


def _rows(
    struct: type[msgspec.Struct], names: Iterable[str] | None, *, defaults: bool
) -> Iterator[str]:
    # On the wire a listed handle is its state object; these stand beside the state.
    fields = {
        field.encode_name: field
        for field in _fields(struct)
        if field.name != "state" or struct is not methods.HandleInfo
    }
    for name in fields if names is None else names:
        field = fields[name]
        cells = [f"`{name}`", _type(field.type)]
        if defaults:
            cells.append(_default(field))
        elif _may_be_absent(struct, field):
            cells[1] += ", or absent"
        meaning = MEANINGS.get(_key(struct, name))
        if meaning is None:
            raise ValueError(
                f"{struct.__name__}.{name} has no meaning in tests/gendocs/meanings.py"
            )
        yield f"| {' | '.join([*cells, meaning])} |"


def _fields(struct: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _key(struct: type[msgspec.Struct], name: str) -> str:
    """Return the key of a field's meaning: that of the nearest class with a meaning, else the
    name alone."""
    for kind in struct.__mro__:
        if f"{kind.__name__}.{name}" in MEANINGS:
            return f"{kind.__name__}.{name}"
    return name


def _may_be_absent(struct: type[msgspec.Struct], field: inspect.Field) -> bool:
    """Return true if the daemon may omit the field."""
    unset = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    return not field.required and (unset or struct.__struct_config__.omit_defaults)


def _default(field: inspect.Field) -> str:
    if field.required:
        return "**required**"
    if field.default_factory is not msgspec.NODEFAULT:
        return _quoted(field.default_factory())
    return "" if field.default is msgspec.NODEFAULT else _quoted(field.default)


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            words = (extra or {}).get("description", "")
            if words.startswith("a name of"):
                return "[name](#names)"
            return words or _type(inner)
        case inspect.UnionType(types=types):
            if all(isinstance(kind, inspect.StructType) for kind in types) and {
                kind.cls for kind in types if isinstance(kind, inspect.StructType)
            } == set(STATES):
                return "[handle state](#the-handle-state)"
            return _or(_type(kind) for kind in types if not _is_unset(kind))
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case inspect.LiteralType(values=values):
            return _or(_quoted(value) for value in values)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"array of {_type(item)}"
        case inspect.TupleType(item_types=items):
            return f"[{', '.join(_type(item) for item in items)}]"
        case inspect.DictType(value_type=value):
            return "object" if isinstance(value, inspect.AnyType) else f"object of {_type(value)}"
        case inspect.StrType():
            return _bounded("string", kind.min_length, kind.max_length, " characters")
        case inspect.IntType():
            return _bounded("integer", kind.ge, kind.le)
        case inspect.FloatType():
            return _bounded("number", kind.ge, kind.le)
        case inspect.BoolType():
            return "boolean"
        case inspect.NoneType():
            return "`null`"
        case inspect.AnyType():
            return "anything"
    raise ValueError(f"no words for {kind}")


def _is_unset(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.CustomType) and kind.cls is msgspec.UnsetType


def _bounded(kind: str, low: float | None, high: float | None, unit: str = "") -> str:
    if high is not None:
        return f"{kind}, {low or 0:,.0f} to {high:,.0f}{unit}"
    return f"{kind} from {low:,.0f}{unit}" if low is not None else kind


def _or(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _quoted(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


def _line(documented: Any) -> str:
    """Return the docstring's first paragraph as one line."""
    first = (documented.__doc__ or "").strip().partition("\n\n")[0]
    return re.sub(r"\s+", " ", re.sub(r" of section \d+", "", first))
