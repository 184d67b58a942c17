"""Reading a handle: condition (`wait`) and content (`view`) of a reply (docs/protocol.md, "Waiting"
and "Reading output").

The kernel has no event for the input state, polled in growing pauses during such a wait.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Literal

import trio
from msgspec import UNSET, UnsetType, structs

from haft_protocol.encoding import EncodedText, encode_text
from haft_protocol.errors import invalid_params
from haft_protocol.methods import FetchParams, SpawnParams, Wait
from haft_protocol.states import (
    HandleState,
    InputWanted,
    Running,
    Screen,
    Stopped,
    StyledRows,
    Waited,
)
from haft_protocol.terminal_queries import filter_bytes
from haftd.caller import Caller
from haftd.core.echo import TypedInput, echo_size, prompt_size
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.patterns import OutputMatcher, compile_pattern
from haftd.core.terminal_filter import TerminalReader
from haftd.core.text import AT_ONCE, DeferredText, last_line, last_plain_row
from haftd.core.truncation import Paint
from haftd.core.views import handle_state, note_read, read_handle, requested_start
from haftd.executions.execution import Execution
from haftd.executions.supervisor import Supervisor
from haftd.runtimes.base import InputState

from .base import DeferredReply, HandleWait, PendingReply
from .conditions import Reading, condition_of
from .pattern_wait import PatternWait

_TEXTS = ("content", "result", "output")
_TEXT_VIEWS = ("delta", "answer", "all", "tail")
"""Views whose truncated text goes into a file."""
DEADLINE_MS = 10_000
PIPE_BOUND_MS = 250
_SILENT_S = 0.1
_ACTIVE = frozenset({"input", "output", "matched"})
_SILENT = frozenset({"deadline", "quiet"})
_INPUT_REASONS = ("input", "quiet")
"""Reasons that depend on the input state."""


_UNANNOUNCED, _ANNOUNCED = (
    tuple(Reading("none", 0.0, 0.0, "", announced, is_reader) for is_reader in (False, True))
    for announced in (False, True)
)
"""Readings without a wait, by `is_reader`."""


def plan(
    params: FetchParams | SpawnParams,
    *,
    terminal: bool,
    default: Literal["none"] | None = None,
    is_reader: bool = True,
) -> Reading:
    """Return a call's wait, by default the usual one of a terminal or pipe.

    Raises `invalid_params`. On a pipe a read of input ends a start only: a server that always reads
    has not replied.
    """
    has_wait = params.wait is not UNSET
    wait: Wait
    if params.wait is not UNSET:
        wait = params.wait
    else:
        wait = default or ("input" if terminal else "output")
    pattern = "" if params.pattern is UNSET else params.pattern
    if wait == "pattern" and not pattern:
        raise invalid_params("`wait` is `pattern` but there is no `pattern`", field="pattern")
    if pattern:
        compile_pattern(pattern)
        if not has_wait:
            wait = "pattern"
    if params.view in ("screen", "paint") and not terminal:
        raise invalid_params(
            f"`view` is `{params.view}`, but this handle has no terminal; use `delta`, `all` or `tail`",
            field="view",
        )
    if wait == default:
        return (_ANNOUNCED if has_wait else _UNANNOUNCED)[is_reader]
    is_usual = not has_wait and default is None and wait == "output"
    bound = DEADLINE_MS
    if params.timeout_ms is not UNSET:
        bound = params.timeout_ms
    elif is_usual:
        bound = PIPE_BOUND_MS
    return Reading(
        wait=wait,
        timeout_s=bound / 1000,
        quiet_s=params.quiet_ms / 1000,
        pattern=pattern,
        announced=has_wait or wait != "none",
        is_reader=is_reader,
        or_input=is_usual and isinstance(params, SpawnParams),
    )


def plain_state(handle: Handle) -> HandleState:
    """Return a plain fetch's state, without moving the read offset."""
    return handle_state(handle, trio.current_time())


def read_plain(handle: Handle) -> HandleState:
    """Return a plain fetch's state; moves the read offset."""
    return read_handle(handle, trio.current_time())


def raise_rejection(handle: Handle) -> None:
    """Raise the error of a start that has failed, if it has; the session has then seen the end."""
    if handle.rejection is not None:
        read_plain(handle)
        raise handle.rejection


def read_saved(handle: Handle) -> HandleState | DeferredReply:
    """Return the state of `read_plain`, deferred where a long text is saved first."""
    if handle.takes_long_to_save():
        return DeferredReply(partial(_saved, handle, partial(read_plain, handle)))
    return read_plain(handle)


async def save_long(handles: Iterable[Handle]) -> None:
    """Save texts that `read_plain` truncates, where that takes long, with turns for other tasks."""
    for handle in handles:
        if handle.takes_long_to_save():
            await _save(handle)


async def _save(handle: Handle) -> None:
    with closing(handle.save_in_steps()) as steps:
        for _ in steps:
            await trio.lowlevel.checkpoint()


async def _saved(handle: Handle, look_again: Callable[[], object]) -> object:
    """Save a long text, then read it."""
    await _save(handle)
    return look_again()


def look(
    supervisor: Supervisor,
    params: FetchParams | SpawnParams,
    handle: Handle,
    waited: Waited | UnsetType = UNSET,
    input_state: InputState | None = None,
    typed: TypedInput | None = None,
    *,
    is_reader: bool = True,
    save: bool = True,
) -> HandleState | PendingReply:
    """Return the requested view; `delta` and `answer` move the read offset.

    A long text defers the reply, and the reading of one that is saved first, if `save`.
    `input_state` is the input state just read, `typed` the input of this call.
    """
    view = params.view
    cursor = None if isinstance(params.cursor, UnsetType) else params.cursor
    execution, is_stopped = supervisor.execution_of(handle), handle.stopped
    screen: Screen | UnsetType = UNSET
    terminal, painted, viewed = None, "", None
    has_text = view in _TEXT_VIEWS
    if view == "screen":
        screen = _screen(params, handle, execution)
    elif not has_text:
        terminal = _terminal_reader(params)
        painted = _painted(handle, execution, terminal) if view == "paint" else ""
    if is_stopped and save and has_text:
        start = requested_start(handle, view, cursor)
        if handle.takes_long_to_save(start, params.max_bytes):
            look_again = partial(
                look, supervisor, params, handle, waited, None, typed, is_reader=is_reader
            )
            return DeferredReply(partial(_saved, handle, partial(look_again, save=False)))
    now = trio.current_time()
    input_wanted: InputWanted | UnsetType | None = UNSET
    suspended = False
    if execution is not None and handle.state is State.RUNNING:
        if waited == "input" or handle.terminal:
            input_wanted = _input_wanted(handle, execution, input_state)
        if waited not in _ACTIVE:  # a signal stops a tool's output, too
            silence_s = now - (handle.last_output or handle.created_at)
            if silence_s >= _SILENT_S or waited in _SILENT:
                suspended = execution.check_suspended(now)
    before = handle.position
    begin = before.offset if cursor is None else cursor
    text_view = "delta" if view == "answer" else view
    may_defer = params.max_bytes > AT_ONCE
    state = handle_state(
        handle,
        now,
        view=text_view,
        cursor=cursor,
        max_bytes=params.max_bytes,
        waited=waited,
        screen=screen,
        painted=painted,
        terminal=terminal,
        input_wanted=input_wanted,
        suspended=suspended,
        save=save,
        defer=may_defer,
    )
    if view == "raw":
        if spans := handle.stderr_spans.between(begin, state.cursor):
            state = structs.replace(state, stderr=spans)
    elif not has_text and cursor is None:  # a cursor has no earlier screen
        viewed = handle.spool.end
    if is_reader:
        note_read(handle, state, now, view=text_view, cursor=cursor, viewed=viewed)
    if type(state) is Stopped:
        supervisor.wake_expiry()
    echo = None
    if view == "answer":
        echo = typed.text if typed is not None and typed.at == begin else ""
    if may_defer and (deferred := _deferred_texts(state)):
        after = handle.position
        in_thread = partial(
            _converted, state, deferred, echo, lambda: handle.undo_read(before, after)
        )
        run_encoding = partial(in_thread, _encoded) if echo is None else None
        return DeferredReply(partial(in_thread, DeferredText.convert), run_encoding)
    return state if echo is None else _without_known(state, echo)


def _deferred_texts(state: HandleState) -> dict[str, DeferredText]:
    texts = {name: getattr(state, name, None) for name in _TEXTS}
    return {name: text for name, text in texts.items() if isinstance(text, DeferredText)}


async def _converted(
    state: HandleState,
    deferred: Mapping[str, DeferredText],
    echo: str | None,
    on_cancel: Callable[[], None],
    convert: Callable[[DeferredText], str],
) -> HandleState:
    """Convert the deferred texts in a thread; `echo` is left out of the view `answer`."""

    def convert_all() -> dict[str, str]:
        return {name: convert(text) for name, text in deferred.items()}

    try:
        texts = await trio.to_thread.run_sync(convert_all, abandon_on_cancel=True)
    except trio.Cancelled:
        on_cancel()
        raise
    state = structs.replace(state, **texts)
    return state if echo is None else _without_known(state, echo)


def _encoded(text: DeferredText) -> EncodedText:
    return encode_text(text.parts())


def _screen(
    params: FetchParams | SpawnParams, handle: Handle, execution: Execution | None
) -> Screen | UnsetType:
    has_styles = isinstance(params, FetchParams) and params.styles
    shot = handle.last_screen
    if execution is not None:
        since: int | UnsetType = UNSET
        if isinstance(params, FetchParams) and not has_styles:
            since = params.since_revision
        shot = execution.screen(None if since is UNSET else since)
    if shot is None:
        return UNSET
    if has_styles:
        live = None if handle.stopped else execution
        shot = _styled(shot, None if live is None else live.styled_rows())
    return shot


def _painted(handle: Handle, execution: Execution | None, reader: TerminalReader | None) -> str:
    drawn = (handle.last_paint if execution is None else execution.paint()) or b""
    if reader is not None:
        # Bytes not drawn yet are the output itself.
        drawn = filter_bytes(drawn, clipboard=reader.clipboard).data
    return Paint(b64encode(drawn).decode())


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
    handle: Handle, execution: Execution, input_state: InputState | None
) -> InputWanted | None:
    """Return a running tool's expected input, of a pipe after a wait for input: it is costly."""
    if not handle.terminal:
        return InputWanted("line", _prompt(handle, execution))
    input_state = input_state or execution.input_state()
    kind = input_state.expected
    if kind is None:
        return None
    return InputWanted(kind, _prompt(handle, execution), input_state.state != "unknown")


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


def _new_from(supervisor: Supervisor, params: FetchParams | SpawnParams, handle: Handle) -> int:
    """Return the offset of new output: of a spawn 0, else the caller's cursor or the read offset."""
    if isinstance(params, SpawnParams):
        return 0
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
    caller: Caller,
    params: FetchParams | SpawnParams,
    handle: Handle,
    reading: Reading,
    since: int | None = None,
    began: float | None = None,
    typed: TypedInput | None = None,
) -> HandleState | PendingReply:
    """Reply at once if the condition holds or no wait is requested, else later.

    New output starts at `since`, by default at the params' offset, the bound at `began` (trio's
    clock, default now). A pattern does not match the echo of `typed`.
    """
    if reading.wait == "none":
        waited: Waited | UnsetType = UNSET
        if reading.announced:
            waited = "stopped" if handle.stopped else "immediate"
        return look(supervisor, params, handle, waited, None, typed, is_reader=reading.is_reader)
    deadline = (trio.current_time() if began is None else began) + reading.timeout_s
    if since is None:
        since = _new_from(supervisor, params, handle)
    if reading.wait == "pattern":
        return _answer_match(supervisor, caller, params, handle, reading, since, deadline, typed)
    execution = supervisor.execution_of(handle)
    condition = condition_of(handle, execution, reading, since)

    def look_after(reason: Waited | None) -> HandleState | PendingReply:
        state = condition.input_state() if reason in _INPUT_REASONS else None
        waited = reason or "deadline"
        return look(supervisor, params, handle, waited, state, typed, is_reader=reading.is_reader)

    reason = condition.check()
    if reason is None and reading.wait == "output" and execution is not None:
        # A program on another processor has often answered meanwhile.
        execution.read_output()
        reason = condition.check()
    if reason is not None or reading.timeout_s == 0:
        return look_after(reason)
    return HandleWait(
        (handle,),
        condition.check,
        lambda reason: _look_in_turn(params, handle, partial(look_after, reason)),
        deadline,
        condition.look_again,
        is_reader=reading.is_reader,
    )


def _look_in_turn(
    params: FetchParams | SpawnParams,
    handle: Handle,
    look_now: Callable[[], HandleState | PendingReply],
) -> HandleState | PendingReply:
    """Return the reply to a wait. A long text is read when the connection runs the reply, in its turn: many
    waits that become due together would hold a copy each."""
    cursor = None if isinstance(params.cursor, UnsetType) else params.cursor
    size = handle.spool.end - requested_start(handle, params.view, cursor)
    has_text = params.view in _TEXT_VIEWS or params.view == "raw"
    if not has_text or min(size, params.max_bytes) <= AT_ONCE:
        return look_now()

    async def read(*, is_encoded: bool) -> object:
        # Output that is read for a client that is gone would be lost to the session.
        await trio.lowlevel.checkpoint_if_cancelled()
        reply: object = look_now()
        while isinstance(reply, DeferredReply):
            reply = await ((is_encoded and reply.run_encoding) or reply.run)()
        return reply

    return DeferredReply(partial(read, is_encoded=False), partial(read, is_encoded=True))


def _answer_match(
    supervisor: Supervisor,
    caller: Caller,
    params: FetchParams | SpawnParams,
    handle: Handle,
    reading: Reading,
    since: int,
    deadline: float,
    typed: TypedInput | None,
) -> HandleState | PendingReply:
    since = max(0, since)
    before = handle.spool.read(since - 1, since) if since else b""
    pattern = compile_pattern(reading.pattern)
    echo = b"" if typed is None else typed.text.encode()
    matcher = OutputMatcher(pattern, since, before, handle.rendering, echo)

    def look_now(waited: Waited) -> HandleState | PendingReply:
        return look(supervisor, params, handle, waited, typed=typed, is_reader=reading.is_reader)

    def look_later(waited: Waited) -> HandleState | PendingReply:
        return _look_in_turn(params, handle, partial(look_now, waited))

    return PatternWait(
        handle,
        pattern,
        matcher,
        caller,
        deadline,
        look_now,
        look_later,
        is_reader=reading.is_reader,
    ).begin()
