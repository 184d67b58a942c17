"""Replies as text for a model: a header line in square brackets, the output, notices; and notices
as Markdown (CommonMark), in which text of a process or a question becomes neither structure nor
invisible."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from .ellipsis import shorten
from .handles import AwaitResult
from .inquiries import Inquiry
from .questions import Boolean, Form, Question, Secret, Select
from .states import (
    HandleState,
    InputWanted,
    Notice,
    Pending,
    Running,
    Screen,
    Stopped,
    ToolError,
    Waiting,
)

__all__ = [
    "await_text",
    "has_failed",
    "list_text",
    "notices_markdown",
    "notices_text",
    "state_text",
]

MAX_COMMAND = 60
MAX_NOTICE = 300
MAX_TRACE = 20
_LEFT_OUT = re.compile(r"^… \d+ bytes left out …(?:\n|$)", re.MULTILINE)
_READS = {"line": "reads a line", "key": "reads keys", "secret": "reads a secret"}
_ENDS = {
    "abort": "ended by handle_stop",
    "turn_end": "ended with the turn",
    "disconnect": "ended with its last client",
    "shutdown": "ended with haftd",
    "limit": "ended by a limit",
    "lost": "lost in a restart of haftd",
}


def state_text(
    state: HandleState, *, inquiry: Inquiry | None = None, approval: str | None = None
) -> str:
    """Return the text of one handle. `inquiry`: a question that no candidate is asked; `approval`:
    the id of the approval that the start awaits."""
    parts = [_header_line(state, is_held=approval is not None)]
    body = _body(state)
    if body.strip():
        parts.append(body)
    if (prompt := _prompt(state)) and not _ends_with(body, prompt, state):
        parts.append(prompt)
    if isinstance(state, Waiting):
        parts.append(_question_text(state.id, state.question, inquiry))
    if isinstance(state, Pending) and approval is not None:
        parts.append(f"[a person decides: haft approve {approval} --allow, or --deny]")
    if (left_out := _left_out(state, body)) is not None:
        parts.append(left_out)
    return "\n".join(part.rstrip("\n") for part in parts)


def await_text(
    result: AwaitResult, inquiries: Mapping[str, Inquiry], held: Container[str] = ()
) -> str:
    """Return the text of several handles: stopped handles with output, other handles by header
    line.

    `inquiries` are open questions by handle, `held` the ids of starts that await approval.
    """
    texts = [state_text(state) for state in result.completed]
    texts += [state_text(state, inquiry=inquiries.get(state.id)) for state in result.waiting]
    texts += [_header_line(state, is_held=state.id in held) for state in result.pending]
    return "\n".join(texts)


def list_text(rows: Iterable[Mapping[str, Any]], held: Container[str] = ()) -> str:
    """Return a line per handle of `handles/list`, with its command; `held` as for `await_text`."""
    lines = []
    for row in rows:
        # Rows have no output: an error without an exit status is the tool's own.
        is_own = "error" in row and "exit" not in row
        state = msgspec.convert(row if is_own else {"content": "", **row}, HandleState)
        age = _age(float(row["age_s"]))
        head = ", ".join([_condition(state, is_held=state.id in held), age, *_wants(state)])
        command = _printable(str(row["command"] or row["tool"]))
        lines.append(f"{state.id}: {head}: {shorten(command, MAX_COMMAND)}")
    return "\n".join(lines) or "no handles"


def notices_text(notices: Iterable[Notice]) -> str:
    return "\n".join(
        f"[{notice.level}] {shorten(_printable(notice.message), MAX_NOTICE)}" for notice in notices
    )


def has_failed(state: object) -> bool:
    """True if the tool itself reported an error; an exit status is none."""
    return (
        isinstance(state, Stopped)
        and state.error is not UNSET
        and state.ended_by.by == "exit"
        and state.content is UNSET
    )


def _header_line(state: HandleState, *, is_held: bool) -> str:
    condition = _condition(state, is_held=is_held)
    return f"[{state.id}: {', '.join([condition, _age(state.elapsed_ms / 1000), *_wants(state)])}]"


def _condition(state: HandleState, *, is_held: bool) -> str:
    match state:
        case Pending():
            return "waits for approval" if is_held else "starting"
        case Running(suspended=True):
            return "suspended by a signal"
        case Running():
            return "running"
        case Waiting():
            return "asks"
    if has_failed(state):
        return "failed"
    if isinstance(state.exit, UnsetType) or state.ended_by.by != "exit":
        return _ENDS.get(state.ended_by.by, "done")
    if not isinstance(state.exit.signal, UnsetType):
        return f"killed by SIG{state.exit.signal}"
    return f"exit {state.exit.code}"


def _wants(state: HandleState) -> list[str]:
    if not isinstance(state, Running) or not isinstance(state.input_wanted, InputWanted):
        return []
    reads = _READS[state.input_wanted.kind]
    return [reads if state.input_wanted.certain else f"seems idle, possibly {reads}"]


def _body(state: HandleState) -> str:
    if not isinstance(state.screen, UnsetType):
        return _screen_text(state.screen)
    if not isinstance(state, Stopped):
        return state.content
    output = "" if isinstance(state.output, UnsetType) else state.output
    if not isinstance(state.result, UnsetType):
        return _joined(output, state.result)
    content = "" if isinstance(state.content, UnsetType) else state.content
    if isinstance(state.error, UnsetType):
        return content
    is_raw = not isinstance(state.content, UnsetType)
    if is_raw and state.ended_by.by not in ("limit", "lost"):
        return content
    if is_raw:
        return _joined(content, state.error.message)
    return _joined(output, _error_text(state.error))


def _joined(output: str, end: str) -> str:
    return f"{output.rstrip()}\n{end}" if output.strip() else end


def _error_text(error: ToolError) -> str:
    """Return message and last lines of the trace, which often ends with the message."""
    lines = list(error.trace)
    if lines and lines[-1].strip() == error.message.strip():
        del lines[-1]
    if len(lines) > MAX_TRACE:
        lines = ["…", *lines[-MAX_TRACE:]]
    return "\n".join([error.message, *(shorten(line, MAX_NOTICE) for line in lines)])


def _prompt(state: HandleState) -> str:
    if not isinstance(state, Running) or not isinstance(state.screen, UnsetType):
        return ""
    input_wanted = state.input_wanted
    return _printable(input_wanted.prompt) if isinstance(input_wanted, InputWanted) else ""


def _ends_with(body: str, prompt: str, state: HandleState) -> bool:
    """True if the output ends with the prompt, the last row of a full-screen program."""
    if body.endswith(prompt) or (body.endswith("\n") and body.endswith(f"{prompt.rstrip()}\n")):
        return True
    is_key = (
        isinstance(state, Running)
        and (input_wanted := state.input_wanted)
        and input_wanted.kind == "key"
    )
    return bool(is_key) and body.rstrip().endswith(prompt.rstrip())


def _screen_text(screen: Screen) -> str:
    shown = "\n".join(line.rstrip() for line in screen.lines).rstrip("\n")
    row, column = screen.cursor
    return f"{shown}\n[screen {screen.rows}x{screen.cols}, cursor at row {row}, column {column}]"


def _left_out(state: HandleState, body: str) -> str | None:
    """Return the amount missing and the way to read it."""
    if isinstance(state, Stopped) and not isinstance(state.output, UnsetType):
        body = state.output
    cut = _LEFT_OUT.search(body)
    if isinstance(state, Stopped) and not isinstance(state.truncated, UnsetType):
        missing = state.truncated.bytes - state.truncated.kept
        if state.truncated.path is not None:
            return f"[{missing:,} bytes left out; all is in {state.truncated.path}]"
        return f"[{missing:,} bytes left out]"
    if not state.omitted:
        return None
    if cut is None:
        return f"[{state.omitted:,} bytes left out]"
    behind = len(body[cut.start() :].encode()) - len(cut[0].encode())
    begin = max(0, state.cursor - state.omitted - behind)
    return (
        f'[{state.omitted:,} bytes left out; handle_read {{"id": "{state.id}", "from": {begin}}}]'
    )


def _question_text(id: str, question: Question, inquiry: Inquiry | None) -> str:
    text = "\n".join(part for part in (question.pre_amble, question.text) if part)
    if inquiry is None:
        return f"{text}\n[another client is being asked]"
    if inquiry.needs_a_person or isinstance(question.answer_type, Secret):
        return f"{text}\n[a person answers: haft answer {inquiry.inquiry_id}]"
    example, takes = _example(question)
    answer = msgspec.json.encode({"id": id, "answer": example}).decode()
    return f"{text}\n[takes {takes}; answer by handle_send {answer}]"


def _example(question: Question) -> tuple[Any, str]:
    match question.answer_type:
        case Boolean():
            return True, "true or false"
        case Select(options=options):
            return options[0], f"one of {_listed(options)}"
        case Form(fields=fields):
            chosen = {name: choice.options[0] for name, choice in fields.items()}
            named = "; ".join(
                f"{name}: one of {_listed(choice.options)}" for name, choice in fields.items()
            )
            return chosen, f"an object ({named})"
    return "…", "a string"


def _listed(options: Iterable[object]) -> str:
    return ", ".join(msgspec.json.encode(option).decode() for option in options)


def _age(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$!]")

_MAX_CHARS = 2_000
_MAX_LINE_CHARS = 400


def notices_markdown(notices: Iterable[Notice]) -> str:
    """Return a list item per notice, with its level and the output lines in a fence."""
    return "".join(map(_item, notices))


def _item(notice: Notice) -> str:
    lines = () if isinstance(notice.lines, UnsetType) else notice.lines
    message = notice.message
    if lines:
        message = message.removesuffix(lines[0]).rstrip()
    head = f"- **{notice.level}** {_sentence(notice, message)}\n"
    if not lines:
        return head
    shown = [_visible(line, _MAX_LINE_CHARS) for line in lines]
    runs = re.findall("`+", "\n".join(shown))
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    return head + "".join(f"  {line}\n" for line in (f"{fence}text", *shown, fence))


def _sentence(notice: Notice, message: str) -> str:
    """Return the escaped message; a leading handle's name becomes code."""
    name = f"`{notice.id}` "
    if not isinstance(notice.id, UnsetType) and message.startswith(name) and "`" not in notice.id:
        return name + _escaped(message.removeprefix(name))
    return _escaped(message)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", _visible(" ".join(text.split()), _MAX_CHARS))


def _visible(text: str, max_chars: int) -> str:
    """Return one line, with invisible and reordering characters escaped."""
    text = shorten(text, max_chars)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
