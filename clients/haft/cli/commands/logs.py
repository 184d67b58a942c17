"""`haft logs`: show all output of a handle; with `-f`, also new output.

The follower's offset moves past written output only, independent of the session's read offset. A
lost connection to the same daemon is reopened.
"""

from __future__ import annotations

import argparse
import time

from msgspec import UnsetType, to_builtins

from haft_protocol.methods import TimelineResult
from haft_protocol.states import HandleState, Stopped

from ...client import Haft
from ...errors import ConnectionLost, HaftError, NotRunning
from .. import show
from ..options import DAEMON_ENDED, MAX_OFFSET, UsageError, connect, is_remote, whole
from ..statuses import Status
from ..typed_states import state_of
from ..values import read_time

EPILOG = """\
examples:
  haft logs build
  haft logs build | grep -i error
  haft logs server -f
  haft logs server -n 20 -f
  haft logs server --since 5m
  haft logs editor --raw > typescript
"""

_PIECE = 4 << 20
_EVERYTHING = 256 << 20
_WAIT_MS = 60_000
_DRAIN_S = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="follow the output until the handle has stopped"
    )
    parser.add_argument(
        "--cursor", type=whole(maximum=MAX_OFFSET), metavar="N", help="from this byte on"
    )
    parser.add_argument(
        "-n",
        "--tail",
        "--last",
        dest="last",
        type=whole(),
        metavar="N",
        help="only the last N lines",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only output since then: 90s, 5m, 2h30m (ago), 14:05, 2026-11-28T14:05",
    )
    parser.add_argument(
        "--raw", action="store_true", help="the unchanged bytes, with escape sequences"
    )


def run(options: argparse.Namespace) -> int:
    follow = getattr(options, "follow", False)
    if follow and options.json:
        raise UsageError("-f and --json cannot be combined: a stream is not one JSON document")
    last = getattr(options, "last", None)
    if last is not None and options.json:
        raise UsageError("-n and --json cannot be combined")
    since = getattr(options, "since", None)
    if since is not None and hasattr(options, "cursor"):
        raise UsageError("--since and --cursor cannot be combined")
    moment = None if since is None else read_time(since, time.time())
    follower = Follower(
        options.id,
        getattr(options, "cursor", 0),
        raw=getattr(options, "raw", False),
        last=last,
    )
    haft = connect(options)
    try:
        if moment is not None:
            follower.cursor = _printed_since(haft.timeline(options.id, max_points=10_000), moment)
        if options.json:
            show.document(haft.raw("fetch", follower.fields(_EVERYTHING)))
            return 0
        if not follow:
            show.show_line(to_builtins(follower.read_all(haft)))
            return 0
        if last is not None:
            follower.read_all(haft)
        while True:
            try:
                return _follow(follower, haft)
            except ConnectionLost:
                haft.close()
            haft = _again(options, follower)
    finally:
        haft.close()


def _printed_since(timeline: TimelineResult, moment: float) -> int:
    """Return the offset of the first output after `moment`, within the timeline's grain."""
    elapsed_ms = (moment - timeline.started_at) * 1000
    for offset, at in timeline.points:
        if at + timeline.grain_ms > elapsed_ms:
            return offset
    return timeline.cursor


def _follow(follower: Follower, haft: Haft) -> int:
    # To recognise the same daemon after a reconnect.
    follower.daemon = follower.daemon or haft.server.started_at
    while not follower.done:
        state = follower.read(haft, wait="output", timeout_ms=_WAIT_MS)
    last = to_builtins(state)
    show.show_line(last)
    return Status.FAILED if show.failed(last) else Status.DONE


def _again(options: argparse.Namespace, follower: Follower) -> Haft:
    where = f"at byte {follower.cursor} of {follower.id}"
    try:
        haft = connect(options)
        try:
            is_same = haft.server.started_at == follower.daemon
        except HaftError:
            haft.close()
            raise
    except HaftError as fault:
        if isinstance(fault, NotRunning | ConnectionLost) and not is_remote(options):
            read = f"the output was read up to byte {follower.cursor} of {follower.id}"
            raise NotRunning(f"{DAEMON_ENDED}; {read}") from fault
        raise NotRunning(f"the connection to haftd was lost {where}: {fault}") from fault
    if is_same:
        show.line(f"haft logs: the connection was lost {where}; continuing there", "dim")
        return haft
    haft.close()
    raise NotRunning(f"haftd was restarted {where}; its handles ended with it")


class Follower:
    def __init__(
        self, handle: str, cursor: int = 0, *, raw: bool = False, last: int | None = None
    ) -> None:
        """Write bytes with `raw`, else text; begin with the `last` lines."""
        self.id = handle
        self._raw = raw
        self._held: bytearray | None = None
        """Buffer of output from which the last lines are written."""
        self._last = last
        self.cursor = cursor
        self.daemon: float | None = None
        self.done = False
        self._generation: int | None = None
        self._result: str | None = None
        self._drained_by: float | None = None

    def read_all(self, haft: Haft) -> HandleState:
        """Write all output so far, or the last lines; return the state."""
        self._held = bytearray() if self._last is not None else None
        state = self.read(haft)
        while self._raw and not self.done:
            before = self.cursor
            state = self.read(haft)
            if self.cursor == before:
                break
        if self._held is not None:
            show.write(last_lines(bytes(self._held), self._last or 0))
            self._held = None
        return state

    def read(self, haft: Haft, **waiting: object) -> HandleState:
        """Write new output and advance; `done` is set when no more will come."""
        state = self._fetch(haft, _PIECE, **waiting)
        if state.omitted and not self._raw:
            # Too much for one piece, or dropped from the spool: only a request for all shows.
            state = self._fetch(haft, _EVERYTHING)
        if self._generation not in (None, state.generation):
            raise UsageError(f"{self.id} was started again meanwhile; follow it again")
        self._generation = state.generation
        self._write(state)
        self.cursor = max(self.cursor, state.cursor)
        if isinstance(state, Stopped) and not (self._raw and state.content):
            self._wait_for_the_rest(state)
        return state

    def fields(self, size: int) -> dict[str, object]:
        """Return the params that read at most `size` further bytes."""
        fields = {"id": self.id, "cursor": self.cursor, "max_bytes": size}
        return {**fields, "view": "raw"} if self._raw else fields

    def _fetch(self, haft: Haft, size: int, **waiting: object) -> HandleState:
        return state_of(haft.raw("fetch", {**self.fields(size), **waiting}))

    def _write(self, state: HandleState) -> None:
        shown = to_builtins(state)
        if self._raw:
            self._put(show.bytes_of(shown))
            return
        text = show.text_of(shown)
        if isinstance(state, Stopped) and text:
            result = show.result_of(shown)
            if result == self._result and self._drained_by is not None:
                # A structured tool's result is not output, and is the same on every read.
                text = "" if isinstance(state.output, UnsetType) else state.output
            self._result = result
        self._put(text)

    def _put(self, data: str | bytes) -> None:
        if self._held is None:
            show.write(data)
        else:
            self._held += data.encode("utf-8", "replace") if isinstance(data, str) else data

    def _wait_for_the_rest(self, state: Stopped) -> None:
        """Wait briefly for output of leftover processes."""
        now = time.monotonic()
        if self._drained_by is None:
            self._drained_by = now + _DRAIN_S
        self.done = state.output_complete is not False or now > self._drained_by
        if not self.done:
            time.sleep(0.05)


def last_lines(data: bytes, number: int) -> bytes:
    """Return the last lines; an unfinished line counts."""
    at = len(data) - data.endswith(b"\n")
    for _ in range(number):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :] if number else b""
