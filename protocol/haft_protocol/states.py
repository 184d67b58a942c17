"""Handle state object: the result of spawn, fetch, apply and abort (docs/protocol.md, "The handle
state").

Each state carries only its own data. An absent field is omitted; `null` has a meaning where
permitted.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .questions import Question

__all__ = [
    "SUSPENDED_HINT",
    "Base64",
    "By",
    "EndedBy",
    "Exit",
    "HandleState",
    "InputKind",
    "InputWanted",
    "LeftBehind",
    "Needs",
    "Notice",
    "Pending",
    "Review",
    "Running",
    "Screen",
    "Stopped",
    "StyledRows",
    "TerminalSize",
    "ToolError",
    "Truncated",
    "Waited",
    "Waiting",
    "as_text",
]

By = Literal["exit", "abort", "turn_end", "disconnect", "shutdown", "limit", "lost"]
Review = Literal["held", "waits", "allowed", "edited", "denied", "skipped", "dropped"]
InputKind = Literal["line", "key", "secret"]
Needs = Literal["nothing", "answer", "decision", "line", "key", "secret"]
Waited = Literal["immediate", "output", "input", "matched", "quiet", "stopped", "deadline"]


SUSPENDED_HINT = 'A signal has stopped the program; the input {"signal": "CONT"} continues it, and abort ends it.'


class Base64(str):
    """Bytes as text on the wire; truncation leaves them whole."""

    __slots__ = ()


def as_text(value: object) -> str:
    """Return the wire form of a `Base64`, as the `enc_hook` of encoders."""
    if isinstance(value, Base64):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} has no form on the wire")


class Exit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process's exit status: `code` or `signal` (its name without SIG), never both."""

    code: int | UnsetType = UNSET
    signal: str | UnsetType = UNSET


class LeftBehind(msgspec.Struct, frozen=True):
    """A process of the handle that outlived the main one."""

    pid: int
    command: str


class EndedBy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason of a handle's end; `client` names the client that caused it."""

    by: By
    client: str | UnsetType = UNSET


class ToolError(msgspec.Struct, frozen=True):
    """A tool's own failure. `transient`: the same call may succeed later."""

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class InputWanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The input that a process reads: a line, a key or a secret, with the last line of output."""

    kind: InputKind
    prompt: str
    certain: bool = True


class TerminalSize(msgspec.Struct, frozen=True, omit_defaults=True):
    """The size of a terminal, from the first resize on. `client` names the owner: the latest client
    that resized the terminal, or typed after giving a size; `yours`: the owner is this connection."""

    rows: int
    cols: int
    client: str | UnsetType = UNSET
    yours: bool = False


StyledRows = tuple[tuple[tuple[str, str], ...], ...]
"""Rows of runs: each a pair of text and the parameters of the SGR sequence (ECMA-48) of its style, empty for none."""


class Screen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A terminal's screen, or the rows `changed` (by number), then without `lines`. `cursor` is
    [row, col] from 0; `scrollback` counts the lines above. With `styles` the rows are `runs`."""

    rows: int
    cols: int
    cursor: tuple[int, int]
    alt: bool
    title: str
    revision: int
    scrollback: int
    lines: tuple[str, ...] = ()
    changed: dict[str, str] | UnsetType = UNSET
    runs: StyledRows | UnsetType = UNSET


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event new to the session; `at` is in seconds since the epoch, `id` names the handle. Of
    output: the matched `pattern`, the number of lines (`count`), and the first of them."""

    kind: str
    level: Literal["info", "warning", "error", "critical"]
    message: str
    at: float
    id: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    lines: tuple[str, ...] | UnsetType = UNSET
    count: int | UnsetType = UNSET


class Truncated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A truncated result: `kept` of `bytes` are here, all in `path` if set, except `omitted` bytes
    no longer kept."""

    bytes: int
    kept: int
    path: str | None
    omitted: int = 0


class _Handle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="state"):
    id: str
    tool: str
    session: str
    cursor: int
    generation: int
    elapsed_ms: int
    omitted: int = 0
    echoed: int = 0
    waited: Waited | UnsetType = UNSET
    screen: Screen | UnsetType = UNSET
    skipped: str | UnsetType = UNSET
    limit: Literal["max_batch_reply"] | UnsetType = UNSET
    review: Review | UnsetType = UNSET
    needs: Needs = "nothing"
    size: TerminalSize | UnsetType = UNSET
    stderr: tuple[tuple[int, int], ...] | UnsetType = UNSET


class Pending(_Handle, frozen=True, kw_only=True, omit_defaults=True, tag="pending"):
    """The id is taken; no process runs yet."""

    state: ClassVar[Literal["pending"]] = "pending"
    content: str


class Running(_Handle, frozen=True, kw_only=True, omit_defaults=True, tag="running"):
    """The tool is running."""

    state: ClassVar[Literal["running"]] = "running"
    content: str
    input_wanted: InputWanted | UnsetType | None = UNSET
    suspended: bool = False
    hint: str | UnsetType = UNSET


class Waiting(_Handle, frozen=True, kw_only=True, omit_defaults=True, tag="waiting"):
    """The tool waits for the answer to one question."""

    state: ClassVar[Literal["waiting"]] = "waiting"
    content: str
    question: Question
    inquiry_id: str | UnsetType = UNSET


class Stopped(_Handle, frozen=True, kw_only=True, omit_defaults=True, tag="stopped"):
    """The final state, with `result` or `error`. `content` stands beside the error of a raw
    process, `output` beside a result or error of the tool's own."""

    state: ClassVar[Literal["stopped"]] = "stopped"
    ended_by: EndedBy
    result: str | UnsetType = UNSET
    error: ToolError | UnsetType = UNSET
    content: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    exit: Exit | UnsetType = UNSET
    output_complete: bool | UnsetType = UNSET
    left_behind: tuple[LeftBehind, ...] | UnsetType = UNSET
    unconfirmed: tuple[int, ...] | UnsetType = UNSET
    truncated: Truncated | UnsetType = UNSET


HandleState = Pending | Running | Waiting | Stopped
