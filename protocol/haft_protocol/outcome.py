"""What a tool process prints, when it speaks one of our forms; both generations are read.

Rules: anything that is not exactly one of the forms is `Raw`, which is a supported form and no
error; nothing is guessed and nothing of the tool's text is changed. What a reading means for the
handle is not known here. Section 10.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .questions import Question, read_question

__all__ = [
    "Described",
    "Failure",
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


class Success(msgspec.Struct, frozen=True, tag=True):
    """It is done; `content` is its result."""

    content: str


class Failure(msgspec.Struct, frozen=True, tag=True):
    """It failed, in its own words. `transient`: the same call may succeed later."""

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class NeedsInput(msgspec.Struct, frozen=True, tag=True):
    """It asks. From a process that has ended: run it again with the answer added to `answers`."""

    question: Question
    content: str = ""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """It runs; `content` is what it has to say so far, since it last said something."""

    content: str


class Raw(msgspec.Struct, frozen=True, tag=True):
    """It printed something else: the text itself is the output."""


Outcome = Success | Failure | NeedsInput | Progress | Raw

_RAW = Raw()
_decode = msgspec.json.Decoder().decode
_BLANK = b" \t\r\n"


def _object(text: bytes) -> dict[str, Any] | None:
    """The JSON object that `text` is; None for anything else."""
    if not (text.lstrip(_BLANK).startswith(b"{") and text.rstrip(_BLANK).endswith(b"}")):
        return None
    try:
        found = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, dict) else None


def read_outcome(stdout: bytes) -> Outcome:
    """Read all that a process printed to stdout; call it when the process has ended."""
    form = _object(stdout)
    return _RAW if form is None else _read(form)


def read_event(line: bytes) -> Outcome:
    """Read one line of a live tool: a tool state, or the notification `state` with one in it."""
    form = _object(line)
    if form is None:
        return _RAW
    match form:
        case {"jsonrpc": "2.0", "method": "state", "params": dict(params)} if "id" not in form:
            return _read(params)
        case _:
            return _read(form)


def _read(form: dict[str, Any]) -> Outcome:
    match form:
        case {"type": "success", "content": str(content)}:
            return Success(content)
        case {"type": "error", "message": str()}:
            return _failure(form)
        case {"type": "needs_input" | "waiting", "question": dict(question)}:
            return _asked(question, form.get("content"))
        case {"type": "running" | "spawned"}:
            said = _content(form.get("content"))
            return _RAW if said is None else Progress(said)
        case {"type": "stopped"}:
            return _stopped(form)
    return _RAW


def _content(value: object) -> str | None:
    """`content` of a state, which may be null or absent; None when it is no text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def _failure(form: object) -> Outcome:
    if isinstance(form, str):
        return Failure(form)
    if not isinstance(form, dict) or not isinstance(form.get("message"), str):
        return _RAW
    trace = form.get("trace") or []
    transient = form.get("transient", False)
    if not isinstance(transient, bool) or not isinstance(trace, list):
        return _RAW
    if not all(isinstance(line, str) for line in trace):
        return _RAW
    return Failure(form["message"], tuple(trace), transient)


def _asked(question: dict[str, Any], content: object) -> Outcome:
    said = _content(content)
    try:
        return _RAW if said is None else NeedsInput(read_question(question), said)
    except msgspec.ValidationError:
        return _RAW


def _stopped(form: dict[str, Any]) -> Outcome:
    """A state `stopped`: `result` and `error` side by side, or one in the other's envelope."""
    error = form.get("error")
    if error is not None:
        return _failure(error)
    match form.get("result"):
        case {"Err": failure, **rest} if not rest:
            return _failure(failure)
        case str(text):
            return Success(text)
        case {"Ok": str(text), **rest} if not rest:
            return Success(text)
        case None:
            content = _content(form.get("content"))
            return _RAW if content is None else Success(content)
    return _RAW


class Described(msgspec.Struct, frozen=True):
    """A tool as its binary describes it; `parameters` as in a definition: a form by each name, or a
    whole schema."""

    name: str
    summary: str | None = None
    description: str | None = None
    examples: str | None = None
    parameters: dict[str, Any] = {}


class _Schema(msgspec.Struct, frozen=True):
    tools: tuple[Described, ...]


class SchemaUnreadable(ValueError):
    """A binary did not describe itself; the message says what was wrong with its answer."""


_decode_schema = msgspec.json.Decoder(_Schema).decode


def read_schema(stdout: bytes) -> tuple[Described, ...]:
    """Read what a binary answered to the action `schema`; raises `SchemaUnreadable`."""
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
