"""What is asked of handles, and answered: the five verbs, the list, the search.

Rules: those of `params`. A reply that is a state is one of `states`. Sections 4 and 8.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import Arguments, Id, MaxBytes, Milliseconds, Offset, Params, Root, SessionOrAll
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
    "TimelineParams",
    "TimelineResult",
    "View",
    "Wait",
]

Wait = Literal["none", "output", "input", "pattern", "quiet", "stopped"]

View = Literal["delta", "answer", "all", "tail", "screen", "raw", "paint"]
"""`answer`: the delta without the echo of what the call typed and without the prompt that is told beside it;
`raw`: the bytes themselves, from `cursor` or the read mark on, at most `max_bytes` of them, in base64;
`paint`: those that draw a terminal's present screen on an empty one, in base64."""


class ReadingParams(Params, frozen=True, kw_only=True):
    """When a method that reads a handle answers, and what it then shows."""

    wait: Wait | UnsetType = UNSET
    timeout_ms: Milliseconds | UnsetType = UNSET
    quiet_ms: Milliseconds = 500
    pattern: Annotated[str, Meta(max_length=4096)] | UnsetType = UNSET
    view: View = "delta"
    max_bytes: MaxBytes = 65_536


class SpawnParams(ReadingParams, frozen=True, kw_only=True):
    """Start a tool under an id. `env` replaces the daemon's environment; `null` leaves a name out."""

    tool: str
    id: Id
    args: Arguments = msgspec.field(default_factory=dict)
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    env: dict[str, str | None] | UnsetType = UNSET

    def __post_init__(self) -> None:
        args: object = self.args
        if args is None:
            msgspec.structs.force_setattr(self, "args", {})


class FetchParams(ReadingParams, frozen=True, kw_only=True):
    """Read a handle; `cursor` re-reads from an offset and leaves the read mark alone."""

    id: Id
    cursor: Offset | UnsetType = UNSET
    since_revision: Offset | UnsetType = UNSET


class ApplyParams(FetchParams, frozen=True, kw_only=True):
    """Give a handle input, or the answer it waits for; then read as fetch does."""

    input: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"ApplyParams(id={self.id!r}, …)"


class AbortParams(Params, frozen=True, kw_only=True):
    """End a handle: TERM, the grace, KILL; answered when nothing of it is left."""

    id: Id
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] | UnsetType = UNSET


class AwaitParams(Params, frozen=True, kw_only=True):
    """Wait until all of `all` and one of `any` have stopped, or what is left of them waits for an
    answer."""

    any: tuple[Id, ...] = ()
    all: tuple[Id, ...] = ()
    timeout_secs: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType = UNSET


class AwaitResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of those that have stopped, of those that have not, and of those that wait for an
    answer."""

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
    """A handle's state with what an assistant needs to find it again. Times are seconds since the
    epoch, `age_s` seconds since spawn, `cpu_s` and `memory` (bytes, resident) of all its processes."""

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
    """Each handle is its state object with the fields of `HandleInfo` beside it."""

    handles: tuple[dict[str, Any], ...]


class SearchParams(Params, frozen=True, kw_only=True):
    """Find lines in the kept output of handles, running or stopped."""

    pattern: Annotated[str, Meta(min_length=1, max_length=4096)]
    ids: tuple[Id, ...] | UnsetType = UNSET
    max_matches: Annotated[int, Meta(ge=1, le=10_000)] = 200


class FoundLine(msgspec.Struct, frozen=True):
    """A line that matches; `cursor` is the byte offset at which it begins."""

    id: str
    generation: int
    cursor: int
    line: str


class SearchResult(msgspec.Struct, frozen=True):
    """`more`: the limit was met, there may be others."""

    matches: tuple[FoundLine, ...]
    more: bool


class TimelineParams(Params, frozen=True, kw_only=True):
    """Return when the bytes of a handle's output were printed."""

    id: Id
    cursor: Offset = 0
    max_points: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class TimelineResult(msgspec.Struct, frozen=True):
    """Each point is a byte offset and the milliseconds from `started_at` to the moment at which this byte
    was printed; the bytes up to the next point were printed within `grain_ms` of that moment. `cursor` is
    the end of the output."""

    generation: int
    started_at: float
    grain_ms: int
    cursor: int
    points: tuple[tuple[int, int], ...]
    more: bool
