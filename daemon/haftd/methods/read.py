"""Reading a handle: condition (`wait`) and content (`view`) of a reply (docs/protocol.md, "Waiting"
and "Reading output").

The kernel has no event for the input state, polled in growing pauses during such a wait.
"""

from __future__ import annotations

from base64 import b64encode

import trio
from msgspec import UNSET, UnsetType, structs

from haft_protocol.errors import invalid_params
from haft_protocol.methods import FetchParams, SpawnParams, Wait
from haft_protocol.states import (
    Base64,
    HandleState,
    InputWanted,
    Running,
    Screen,
    Stopped,
    StyledRows,
    Waited,
)
from haft_protocol.terminal_queries import filter_bytes
from haftd.core.echo import TypedInput, echo_size, prompt_size
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.patterns import OutputMatcher, compile_pattern
from haftd.core.read_position import read_of
from haftd.core.terminal_filter import TerminalReader
from haftd.core.text import DeferredText, last_line, last_plain_row
from haftd.core.views import handle_state, read_handle
from haftd.executions.execution import Execution
from haftd.executions.supervisor import Supervisor
from haftd.runtimes.base import Wanted

from .base import DeferredReply, HandleWait, PendingReply
from .conditions import Reading, condition_of

_TEXTS = ("content", "result", "output")
DEADLINE_MS = 10_000
PIPE_BOUND_MS = 250
_SILENT_S = 0.1
_INPUT_REASONS = ("input", "quiet")
"""Reasons that depend on the input state."""


def plan(
    params: FetchParams | SpawnParams, *, terminal: bool, default: Wait | None = None
) -> Reading:
    """Return a call's wait, by default the usual one of a terminal or pipe.

    Raises `invalid_params`. On a pipe a read of input ends a start only: a server that always reads
    has not replied.
    """
    usual: Wait = "input" if terminal else "output"
    wait = params.wait if not isinstance(params.wait, UnsetType) else default or usual
    pattern = "" if isinstance(params.pattern, UnsetType) else params.pattern
    if wait == "pattern" and not pattern:
        raise invalid_params("`wait` is `pattern` but there is no `pattern`", field="pattern")
    if pattern:
        compile_pattern(pattern)
        if isinstance(params.wait, UnsetType):
            wait = "pattern"
    if params.view in ("screen", "paint") and not terminal:
        raise invalid_params(
            f"`view` is `{params.view}`, but this handle has no terminal; use `delta`, `all` or `tail`",
            field="view",
        )
    is_usual = isinstance(params.wait, UnsetType) and default is None and wait == "output"
    bound = DEADLINE_MS
    if not isinstance(params.timeout_ms, UnsetType):
        bound = params.timeout_ms
    elif is_usual:
        bound = PIPE_BOUND_MS
    return Reading(
        wait=wait,
        timeout_s=bound / 1000,
        quiet_s=params.quiet_ms / 1000,
        pattern=pattern,
        announced=not isinstance(params.wait, UnsetType) or wait != "none",
        or_input=is_usual and isinstance(params, SpawnParams),
    )


def plain_state(handle: Handle) -> HandleState:
    """Return a plain fetch's state, without moving the read offset."""
    return handle_state(handle, trio.current_time())


def read_plain(handle: Handle) -> HandleState:
    """Return a plain fetch's state; moves the read offset."""
    return read_handle(handle, trio.current_time())


def look(
    supervisor: Supervisor,
    params: FetchParams | SpawnParams,
    handle: Handle,
    waited: Waited | UnsetType = UNSET,
    wanted: Wanted | None = None,
    typed: TypedInput | None = None,
    *,
    is_reader: bool = True,
) -> HandleState | PendingReply:
    """Return the requested view; `delta` and `answer` move the read offset.

    A long text defers the reply. `wanted` is the input state just read, `typed` the call's own
    input.
    """
    cursor = params.cursor if isinstance(params, FetchParams) else UNSET
    screen: Screen | UnsetType = UNSET
    painted = ""
    execution = supervisor.execution_of(handle)
    if params.view == "screen":
        since: int | UnsetType = UNSET
        if isinstance(params, FetchParams) and not params.styles:
            since = params.since_revision
        shot = handle.last_screen
        if execution is not None:
            shot = execution.screen(None if isinstance(since, UnsetType) else since)
        screen = UNSET if shot is None else shot
        if shot is not None and isinstance(params, FetchParams) and params.styles:
            live = None if handle.stopped else execution
            screen = _styled(shot, None if live is None else live.styled_rows())
    elif params.view == "paint":
        bytes_that_draw = handle.last_paint if execution is None else execution.paint()
        drawn = bytes_that_draw or b""
        if (reader := _terminal_reader(params)) is not None:
            # Bytes not drawn yet are the output itself.
            drawn = filter_bytes(drawn, clipboard=reader.clipboard).data
        painted = Base64(b64encode(drawn).decode())
    before = handle.position
    begin = before.offset if isinstance(cursor, UnsetType) else cursor
    start = None if isinstance(cursor, UnsetType) else cursor
    view = "delta" if params.view == "answer" else params.view
    now = trio.current_time()
    state = handle_state(
        handle,
        now,
        view=view,
        cursor=start,
        max_bytes=params.max_bytes,
        waited=waited,
        screen=screen,
        painted=painted,
        terminal=_terminal_reader(params),
        input_wanted=_input_wanted(supervisor, handle, waited, wanted),
        suspended=_is_suspended(handle, execution, waited),
        save=True,
        defer=True,
    )
    # A cursor has no earlier screen.
    viewed = handle.spool.end if start is None and view in ("screen", "paint") else None
    if view == "raw" and (spans := handle.stderr_spans.between(begin, state.cursor)):
        state = structs.replace(state, stderr=spans)
    if is_reader:
        handle.read(read_of(state, view, start, viewed), now)
    if handle.stopped:
        supervisor.wake_expiry()
    after = handle.position
    echo = typed.text if typed is not None and typed.at == begin else ""

    def shown(state: HandleState) -> HandleState:
        return state if params.view != "answer" else _without_known(state, echo)

    deferred = [name for name in _TEXTS if isinstance(getattr(state, name, None), DeferredText)]
    if not deferred:
        return shown(state)

    async def converted() -> HandleState:
        def convert() -> dict[str, str]:
            return {name: getattr(state, name).convert() for name in deferred}

        try:
            texts = await trio.to_thread.run_sync(convert, abandon_on_cancel=True)
        except trio.Cancelled:
            handle.undo_read(before, after)
            raise
        return shown(structs.replace(state, **texts))

    return DeferredReply(converted)


def _styled(shot: Screen, rows: StyledRows | None) -> Screen:
    """Replace the lines by runs, without style where unknown: after the end, on a large screen."""
    if rows is None or len(rows) != shot.rows:
        rows = tuple(((line, ""),) if line else () for line in shot.lines)
    return structs.replace(shot, lines=(), changed=UNSET, runs=rows)


def _terminal_reader(params: FetchParams | SpawnParams) -> TerminalReader | None:
    if isinstance(params, FetchParams) and not isinstance(params.for_, UnsetType):
        return TerminalReader(params.clipboard)
    return None


def _without_known(state: HandleState, typed: str) -> HandleState:
    """Remove the leading echo of `typed`, and a separate prompt."""
    name = "result" if isinstance(state, Stopped) and isinstance(state.result, str) else "content"
    if isinstance(state, Stopped) and isinstance(state.output, str):
        name = "output"
    text = getattr(state, name)
    if isinstance(text, UnsetType):
        return state
    echo = text[: echo_size(text, typed)] if typed else ""
    text = text[len(echo) :]
    if isinstance(state, Running) and isinstance(state.input_wanted, InputWanted):
        text = text[: len(text) - prompt_size(text, state.input_wanted.prompt)]
    return structs.replace(state, **{name: text, "echoed": len(echo.encode())})


def _input_wanted(
    supervisor: Supervisor, handle: Handle, waited: Waited | UnsetType, wanted: Wanted | None
) -> InputWanted | UnsetType | None:
    """Return the expected input, of a pipe only after a wait for input, as it is costly."""
    execution = supervisor.execution_of(handle)
    if handle.state is not State.RUNNING or execution is None:
        return UNSET
    if not handle.terminal:
        return InputWanted("line", _prompt(handle, execution)) if waited == "input" else UNSET
    wanted = wanted or execution.wanted()
    kind = wanted.expected
    if kind is None:
        return None
    return InputWanted(kind, _prompt(handle, execution), wanted.state != "unknown")


def _is_suspended(handle: Handle, execution: Execution | None, waited: Waited | UnsetType) -> bool:
    """Return True for a stopped tool; asked only after a silence."""
    if (
        handle.state is not State.RUNNING
        or execution is None
        or waited in ("input", "output", "matched")
    ):
        return False
    is_silent = trio.current_time() - (handle.last_output or handle.created_at) >= _SILENT_S
    return (is_silent or waited in ("deadline", "quiet")) and execution.is_suspended()


def _prompt(handle: Handle, execution: Execution) -> str:
    line = last_line(handle.spool, handle.rendering)
    if line.strip() or not handle.terminal:
        return line
    rows, cols = handle.timeline.initial_size or (0, 0)
    # One row scrolls the line away. A screen takes as long as the look at the processes.
    if rows > 1 and not handle.timeline.resizes and (row := last_plain_row(handle.spool, cols)):
        return row
    screen = execution.picture()
    lines = () if screen is None else screen.lines
    return next((text for text in reversed(lines) if text), "")


def new_from(supervisor: Supervisor, params: FetchParams, handle: Handle) -> int:
    """Return the offset of new output: the caller's cursor, else the read offset."""
    if not isinstance(params.cursor, UnsetType):
        start = params.cursor
        reader = _terminal_reader(params) if params.view == "raw" else None
        final = handle.stopped and handle.output_complete
        if reader is not None and reader.is_held_back(handle.spool, start, final=final):
            return max(start, handle.spool.end)
        return start
    if params.view not in ("screen", "paint"):
        return handle.position.offset
    execution = supervisor.execution_of(handle)
    if not isinstance(params.since_revision, UnsetType) and execution is not None:
        screen = execution.screen()
        if screen is not None and screen.revision != params.since_revision:
            return -1  # the reader's screen is outdated
    return max(handle.position.offset, handle.position.viewed)


def answer(
    supervisor: Supervisor,
    params: FetchParams | SpawnParams,
    handle: Handle,
    reading: Reading,
    since: int,
    began: float | None = None,
    typed: TypedInput | None = None,
) -> HandleState | PendingReply:
    """Reply at once if the condition holds or no wait is requested, else later.

    New output starts at `since`, the bound at `began` (trio's clock, default now). A pattern does
    not match the echo of `typed`.
    """
    deadline = (trio.current_time() if began is None else began) + reading.timeout_s
    if reading.wait == "pattern":
        return _answer_match(supervisor, params, handle, reading, since, deadline, typed)
    condition = condition_of(handle, supervisor.execution_of(handle), reading, since)
    reason = condition.check()
    if reason is None and reading.wait == "none":
        reason = "immediate"
    if reason is None and reading.timeout_s == 0:
        reason = "deadline"
    if reason is not None:
        wanted = condition.input_state() if reason in _INPUT_REASONS else None
        waited = reason if reading.announced else UNSET
        return look(supervisor, params, handle, waited, wanted, typed, is_reader=reading.is_reader)

    def look_after(reason: Waited | None) -> HandleState | PendingReply:
        wanted = condition.input_state() if reason in _INPUT_REASONS else None
        waited = reason or "deadline"
        return look(supervisor, params, handle, waited, wanted, typed, is_reader=reading.is_reader)

    return HandleWait(
        (handle,),
        condition.check,
        look_after,
        deadline,
        condition.look_again,
        is_reader=reading.is_reader,
    )


def _answer_match(
    supervisor: Supervisor,
    params: FetchParams | SpawnParams,
    handle: Handle,
    reading: Reading,
    since: int,
    deadline: float,
    typed: TypedInput | None,
) -> HandleState | PendingReply:
    """Reply when the pattern matches; other calls have turns between slices, as a hostile pattern
    is slow."""
    spool = handle.spool
    since = max(0, since)
    before = spool.read(since - 1, since) if since else b""
    pattern = compile_pattern(reading.pattern)
    echo = b"" if typed is None else typed.text.encode()
    watch = OutputMatcher(pattern, since, before, handle.rendering, echo)

    def look_now(waited: Waited) -> HandleState | PendingReply:
        return look(supervisor, params, handle, waited, typed=typed, is_reader=reading.is_reader)

    if watch.scan_spool(spool):
        return look_now("matched")
    if not watch.has_unread(spool) and (handle.stopped or reading.timeout_s == 0):
        return look_now(_matched(watch, handle))

    def match_more(has_more: bool | None) -> HandleState | PendingReply:
        if has_more and watch.has_unread(spool):
            watch.scan_spool(spool)
        is_over = not has_more or trio.current_time() >= deadline
        is_whole = handle.stopped and not watch.has_unread(spool)
        if watch.match_range is not None or is_over or is_whole:
            return look_now(_matched(watch, handle))
        return more

    more = HandleWait(
        (handle,),
        lambda: watch.has_unread(spool) or handle.stopped or None,
        match_more,
        deadline,
        is_reader=reading.is_reader,
    )
    return more


def _matched(watch: OutputMatcher, handle: Handle) -> Waited:
    if watch.finish():
        return "matched"
    return "stopped" if handle.stopped else "deadline"
