"""Reading a handle: when a call may answer (`wait`) and what it then shows (`view`).

Rules: a condition is looked at synchronously, when the call arrives and whenever the handle
changes; the waiting call is woken only when it holds. Nothing polls: a timer stands only for the
caller's own deadline and for the quiet it asked for. Section 4 of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.errors import invalid_params
from haft_protocol.methods import FetchParams, SpawnParams, Wait
from haft_protocol.states import HandleState, Screen, Waited
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.patterns import Watch, compile_pattern
from haftd.daemon import Daemon

from .base import Later
from .waiting import until

__all__ = ["Reading", "answer", "look", "plan", "usual"]

DEADLINE_MS = 10_000
PIPE_BOUND_MS = 250


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call waits for, from where in the output, and for how long."""

    wait: Wait
    timeout_s: float
    quiet_s: float
    since: int
    pattern: str
    announced: bool
    """Whether the caller asked for a wait, so that the reply says how it ended."""


def usual(handle: Handle) -> Wait:
    """What spawn and apply wait for when the caller does not say."""
    return "input" if handle.terminal else "output"


def plan(
    params: FetchParams | SpawnParams, handle: Handle, *, since: int, default: Wait
) -> Reading:
    """Turn a call's fields into a reading; `since` is the offset from which output is new."""
    wait = default if isinstance(params.wait, UnsetType) else params.wait
    pattern = "" if isinstance(params.pattern, UnsetType) else params.pattern
    if wait == "pattern" and not pattern:
        raise invalid_params("`wait` is `pattern` but there is no `pattern`", field="pattern")
    if pattern:
        compile_pattern(pattern)
        if isinstance(params.wait, UnsetType):
            wait = "pattern"
    if params.view == "screen" and not handle.terminal:
        raise invalid_params(
            "`view` is `screen`, but this handle has no terminal; use `delta`, `all` or `tail`",
            field="view",
        )
    bound = DEADLINE_MS
    if not isinstance(params.timeout_ms, UnsetType):
        bound = params.timeout_ms
    elif isinstance(params.wait, UnsetType) and default == "output" and wait == "output":
        bound = PIPE_BOUND_MS
    return Reading(
        wait=wait,
        timeout_s=bound / 1000,
        quiet_s=params.quiet_ms / 1000,
        since=since,
        pattern=pattern,
        announced=not isinstance(params.wait, UnsetType) or wait != "none",
    )


def look(
    daemon: Daemon,
    params: FetchParams | SpawnParams,
    handle: Handle,
    waited: Waited | UnsetType = UNSET,
) -> HandleState:
    """Show the handle as the call asked for; moves the read mark when the view is `delta`."""
    cursor = params.cursor if isinstance(params, FetchParams) else UNSET
    screen: Screen | UnsetType = UNSET
    if params.view == "screen":
        use = daemon.supervisor.use_of(handle)
        shot = use.screen() if use is not None else None
        if shot is not None:
            screen = shot
    return handle.view(
        trio.current_time(),
        view=params.view,
        cursor=None if isinstance(cursor, UnsetType) else cursor,
        max_bytes=params.max_bytes,
        waited=waited,
        screen=screen,
    )


def answer(
    daemon: Daemon, params: FetchParams | SpawnParams, handle: Handle, reading: Reading
) -> HandleState | Later:
    """Answer at once where the condition holds or nothing is to be waited for, else later."""
    check = _condition(handle, reading)
    reason = check()
    if reason is None and reading.wait == "none":
        reason = "immediate"
    if reason is None and reading.timeout_s == 0:
        reason = "deadline"
    if reason is not None:
        return look(daemon, params, handle, reason if reading.announced else UNSET)

    async def wait_and_look() -> HandleState:
        return look(daemon, params, handle, await _wait(handle, reading, check))

    return Later(wait_and_look)


def _condition(handle: Handle, reading: Reading) -> Callable[[], Waited | None]:
    """Build the synchronous check that says why the call may answer now, or None."""
    watch = Watch(compile_pattern(reading.pattern)) if reading.wait == "pattern" else None
    seen = reading.since

    def check() -> Waited | None:
        nonlocal seen
        stopped = handle.state is State.STOPPED
        match reading.wait:
            case "none":
                return "stopped" if stopped and reading.announced else None
            case "pattern":
                assert watch is not None
                end = handle.spool.end
                if end > seen:
                    found = watch.feed(handle.spool.read(seen, end))
                    seen = end
                    if found:
                        return "matched"
            case "output":
                if handle.readable_end() > reading.since:
                    return "output"
            case "input" | "quiet":
                if handle.state is State.WAITING and reading.wait == "input":
                    return "input"
                if not stopped and _still_for(handle) >= reading.quiet_s:
                    return "quiet"
            case "stopped":
                pass
        return "stopped" if stopped else None

    return check


def _still_for(handle: Handle) -> float:
    return trio.current_time() - handle.last_activity


async def _wait(handle: Handle, reading: Reading, check: Callable[[], Waited | None]) -> Waited:
    still = reading.wait in ("quiet", "input")
    reason: Waited | None = await until(
        (handle,),
        check,
        deadline=trio.current_time() + reading.timeout_s,
        look_again=(lambda: handle.last_activity + reading.quiet_s) if still else None,
    )
    return "deadline" if reason is None else reason
