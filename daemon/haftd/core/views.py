"""State of a handle for a reader (docs/protocol.md, "The handle state").

Pure, except for the file of a truncated text.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from haft_protocol.ellipsis import shorten
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
)

from .handles import Handle
from .read_position import Read
from .terminal_filter import TerminalReader, find_complete_end
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
    base = handle.base_state
    encoded = None
    if view in ("raw", "paint"):
        encoded = _encoded_slice(handle, view, cursor, max_bytes, painted, terminal, defer)
    if type(base) is Stopped:
        if encoded is not None:
            view, cursor = "delta", None
        return _stopped_state(
            handle, base, view, cursor, max_bytes, waited, screen, encoded, save, defer
        )
    piece = encoded or _text_slice(handle, view, cursor, max_bytes, final=False, defer=defer)
    if type(input_wanted) is InputWanted:
        reads = input_wanted.kind
    state = replace(
        base,
        cursor=piece.cursor,
        elapsed_ms=int((now - handle.created_at) * 1000),
        omitted=piece.omitted,
        waited=waited,
        screen=screen,
        needs=base.needs if reads is None else needs_of(handle, reads),
        size=UNSET if type(base) is Pending else size,
        content=piece.text,
    )
    if type(state) is Running and (suspended or input_wanted is not UNSET):
        hint = SUSPENDED_HINT if suspended else UNSET
        return replace(state, input_wanted=input_wanted, suspended=suspended, hint=hint)
    return state


def needs_of(handle: Handle, reads: InputKind | None) -> Needs:
    """Return the act that the handle waits for; `reads` is the input that its process awaits."""
    needs = handle.base_state.needs
    is_ending = handle.stopped or handle.stop_requested_by is not None
    return needs if reads is None or needs != "nothing" or is_ending else reads


def read_handle(
    handle: Handle,
    now: float,
    *,
    view: str = "delta",
    cursor: int | None = None,
    max_bytes: int = 65_536,
) -> HandleState:
    state = handle_state(handle, now, view=view, cursor=cursor, max_bytes=max_bytes, save=True)
    note_read(handle, state, now, view=view, cursor=cursor)
    return state


def note_read(
    handle: Handle,
    state: HandleState,
    now: float,
    *,
    view: str,
    cursor: int | None,
    viewed: int | None = None,
) -> None:
    """Move the session's read position by the event of a shown state, if there is anything to move;
    `viewed` is the output's end at a view of the screen."""
    is_delta = cursor is None and view == "delta" and type(state) is not Stopped
    offset = state.cursor if is_delta else None
    if type(state) is Running and viewed is None and offset in (None, handle.position.offset):
        return  # a running handle's position has no more that a reader moves
    handle.read(Read(offset, cursor is None, viewed), now)


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
    return Slice(painted, find_complete_end(handle.spool))


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
    if start >= spool.end:
        return Slice("", spool.end)
    stop = spool.end if final else max(start, handle.readable_end())
    rendering = handle.rendering
    return cut(
        spool, start, stop, max_bytes, final=True, tail=tail, rendering=rendering, defer=defer
    )


def _stopped_state(
    handle: Handle,
    base: Stopped,
    view: str,
    cursor: int | None,
    max_bytes: int,
    waited: Waited | UnsetType,
    screen: Screen | UnsetType,
    encoded: Slice | None,
    save: bool,
    defer: bool,
) -> Stopped:
    termination = handle.termination
    assert termination is not None, "a stopped handle without an outcome"
    is_success = base.error is UNSET
    result: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    truncated: Truncated | UnsetType = UNSET
    piece = _text_slice(handle, view, cursor, max_bytes, final=handle.output_complete, defer=defer)
    position, omitted = piece.cursor, piece.omitted
    if termination.is_output:
        if omitted:
            whole = position - requested_start(handle, view, cursor)
            truncated = _truncation(handle, whole, whole - omitted, save=save)
        if is_success:
            result = piece.text
        else:
            content = piece.text
    elif encoded is None and piece.text:
        output = piece.text
    if not termination.is_output and is_success:
        assert termination.result is not None, (
            "a termination without a failure and without a result"
        )
        result, total, kept = cut_text(termination.result, max_bytes)
        if kept < total:
            truncated = _truncation(handle, total, kept, save=save)
    if encoded is not None:
        # `raw` and `paint` come beside the result.
        if not is_success:
            truncated = UNSET
        content, position, omitted = encoded.text, encoded.cursor, encoded.omitted
    return replace(
        base,
        cursor=position,
        omitted=omitted,
        waited=waited,
        screen=screen,
        result=result,
        content=content,
        output=output,
        left_behind=handle.left_behind() or UNSET,
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
    return shorten(text, longest)
