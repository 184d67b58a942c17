"""State of a handle for a reader (docs/protocol.md, "The handle state").

Pure, except for the file of a truncated text.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from haft_protocol.states import (
    SUSPENDED_HINT,
    HandleState,
    InputKind,
    InputWanted,
    Needs,
    Pending,
    Running,
    Screen,
    Stopped,
    TerminalSize,
    Truncated,
    Waited,
    Waiting,
)

from . import lifecycle
from .handles import Handle
from .lifecycle import Outcome, State
from .read_position import read_of
from .terminal_filter import TerminalReader, boundary
from .termination import failure_of
from .text import Slice, bytes_from, cut, cut_text, encoded_slice


def handle_state(
    handle: Handle,
    now: float,
    *,
    view: str = "delta",
    cursor: int | None = None,
    max_bytes: int = 65_536,
    waited: Waited | UnsetType = UNSET,
    screen: Screen | UnsetType = UNSET,
    painted: str = "",
    terminal: TerminalReader | None = None,
    input_wanted: InputWanted | UnsetType | None = UNSET,
    reads: InputKind | None = None,
    size: TerminalSize | UnsetType = UNSET,
    suspended: bool = False,
    save: bool = False,
    defer: bool = False,
) -> HandleState:
    """Return the handle's state with the text for `view` or `cursor`.

    Only `delta` starts at the session's read offset, which the caller moves. `save`: a truncated
    text goes into a file; `defer`: a long text is `DeferredText`. `painted` is the text of the view
    `paint`. The view `none` has no text, and the read offset as cursor. A `terminal` reader's bytes
    are filtered. `reads` is the awaited input, where the state shows no `input_wanted`.
    """
    state = handle.state
    encoded = None
    if view in ("raw", "paint"):
        encoded = _encoded_slice(handle, view, cursor, max_bytes, painted, terminal, defer)
    if state is State.STOPPED:
        outcome = handle.outcome
        assert outcome is not None, "it has ended"
        if encoded is not None:
            view, cursor = "delta", None
        return _stopped_state(
            handle, outcome, view, cursor, max_bytes, waited, screen, encoded, save, defer
        )
    piece = encoded or _text_slice(handle, view, cursor, max_bytes, final=False, defer=defer)
    if type(input_wanted) is InputWanted:
        reads = input_wanted.kind
    needs, review = needs_of(handle, reads), handle.review or UNSET
    elapsed_ms = int((now - handle.created_at) * 1000)
    if state is State.RUNNING:
        # Python makes a dict for a call with more than 15 keywords, in four times as long.
        running = Running(
            id=handle.id,
            tool=handle.tool,
            session=handle.session,
            cursor=piece.cursor,
            generation=handle.generation,
            elapsed_ms=elapsed_ms,
            omitted=piece.omitted,
            waited=waited,
            screen=screen,
            review=review,
            needs=needs,
            size=size,
            content=piece.text,
            input_wanted=input_wanted,
        )
        return replace(running, suspended=True, hint=SUSPENDED_HINT) if suspended else running
    if state is State.PENDING:
        return Pending(
            id=handle.id,
            tool=handle.tool,
            session=handle.session,
            cursor=piece.cursor,
            generation=handle.generation,
            elapsed_ms=elapsed_ms,
            omitted=piece.omitted,
            waited=waited,
            screen=screen,
            review=review,
            needs=needs,
            content=piece.text,
        )
    phase = handle.phase
    assert isinstance(phase, lifecycle.Waiting), "a waiting handle has its question"
    return Waiting(
        id=handle.id,
        tool=handle.tool,
        session=handle.session,
        cursor=piece.cursor,
        generation=handle.generation,
        elapsed_ms=elapsed_ms,
        omitted=piece.omitted,
        waited=waited,
        screen=screen,
        review=review,
        needs=needs,
        size=size,
        content=piece.text,
        question=phase.question,
        inquiry_id=phase.inquiry_id or UNSET,
    )


def needs_of(handle: Handle, reads: InputKind | None) -> Needs:
    """Return the act that the handle waits for; `reads` is the input that its process awaits."""
    if type(handle.lifecycle) is lifecycle.Running:  # the usual case, told apart at once
        return reads or "nothing"
    if handle.stopped or handle.stop_requested_by is not None:
        return "nothing"
    if handle.is_awaiting_approval or handle.review == "waits":
        return "decision"
    if handle.question is not None:
        return "answer"
    return reads or "nothing"


def read_handle(
    handle: Handle,
    now: float,
    *,
    view: str = "delta",
    cursor: int | None = None,
    max_bytes: int = 65_536,
) -> HandleState:
    state = handle_state(handle, now, view=view, cursor=cursor, max_bytes=max_bytes, save=True)
    handle.read(read_of(state, view, cursor), now)
    return state


def _encoded_slice(
    handle: Handle,
    view: str,
    cursor: int | None,
    max_bytes: int,
    painted: str,
    terminal: TerminalReader | None,
    defer: bool,
) -> Slice:
    if view == "raw":
        start = handle.position.offset if cursor is None else cursor
        if terminal is None:
            return bytes_from(handle.spool, start, max_bytes, defer=defer)
        chunk = terminal.read(handle.spool, start, max_bytes, final=_is_final(handle))
        return encoded_slice(chunk.data, chunk.cursor, chunk.omitted, defer=defer)
    if terminal is None or _is_final(handle):
        return Slice(painted, handle.spool.end)
    return Slice(painted, boundary(handle.spool))


def _is_final(handle: Handle) -> bool:
    return handle.stopped and handle.output_complete


def _text_slice(
    handle: Handle, view: str, cursor: int | None, max_bytes: int, *, final: bool, defer: bool
) -> Slice:
    spool = handle.spool
    if view == "none":
        return Slice("", handle.position.offset)
    tail = view == "tail"
    if cursor is not None:
        start = cursor
    elif view == "delta" or (view == "screen" and handle.stopped):
        start = handle.position.offset
    elif view == "screen":
        # The reply is the screen, as of the output so far.
        return Slice("", spool.end)
    else:
        start = 0
    stop = spool.end if final else max(start, handle.readable_end())
    rendering = handle.rendering
    return cut(
        spool, start, stop, max_bytes, final=True, tail=tail, rendering=rendering, defer=defer
    )


def _stopped_state(
    handle: Handle,
    outcome: Outcome,
    view: str,
    cursor: int | None,
    max_bytes: int,
    waited: Waited | UnsetType,
    screen: Screen | UnsetType,
    encoded: Slice | None,
    save: bool,
    defer: bool,
) -> Stopped:
    termination, exit, is_complete = outcome.termination, outcome.termination.exit, outcome.is_final
    error = failure_of(termination)
    result: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    truncated: Truncated | UnsetType = UNSET
    piece = _text_slice(handle, view, cursor, max_bytes, final=is_complete, defer=defer)
    position, omitted = piece.cursor, piece.omitted
    if termination.is_output:
        if omitted:
            whole = position - requested_start(handle, view, cursor)
            truncated = _truncation(handle, whole, whole - omitted, save=save)
        if error is None:
            result = piece.text
        else:
            content = piece.text
    elif encoded is None and piece.text:
        output = piece.text
    if not termination.is_output and error is None:
        assert termination.result is not None, "without a failure there is a result"
        result, total, kept = cut_text(termination.result, max_bytes)
        if kept < total:
            truncated = _truncation(handle, total, kept, save=save)
    if encoded is not None:
        # `raw` and `paint` come beside the result.
        if error is not None:
            truncated = UNSET
        content, position, omitted = encoded.text, encoded.cursor, encoded.omitted
    return Stopped(
        id=handle.id,
        tool=handle.tool,
        session=handle.session,
        cursor=position,
        generation=handle.generation,
        elapsed_ms=int((outcome.at - handle.created_at) * 1000),
        omitted=omitted,
        waited=waited,
        screen=screen,
        review=UNSET if outcome.review is None else outcome.review,
        ended_by=termination.by,
        result=result,
        error=error if error is not None else UNSET,
        content=content,
        output=output,
        exit=UNSET if exit is None else exit,
        output_complete=UNSET if exit is None and is_complete else is_complete,
        left_behind=handle.left_behind() or UNSET,
        unconfirmed=termination.unconfirmed or UNSET,
        truncated=truncated,
    )


def _truncation(handle: Handle, whole: int, kept: int, *, save: bool) -> Truncated:
    saved = handle.save() if save else handle.spool.saved
    if saved is None:
        return Truncated(bytes=whole, kept=kept, path=None)
    return Truncated(bytes=whole, kept=kept, path=saved.path, omitted=saved.omitted)


def requested_start(handle: Handle, view: str, cursor: int | None) -> int:
    """Return the offset at which a read begins."""
    if cursor is not None:
        return cursor
    return 0 if view in ("all", "tail") else handle.position.offset


def last_lines(handle: Handle, most: int, longest: int) -> tuple[str, ...]:
    """Return up to `most` last non-blank lines of up to `longest` characters."""
    spool = handle.spool
    # A character has up to four bytes; a line that loses its beginning here would be cut anyway.
    piece = cut(
        spool, 0, spool.end, 4 * most * longest, final=True, tail=True, rendering=handle.rendering
    )
    lines = [line.rpartition("\r")[2] for line in piece.text.rstrip().splitlines()[-4 * most :]]
    return tuple(printable(line, longest) for line in lines if line.strip())[-most:]


def printable(text: str, longest: int) -> str:
    """Cut and escape a line: no control or bidirectional character."""
    text = text[: longest + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
