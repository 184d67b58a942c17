"""`haft record`: the output of a handle with its times, as an asciicast; also of a stopped handle."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from haft_protocol.states import HandleState, Stopped

from ...asciicast import Header, Writer
from ...client import Haft
from ...errors import RemoteError
from .. import show
from ..options import UsageError, connect
from ..read_options import state_of
from ..statuses import Status

EPILOG = """\
The daemon keeps the time of each output, so nothing has to be started before: a handle can be recorded when
it has stopped, for as long as it can be read. What was typed is only in it where the program printed it.

examples:
  haft record build > build.cast
  haft record build --format v2 > build.cast
  haft record build | haft play -
"""

_INVALID_PARAMS = -32602
_PIECE = 1 << 20
_POINTS = 10_000
_USUAL_SIZE = 80, 24


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument(
        "--format",
        choices=["v3", "v2"],
        help="the version of the format (v3); asciinema 2 plays v2",
    )
    parser.add_argument("--title", metavar="TEXT", help="a title for the recording")


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("record has no --json: its output is lines of JSON already")
    version = int(getattr(options, "format", "v3")[1:])
    with connect(options) as haft:
        state, size = _size(haft, options.id)
        timeline = haft.timeline(options.id, max_points=1)
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
        for at_ms, data in recording.pieces():
            # A terminal does this for its programs; a player has no terminal's driver.
            show.write(writer.output(at_ms, data if size else data.replace(b"\n", b"\r\n")))
        status = _status(state)
        show.write(
            writer.end(max(at_ms, state.elapsed_ms) if status is not None else at_ms, status)
        )
    if recording.dropped:
        show.line(
            f"haft record: {recording.dropped} bytes are no longer kept, and left out", "yellow"
        )
    return Status.DONE


def _size(haft: Haft, handle: str) -> tuple[HandleState, tuple[int, int] | None]:
    """Return the handle's state and its columns and rows, None on a pipe."""
    fields = {"id": handle, "view": "screen", "max_bytes": 0}
    try:
        state = state_of(haft.raw("fetch", fields))
    except RemoteError as refused:
        if refused.code != _INVALID_PARAMS:
            raise
        return state_of(haft.raw("fetch", {**fields, "view": "raw"})), None
    return state, (state.screen.cols, state.screen.rows) if state.screen else None


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

        self.dropped = 0

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield the milliseconds since the start, and the bytes printed then."""
        for at_ms, end in self._points():
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
                raise UsageError(f"{self._id} was started anew meanwhile; record it again")
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
            self._data = show.bytes_of(state)
            skipped = state.cursor - len(self._data) - self._cursor
            if skipped > 0:
                self.dropped += skipped
                self._cursor += skipped
                size = max(0, size - skipped)
        piece, self._data = self._data[:size], self._data[size:]
        self._cursor += len(piece)
        return piece
