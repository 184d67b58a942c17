"""docs/haft.d.ts: TypeScript declarations of the wire, generated from the daemon's message
types. Names, fields and unions come from `haft_protocol`, comments from its docstrings and
`meanings`. `OVERRIDES` holds fields whose Python type is wider than the wire's. An absent
field is optional (`?`), never `null`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from haft_protocol import approvals, errors, inquiries, methods, pushes, states
from haft_protocol.inputs import InputKind, Mouse

from .meanings import MEANINGS

DECLARATIONS = Path(__file__).parents[2] / "docs" / "haft.d.ts"

INPUTS: dict[str, str] = {
    "text": "string",
    "bytes": "string",
    "line": "string",
    "keys": "string[]",
    "paste": "string",
    "mouse": "Mouse",
    "eof": "true",
    "signal": "string",
    "resize": "{ rows: number; cols: number }",
}
"""The value that stands beside each kind of input."""

OVERRIDES: dict[str, str] = {
    "ApplyParams.input": "Input | Answer",
    "HandlesListResult.handles": "(HandleState & HandleInfo)[]",
}

SENT_BY_THE_DAEMON: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct] | str]] = {
    inquiries.ASK: (inquiries.Inquiry, "InquiryReply"),
    approvals.ASK_APPROVAL: (approvals.Approval, approvals.Decided),
}
"""Requests of the daemon's to a client with the capability: the params, and the result."""

PUSHED: dict[str, str] = {
    pushes.STATE: "HandleState & Subscribed",
    pushes.OUTPUT: "PushedOutput",
    pushes.BYTES: "PushedBytes",
    pushes.SCREEN: "PushedScreen",
    pushes.FORGOTTEN: "PushedForgotten",
    pushes.TOOLS: "PushedTools",
    pushes.INQUIRY_OPENED: "Inquiry & Subscribed",
    pushes.INQUIRY_CLOSED: "InquiryClosed",
    pushes.APPROVAL_OPENED: "Approval & Subscribed",
    pushes.APPROVAL_CLOSED: "ApprovalClosed",
    pushes.NOTIFICATION: "Notice & Subscribed & { session: string }",
}

_HEAD = """\
// The wire of haftd, protocol 1. Made by `python -m tests.gendocs` from the types that the daemon decodes
// with; docs/protocol.md says what the methods do. A field that is not said is absent, never null.

export type Scalar = boolean | number | string | null;
export type Answer = Scalar | { [name: string]: Scalar };
"""

_TAIL = """\
/** What a client answers to `inquiry/ask`. */
export interface InquiryReply {
  answer: Answer;
  remember?: "turn" | "session";
}

/** Beside the fields of a pushed state or notice. */
export interface Subscribed {
  subscription: string;
}

export interface Request<M extends keyof Methods = keyof Methods> {
  jsonrpc: "2.0";
  id?: number | string | null;
  method: M;
  params?: Methods[M]["params"];
}

export type Reply<M extends keyof Methods = keyof Methods> =
  | { jsonrpc: "2.0"; id: number | string | null; result: Methods[M]["result"] }
  | { jsonrpc: "2.0"; id: number | string | null; error: RpcError };
"""


def declarations() -> str:
    """Return the text of docs/haft.d.ts."""
    maker = _Maker()
    methods_map = list(maker.methods())
    daemon_map = list(maker.daemon_requests())
    pushed = list(maker.notifications())
    structs = list(maker.structs())
    inputs = list(maker.inputs())
    parts = [_HEAD, *inputs, *structs, *methods_map, *daemon_map, *pushed, *_errors(), _TAIL]
    unused = OVERRIDES.keys() - maker.used
    if unused:
        raise ValueError(f"no field is called {', '.join(sorted(unused))}")
    return "\n".join(parts)


class _Maker:
    """Turns types into declarations, and remembers the structs that they need."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._wanted: dict[str, type[msgspec.Struct]] = {}

    def methods(self) -> Iterator[str]:
        rows = []
        for method in methods.METHODS.values():
            params = self._name(method.params)
            optional = not any(f.required for f in _fields(method.params))
            result = self.type_of(method.result)
            rows.append(f"  /** {method.summary} */")
            rows.append(
                f'  "{method.name}": {{ params: {params}; result: {result} }};'
                if not optional
                else f'  "{method.name}": {{ params: {params} | undefined; result: {result} }};'
            )
        yield "/** Every method: its params and its result. */"
        yield "\n".join(["export interface Methods {", *rows, "}", ""])

    def daemon_requests(self) -> Iterator[str]:
        yield "/** Requests of the daemon to a client that said so in `capabilities`. */"
        yield "export interface DaemonRequests {"
        for name, (params, result) in SENT_BY_THE_DAEMON.items():
            shown = result if isinstance(result, str) else self._name(result)
            yield f'  "{name}": {{ params: {self._name(params)}; result: {shown} }};'
        yield "}\n"

    def notifications(self) -> Iterator[str]:
        for struct in (
            pushes.PushedOutput,
            pushes.PushedBytes,
            pushes.PushedScreen,
            pushes.PushedForgotten,
            pushes.PushedTools,
            pushes.InquiryClosed,
            pushes.ApprovalClosed,
            states.Notice,
            methods.HandleInfo,
        ):
            self._name(struct)
        yield "/** Notifications of the daemon to a client that subscribed, by method. */"
        yield "export interface Notifications {"
        for name, params in PUSHED.items():
            yield f'  "{name}": {params};'
        yield "}\n"

    def inputs(self) -> Iterator[str]:
        if INPUTS.keys() != set(get_args(InputKind)):
            raise ValueError("INPUTS does not name the kinds of input that there are")
        forms = " | ".join(
            f"{{ {kind}: {value}; secret?: boolean }}" for kind, value in INPUTS.items()
        )
        yield "/** What `apply` takes for a running handle; a text is written as it is. */"
        yield f"export type Input = string | {forms};\n"

    def structs(self) -> Iterator[str]:
        self._name(Mouse)
        made: dict[str, str] = {}
        while missing := self._wanted.keys() - made.keys():
            for name in sorted(missing):
                made[name] = "\n".join(self._struct(self._wanted[name]))
        names = " | ".join(kind.__name__ for kind in _STATES)
        yield "/** A handle, in one of its four states. */"
        yield f"export type HandleState = {names};\n"
        yield from (made[name] for name in sorted(made))

    def type_of(self, annotation: Any) -> str:
        if isinstance(annotation, tuple):
            return _union(self.type_of(one) for one in annotation)
        return self._type(inspect.type_info(annotation))

    def _struct(self, struct: type[msgspec.Struct]) -> Iterator[str]:
        config = struct.__struct_config__
        yield from _comment(_paragraph(struct), "")
        yield f"export interface {struct.__name__} {{"
        if config.tag_field and config.tag:
            yield f"  {config.tag_field}: {_literal(config.tag)};"
        for field in _fields(struct):
            if struct is methods.HandleInfo and field.name == "state":
                continue  # its fields are siblings of these on the wire
            key = f"{struct.__name__}.{field.encode_name}"
            text = OVERRIDES.get(key) or self._type(field.type)
            self.used.add(key)
            yield from _comment(_meaning(struct, field.encode_name), "  ")
            yield f"  {field.encode_name}{'' if _is_required(struct, field) else '?'}: {text};"
        yield "}\n"

    def _name(self, struct: type[msgspec.Struct]) -> str:
        self._wanted[struct.__name__] = struct
        return struct.__name__

    def _type(self, kind: inspect.Type) -> str:
        match kind:
            case inspect.Metadata(type=inner):
                return self._type(inner)
            case inspect.UnionType(types=types):
                members = [kind for kind in types if not _is_unset(kind)]
                structs = {
                    member.cls for member in members if isinstance(member, inspect.StructType)
                }
                if structs == set(_STATES) and len(members) == len(structs):
                    for state in _STATES:
                        self._name(state)
                    return "HandleState"
                return _union(self._type(member) for member in members)
            case inspect.StructType(cls=cls):
                return self._name(cls)
            case inspect.LiteralType(values=values):
                return _union(map(_literal, values))
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return _list(self._type(item))
            case inspect.TupleType(item_types=items):
                return f"[{', '.join(self._type(item) for item in items)}]"
            case inspect.DictType(value_type=value):
                return f"{{ [name: string]: {self._type(value)} }}"
            case inspect.StrType() | inspect.CustomType():
                return "string"
            case inspect.IntType() | inspect.FloatType():
                return "number"
            case inspect.BoolType():
                return "boolean"
            case inspect.NoneType():
                return "null"
            case inspect.AnyType():
                return "unknown"
        raise ValueError(f"no TypeScript for {kind}")


_STATES = (states.Pending, states.Running, states.Waiting, states.Stopped)


def _fields(struct: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _is_required(struct: type[msgspec.Struct], field: inspect.Field) -> bool:
    """Return true if the field is always present: required, or sent with any value."""
    if field.required:
        return True
    is_unset = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    takes = issubclass(struct, methods.Params) or struct.__struct_config__.forbid_unknown_fields
    return not (is_unset or takes or struct.__struct_config__.omit_defaults)


def _errors() -> Iterator[str]:
    yield "/** The kind that each of the daemon's errors names in `data`, and its code. */"
    yield "export interface ErrorCodes {"
    for kind, code in errors.CODES.items():
        yield f"  {kind}: {code};"
    yield "}\n"
    yield "export interface RpcError {"
    yield "  code: number;"
    yield "  message: string;"
    yield "  data?: { kind: keyof ErrorCodes; [name: string]: unknown };"
    yield "}\n"


def _union(members: Iterator[str] | map[str]) -> str:
    return " | ".join(dict.fromkeys(members))


def _list(item: str) -> str:
    return f"({item})[]" if " " in item else f"{item}[]"


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_unset(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.CustomType) and kind.cls is msgspec.UnsetType


def _meaning(struct: type[msgspec.Struct], name: str) -> str:
    for kind in struct.__mro__:
        if meaning := MEANINGS.get(f"{kind.__name__}.{name}"):
            return meaning
    return MEANINGS.get(name, "")


def _paragraph(struct: type[msgspec.Struct]) -> str:
    return re.sub(r"\s+", " ", (struct.__doc__ or "").strip().partition("\n\n")[0])


def _comment(text: str, indent: str) -> Iterator[str]:
    if text:
        words = re.sub(r"\[([^]]+)\]\(#[^)]*\)", r"\1", text).replace("*/", "* /")
        yield f"{indent}/** {words} */"
