"""Params and results of the methods on handles."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import (
    Arguments,
    Id,
    MaxBytes,
    Milliseconds,
    Offset,
    Params,
    Reader,
    Root,
    SessionOrAll,
)
from .states import HandleState

__all__ = [
    "AbortParams",
    "ApplyParams",
    "AwaitParams",
    "AwaitResult",
    "FetchParams",
    "FoundLine",
    "HandleInfo",
    "HandlesListParams",
    "HandlesListResult",
    "ReadingParams",
    "SearchParams",
    "SearchResult",
    "SpawnParams",
    "StdinFrom",
    "TimelineParams",
    "TimelineResult",
    "View",
    "Wait",
]

Wait = Literal["none", "output", "input", "pattern", "quiet", "stopped"]

View = Literal["delta", "answer", "all", "tail", "screen", "raw", "paint"]
"""`answer`: the delta without the input's echo and without the prompt, which stands beside; `raw`:
at most `max_bytes` from `cursor` or the read offset on, in base64; `paint`: bytes that draw a
terminal's screen on an empty one, in base64."""


class ReadingParams(Params, frozen=True, kw_only=True):
    """The condition on which a method answers, and the view that it returns."""

    wait: Wait | UnsetType = UNSET
    timeout_ms: Milliseconds | UnsetType = UNSET
    quiet_ms: Milliseconds = 500
    pattern: Annotated[str, Meta(max_length=4096)] | UnsetType = UNSET
    view: View = "delta"
    max_bytes: MaxBytes = 65_536


class StdinFrom(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A handle of the session that feeds another's input with its output, from the beginning or
    from `cursor`."""

    id: Id
    cursor: Offset | UnsetType = UNSET


class SpawnParams(ReadingParams, frozen=True, kw_only=True):
    """Start a tool under an id. `env` replaces the daemon's environment; `null` omits a name.
    `stdin_from` pipes a handle's output into standard input; `split_stderr` gives standard error a
    pipe of its own where the output is raw. Without `retain` the handle is forgotten at its end. A
    start that awaits approval after `approval_timeout_ms` outlives the call, which answers
    `pending`. With `cursor`, as in `fetch`, neither output nor an end is read for the session."""

    tool: str
    id: Id
    args: Arguments = msgspec.field(default_factory=dict)
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    env: dict[str, str | None] | UnsetType = UNSET
    stdin_from: StdinFrom | UnsetType = UNSET
    split_stderr: bool = False
    retain: bool = True
    approval_timeout_ms: Milliseconds | UnsetType = UNSET
    cursor: Offset | UnsetType = UNSET

    def __post_init__(self) -> None:
        args: object = self.args
        if args is None:
            msgspec.structs.force_setattr(self, "args", {})


class FetchParams(ReadingParams, frozen=True, kw_only=True):
    """Read a handle; `cursor` reads from an offset and leaves the session's read offset unchanged.

    `for` = `terminal` leaves queries and clipboard writes (unless `clipboard`) out of `raw` and
    `paint`, for a client with an emulator. The cursor stays an offset of the original output,
    before any incomplete sequence.
    """

    id: Id
    cursor: Offset | UnsetType = UNSET
    since_revision: Offset | UnsetType = UNSET
    for_: Reader | UnsetType = msgspec.field(name="for", default=UNSET)
    clipboard: bool = False
    styles: bool = False


class ApplyParams(FetchParams, frozen=True, kw_only=True):
    """Give a handle input, or the answer to its question; then read as fetch does."""

    input: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"ApplyParams(id={self.id!r}, …)"


class AbortParams(Params, frozen=True, kw_only=True):
    """End a handle by TERM, and by KILL after the grace; answered once all processes have ended."""

    id: Id
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] | UnsetType = UNSET


class AwaitParams(Params, frozen=True, kw_only=True):
    """Wait until all of `all` and one of `any` have stopped, or the rest waits for answers."""

    any: tuple[Id, ...] = ()
    all: tuple[Id, ...] = ()
    timeout_secs: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType = UNSET


class AwaitResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of stopped handles, of live ones, and of those that wait for an answer."""

    completed: tuple[HandleState, ...]
    pending: tuple[HandleState, ...]
    timed_out: bool = False
    waiting: tuple[HandleState, ...] = ()


class HandlesListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List the handles of one session, or of all with `*`."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class HandleInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A handle's state and metrics. Times are seconds since the epoch, `age_s` seconds since spawn;
    `cpu_s` and `memory` (resident bytes) are sums over processes."""

    state: HandleState
    command: str
    root: str
    started_at: float
    age_s: float
    bytes: int
    last_output_at: float | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    cpu_s: float | UnsetType = UNSET
    memory: int | UnsetType = UNSET


class HandlesListResult(msgspec.Struct, frozen=True):
    """The handles, each with the fields of `HandleInfo`."""

    handles: tuple[dict[str, Any], ...]


class SearchParams(Params, frozen=True, kw_only=True):
    """Find lines in the kept output of handles, running or stopped; a connection's searches take turns."""

    pattern: Annotated[str, Meta(min_length=1, max_length=4096)]
    ids: tuple[Id, ...] | UnsetType = UNSET
    max_matches: Annotated[int, Meta(ge=1, le=10_000)] = 200


class FoundLine(msgspec.Struct, frozen=True):
    """A matching line; `cursor` is the byte offset of its beginning."""

    id: str
    generation: int
    cursor: int
    line: str


class SearchResult(msgspec.Struct, frozen=True):
    """The matches, of 2 MiB at most; `more`: this, `max_matches` or 10 s of matching was met, so there may
    be more."""

    matches: tuple[FoundLine, ...]
    more: bool


class TimelineParams(Params, frozen=True, kw_only=True):
    """Return when the bytes of a handle's output were printed."""

    id: Id
    cursor: Offset = 0
    max_points: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class TimelineResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Points of a byte offset and the milliseconds from `started_at` to its printing; the bytes up
    to the next point were printed within `grain_ms`. `cursor` is the end of the output."""

    generation: int
    started_at: float
    grain_ms: int
    cursor: int
    points: tuple[tuple[int, int], ...]
    more: bool
    initial_size: tuple[int, int] | UnsetType = UNSET
    resizes: tuple[tuple[int, int, int, int], ...] = ()
    inputs: tuple[tuple[int, int, int], ...] = ()
