"""Printed forms in which a tool's process reports, in both generations (docs/tools.md).

An object with a known `type` is an outcome, or `Malformed` if a field does not fit. Anything else
is `Raw`, no error.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .questions import Question, read_question

__all__ = [
    "Described",
    "Failure",
    "Malformed",
    "NeedsInput",
    "Outcome",
    "Progress",
    "Raw",
    "SchemaUnreadable",
    "Success",
    "read_event",
    "read_outcome",
    "read_schema",
]


class Success(msgspec.Struct, frozen=True):
    """The tool succeeded with the result `content`; `output` is a `stopped` state's text beside it."""

    content: str
    output: str = ""


class Failure(msgspec.Struct, frozen=True):
    """The tool failed. `transient`: the same call may succeed later."""

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False
    output: str = ""


class NeedsInput(msgspec.Struct, frozen=True):
    """The tool asks. An ended process is run again with the answer in `answers`."""

    question: Question
    content: str = ""


class Progress(msgspec.Struct, frozen=True):
    """The tool runs; `content` is the output since the previous report."""

    content: str


class Raw(msgspec.Struct, frozen=True):
    """Any other text, which is the output."""


class Malformed(msgspec.Struct, frozen=True):
    """Outcome with an invalid field; `message` is a clause ("a malformed `error` outcome: `message`
    is missing; it must be a string")."""

    message: str


Outcome = Success | Failure | NeedsInput | Progress | Malformed | Raw

_RAW = Raw()
_decode = msgspec.json.Decoder().decode
_BLANK = b" \t\r\n"


def _read_object(text: bytes) -> dict[str, Any] | None:
    if not (text.lstrip(_BLANK).startswith(b"{") and text.rstrip(_BLANK).endswith(b"}")):
        return None
    try:
        form = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError):
        return None
    return form if isinstance(form, dict) else None


def read_outcome(stdout: bytes) -> Outcome:
    """Read the whole stdout of an ended process."""
    form = _read_object(stdout)
    return _RAW if form is None else _read(form)


def read_event(line: bytes) -> Outcome:
    """Read one line of a live tool: a state, bare or in a notification `state`."""
    form = _read_object(line)
    if form is None:
        return _RAW
    match form:
        case {"jsonrpc": "2.0", "method": "state", "params": dict(params)} if "id" not in form:
            return _read(params)
        case _:
            return _read(form)


class _Wrong(ValueError):
    """Invalid field; the message is a clause."""


def _read(form: dict[str, Any]) -> Outcome:
    try:
        match form.get("type"):
            case "success":
                return Success(_string(form, "content"))
            case "error":
                return _failure(form)
            case "needs_input" | "waiting":
                return NeedsInput(_question(form), _content(form))
            case "running" | "spawned":
                return Progress(_content(form))
            case "stopped":
                return _stopped(form)
    except _Wrong as wrong:
        return Malformed(f"a malformed `{form['type']}` outcome: {wrong}")
    return _RAW


def _check(fits: bool, form: dict[str, Any], key: str, expected: str, path: str = "") -> None:
    if not fits:
        actual = _KINDS.get(type(form[key]), "a number") if key in form else "missing"
        raise _Wrong(f"`{path}{key}` is {actual}; it must be {expected}")


_KINDS = {
    str: "a string",
    bool: "a boolean",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def _string(form: dict[str, Any], key: str, path: str = "") -> str:
    value = form.get(key)
    _check(isinstance(value, str), form, key, "a string", path)
    return str(value)


def _content(form: dict[str, Any]) -> str:
    return "" if form.get("content") is None else _string(form, "content")


def _failure(form: dict[str, Any], path: str = "") -> Failure:
    message = _string(form, "message", path)
    trace = form.get("trace") or []
    fits = isinstance(trace, list) and all(isinstance(line, str) for line in trace)
    if isinstance(trace, list) and not fits:
        raise _Wrong(
            f"`{path}trace` has an item that is not a string; it must be an array of strings"
        )
    _check(fits, form, "trace", "an array of strings", path)
    transient = form.get("transient", False)
    _check(isinstance(transient, bool), form, "transient", "true or false", path)
    return Failure(message, tuple(trace), transient)


def _question(form: dict[str, Any]) -> Question:
    question = form.get("question")
    _check(isinstance(question, dict), form, "question", "an object")
    try:
        return read_question(question)
    except msgspec.ValidationError as error:
        raise _Wrong(f"its `question` is wrong: {error}") from None


def _stopped(form: dict[str, Any]) -> Outcome:
    """Read `result` and `error` side by side, or in an envelope."""
    content = _content(form)
    if form.get("error") is not None:
        return _error(form, "error", "", content)
    result = form.get("result")
    match result:
        case None:
            return Success(content)
        case str():
            return Success(result, content)
        case {"Err": _, **rest} if not rest:
            return _error(result, "Err", "result.", content)
        case {"Ok": _, **rest} if not rest:
            return Success(_string(result, "Ok", "result."), content)
    raise _Wrong('`result` must be a string, {"Ok": …} or {"Err": …}')


def _error(form: dict[str, Any], key: str, path: str, output: str) -> Failure:
    error = form[key]
    if isinstance(error, str):
        return Failure(error, output=output)
    _check(isinstance(error, dict), form, key, "an object or a string", path)
    return msgspec.structs.replace(_failure(error, f"{path}{key}."), output=output)


class Described(msgspec.Struct, frozen=True):
    """A tool as its program describes it; `parameters`: a form by name, or a whole schema. `error`:
    why the program has no description of this tool."""

    name: str
    summary: str | None = None
    description: str | None = None
    examples: str | None = None
    parameters: dict[str, Any] = {}
    error: str | None = None


class _Schema(msgspec.Struct, frozen=True):
    tools: tuple[Described, ...]


class SchemaUnreadable(ValueError):
    """A program did not describe itself; the message names the fault."""


_decode_schema = msgspec.json.Decoder(_Schema).decode


def read_schema(stdout: bytes) -> tuple[Described, ...]:
    """Read a program's answer to the action `schema`; raise `SchemaUnreadable`."""
    if not stdout.strip():
        raise SchemaUnreadable("it printed nothing")
    try:
        tools = _decode_schema(stdout).tools
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError) as fault:
        raise SchemaUnreadable(f"it printed no description of tools ({fault})") from None
    names = [tool.name for tool in tools]
    if not names:
        raise SchemaUnreadable("it describes no tool")
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise SchemaUnreadable(f"it describes {double!r} twice")
    return tools
