"""`haft record`: write the output of a live or stopped handle, with its times, as an asciicast."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator

from msgspec import UnsetType, to_builtins

from haft_protocol.methods import TimelineResult
from haft_protocol.states import HandleState, Stopped

from ...asciicast import Header, Writer
from ...client import Haft
from ...svg import Grid, picture
from .. import show
from ..options import UsageError, connect
from ..replies import checked_state
from ..statuses import Status
from ..typed_states import state_of

EPILOG = """\
The daemon records the time of each output, so recording need not be started beforehand: a handle can be
recorded after it has stopped, as long as it can be read. Typed input appears only where the program echoed it.

--svg draws a still picture instead: the screen of a terminal, the last one if it has stopped, or the last lines of
other output, with colours and styles. The picture has no scripts and no external references.

examples:
  haft record build > build.cast
  haft record build --format v2 > build.cast
  haft record build | haft play -
  haft record editor --svg > editor.svg
"""

_PIECE = 1 << 20
_POINTS = 10_000
_MAX_DRAWN = 65_536
"""Bytes of output from which the last lines are drawn."""
_USUAL_SIZE = 80, 24

Size = tuple[int, int]
"""Columns and rows."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    parser.add_argument(
        "--format",
        choices=["v3", "v2"],
        help="the version of the format (v3); asciinema 2 plays v2",
    )
    parser.add_argument("--svg", action="store_true", help="draw the screen as it is, as an SVG")
    parser.add_argument("--title", metavar="TEXT", help="a title for the recording or picture")


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("record has no --json: its output is already JSON lines")
    if hasattr(options, "svg"):
        return _draw(options)
    version = int(getattr(options, "format", "v3")[1:])
    with connect(options) as haft:
        state = state_of(
            haft.raw("fetch", {"id": options.id, "view": "raw", "cursor": 0, "max_bytes": 0})
        )
        timeline = haft.timeline(options.id, max_points=1)
        size = _size(timeline)
        header = Header(
            version,
            *(size or _USUAL_SIZE),
            timestamp=int(timeline.started_at),
            title=getattr(options, "title", None),
        )
        writer = Writer(header)
        show.write(writer.header())
        at_ms = 0
        recording = _Recording(haft, options.id, timeline.generation)
        for at_ms, event in recording.events():
            if isinstance(event, bytes):
                # As a terminal's driver does; a player has none.
                text = event if size else event.replace(b"\n", b"\r\n")
                show.write(writer.output(at_ms, text))
            else:
                show.write(writer.resize(at_ms, *event))
        status = _status(state)
        show.write(
            writer.end(max(at_ms, state.elapsed_ms) if status is not None else at_ms, status)
        )
    if recording.dropped:
        show.line(
            f"haft record: {show.counted(recording.dropped, 'byte')} are no longer kept and are missing",
            "yellow",
        )
    return Status.DONE


def _draw(options: argparse.Namespace) -> int:
    """Draw the screen of a terminal, or the last lines of output."""
    if hasattr(options, "format"):
        raise UsageError("--svg and --format cannot be combined: a picture is not a recording")
    with connect(options) as haft:
        timeline = haft.timeline(options.id, max_points=1)
        fields: dict[str, object] = {"id": options.id, "cursor": 0}
        cols, rows = _USUAL_SIZE
        if _size(timeline) is None:
            begin = max(timeline.cursor - _MAX_DRAWN, 0)
            fields |= {"view": "raw", "cursor": begin, "max_bytes": _MAX_DRAWN}
        else:
            screen = state_of(haft.raw("fetch", {**fields, "view": "screen"})).screen
            if screen:
                cols, rows = screen.cols, screen.rows
            fields["view"] = "paint"
        text = show.bytes_of(checked_state(haft.raw("fetch", fields))).decode("utf-8", "replace")
    grid = Grid(rows, cols)
    grid.draw(text if fields["view"] == "paint" else text.replace("\n", "\r\n"))
    show.write(picture(grid.trimmed(), getattr(options, "title", options.id)))
    return Status.DONE


def _size(timeline: TimelineResult) -> Size | None:
    """Return a terminal's columns and rows at its start, None on a pipe."""
    if isinstance(timeline.initial_size, UnsetType):
        return None
    rows, cols = timeline.initial_size
    return cols, rows


def _status(state: HandleState) -> int | None:
    if not isinstance(state, Stopped) or not state.exit:
        return None
    code = state.exit.code
    return code if isinstance(code, int) else None


class _Recording:
    """Reads the output between two points of the timeline after the other."""

    def __init__(self, haft: Haft, handle: str, generation: int) -> None:
        self._haft = haft
        self._id = handle
        self._generation = generation
        self._cursor = 0
        self._data = b""
        """The output from `_cursor` on, as far as it was fetched."""

        self._resizes: deque[tuple[int, int, int, int]] = deque()
        """Offset of the output, milliseconds, rows and columns of each later resize."""
        self.dropped = 0

    def events(self) -> Iterator[tuple[int, bytes | Size]]:
        """Yield the milliseconds since the start, with the bytes printed or the new size."""
        for at_ms, end in self._points():
            while self._resizes and self._resizes[0][0] < end:
                offset, resized_ms, rows, cols = self._resizes.popleft()
                yield from self._pieces(at_ms, offset)
                yield resized_ms, (cols, rows)
            yield from self._pieces(at_ms, end)
        for _, resized_ms, rows, cols in self._resizes:
            yield resized_ms, (cols, rows)

    def _pieces(self, at_ms: int, end: int) -> Iterator[tuple[int, bytes]]:
        while self._cursor < end:
            piece = self._take(end - self._cursor)
            if not piece:
                break
            yield at_ms, piece

    def _points(self) -> Iterator[tuple[int, int]]:
        """Yield the time of each point, and the offset up to which it counts."""
        cursor, last = 0, None
        while True:
            timeline = self._haft.timeline(self._id, cursor=cursor, max_points=_POINTS)
            if timeline.generation != self._generation:
                raise UsageError(f"{self._id} was started again meanwhile; record it again")
            self._resizes += timeline.resizes
            for offset, at_ms in timeline.points:
                if last is not None and offset > cursor:
                    yield last, offset
                cursor, last = max(cursor, offset), at_ms
            if not timeline.more:
                break
        if last is not None:
            yield last, timeline.cursor

    def _take(self, size: int) -> bytes:
        if not self._data:
            fields = {"id": self._id, "view": "raw", "cursor": self._cursor, "max_bytes": _PIECE}
            state = state_of(self._haft.raw("fetch", fields))
            self._data = show.bytes_of(to_builtins(state))
            skipped = state.cursor - len(self._data) - self._cursor
            if skipped > 0:
                self.dropped += skipped
                self._cursor += skipped
                size = max(0, size - skipped)
        piece, self._data = self._data[:size], self._data[size:]
        self._cursor += len(piece)
        return piece
