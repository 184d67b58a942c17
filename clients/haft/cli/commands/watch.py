"""`haft watch`: show the lines of handles that match a pattern, as they are printed; of named handles
also the earlier lines."""

from __future__ import annotations

import argparse
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType

from haft_protocol.patterns import InvalidPattern
from haft_protocol.pushes import OUTPUT, STATE, PushedOutput
from haft_protocol.states import HandleState, Stopped

from .. import show
from ..line_pattern import Pattern, compile_pattern
from ..options import UsageError, chosen_address, open_address, session, unicode, whole
from ..statuses import Status
from ..terminal.pollable_client import PollableClient

EPILOG = """\
PATTERN is a regular expression (RE2, as for --pattern of haft fetch), searched in each line. Without ID it reads the new
lines of all handles of the session, also of handles that start later; of handles named by ID it also reads the lines that
they have already printed. A line is shown when it is complete; for -1 an incomplete one, such as a prompt, counts immediately.

Exit status 0 when a line has matched; otherwise 1 when all handles named by ID have stopped (5 with -1),
and 5 when the time runs out. Ctrl-C ends it with status 130.

examples:
  haft watch 'error|warning'
  haft watch -1 'listening on' server && curl localhost:8000
  haft watch --all -i fail
"""

_MAX_LINE = 65_536
"""Characters of a line that are kept and searched. Of a longer one these are the last, so `^` matches within it."""

_PUSHED_OUTPUT = msgspec.json.Decoder(PushedOutput)
_STATE: msgspec.json.Decoder[HandleState] = msgspec.json.Decoder(HandleState)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="a regular expression (RE2)")
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these handles")
    parser.add_argument(
        "-1", "--exit", dest="exit", action="store_true", help="end at the first match"
    )
    parser.add_argument(
        "-i", "--ignore-case", action="store_true", help="ignore the case of letters"
    )
    parser.add_argument("-a", "--all", action="store_true", help="the handles of all sessions")
    parser.add_argument(
        "-n", "--new", action="store_true", help="for the named handles, only new output"
    )
    parser.add_argument(
        "--timeout-ms",
        type=whole(),
        metavar="N",
        help="end after at most this many milliseconds",
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a handle."""

    id: str
    session: str | UnsetType
    """Set where several sessions are watched."""
    text: str
    is_complete: bool = True


class Lines:
    """Cuts the pushed output of handles into lines.

    >>> lines = Lines()
    >>> [line.text for line in lines.feed(PushedOutput("s", "a", 1, start=0, cursor=7, data="one\\ntwo"))]
    ['one', 'two']
    >>> [line.text for line in lines.feed(PushedOutput("s", "a", 1, start=7, cursor=9, data="!\\n"))]
    ['two!']
    """

    def __init__(self) -> None:
        self._unfinished: dict[tuple[str | UnsetType, str], str] = {}

    def feed(self, push: PushedOutput) -> Iterator[Line]:
        """Yield each line that the push completes, then the incomplete one.

        After omitted output the unfinished line is dropped, and the rest of a line counts as a line.
        """
        key = push.session, push.id
        unfinished = self._unfinished.pop(key, "")
        before = "" if push.omitted else unfinished
        *lines, rest = (before + push.data).split("\n")
        for text in lines:
            yield Line(push.id, push.session, _last_version(text))
        if rest:
            self._unfinished[key] = rest[-_MAX_LINE:]
            yield Line(push.id, push.session, _last_version(rest), is_complete=False)

    def end(self, id: str, session: str | UnsetType) -> Iterator[Line]:
        """Yield the incomplete last line of a stopped handle."""
        text = self._unfinished.pop((session, id), "")
        if text:
            yield Line(id, session, _last_version(text))


def _last_version(text: str) -> str:
    """Return the text after the last carriage return: a process rewrites a line from its start."""
    return text.rstrip("\r").rpartition("\r")[2]


def run(options: argparse.Namespace) -> int:
    ends_at_match = hasattr(options, "exit")
    if options.json and not ends_at_match:
        raise UsageError("--json needs -1: a stream is not one JSON document")
    ids = list(dict.fromkeys(getattr(options, "ids", [])))
    if ids and hasattr(options, "all"):
        raise UsageError("--all cannot be combined with ID: an id names a handle of one session")
    timeout_ms = getattr(options, "timeout_ms", None)
    deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    watch = _Watch(options, _compiled(options), ids, deadline)
    client = PollableClient(
        open_address(chosen_address(options), start=False),
        session=session(options),
        name="haft watch",
    )
    with client:
        client.hear(watch.hear)
        fields: dict[str, object] = {"events": ["state", "output"]}
        if hasattr(options, "all"):
            fields["session"] = "*"
        if ids:
            fields["handles"] = ids
            if not hasattr(options, "new"):
                fields["from"] = dict.fromkeys(ids, 0)
        client.finish(client.start("subscribe", **fields))
        poll = select.poll()
        poll.register(client.fileno(), select.POLLIN)
        while not watch.is_over:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if poll.poll(None if left_s is None else left_s * 1000):
                client.advance()
    has_timed_out = watch.is_late and not watch.is_done
    if has_timed_out:
        show.line("haft watch: timed out", "yellow")
    if watch.matches:
        return Status.DONE
    if has_timed_out:
        return Status.WAIT_FAILED
    show.line(f"haft watch: stopped without a match: {', '.join(ids)}", "yellow")
    # With -1 a wait has failed; without it nothing was found, as in grep.
    return Status.WAIT_FAILED if ends_at_match else Status.FAILED


def _compiled(options: argparse.Namespace) -> Pattern:
    try:
        return compile_pattern(
            unicode(options.pattern, "`pattern`"), ignores_case=hasattr(options, "ignore_case")
        )
    except InvalidPattern as fault:
        raise UsageError(
            f"{options.pattern!r} is not a valid regular expression: {fault}"
        ) from None


class _Watch:
    def __init__(
        self,
        options: argparse.Namespace,
        pattern: Pattern,
        ids: list[str],
        deadline: float | None,
    ) -> None:
        self._options = options
        self._deadline = deadline
        self._pattern = pattern
        self._ids = ids
        self._running = set(ids)
        self._lines = Lines()
        self._ends_at_match = hasattr(options, "exit")
        self.matches = 0

    @property
    def is_over(self) -> bool:
        return self.is_done or self.is_late

    @property
    def is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    @property
    def is_done(self) -> bool:
        has_match = self._ends_at_match and self.matches > 0
        return has_match or (bool(self._ids) and not self._running)

    def hear(self, method: str, params: Raw) -> None:
        if self.is_over:
            return
        if method == OUTPUT:
            push = _PUSHED_OUTPUT.decode(params)
            if push.omitted:
                show.line(
                    f"haft watch: {show.counted(push.omitted, 'byte')} of {push.id} were missed",
                    "yellow",
                )
            self._take(self._lines.feed(push))
        elif method == STATE:
            state = _STATE.decode(params)
            if isinstance(state, Stopped):
                where = state.session if hasattr(self._options, "all") else UNSET
                self._take(self._lines.end(state.id, where))
                self._running.discard(state.id)

    def _take(self, lines: Iterator[Line]) -> None:
        for line in lines:
            if self.is_over:
                return
            if (line.is_complete or self._ends_at_match) and self._pattern.search(
                line.text[-_MAX_LINE:]
            ):
                self.matches += 1
                self._show(line)

    def _show(self, line: Line) -> None:
        if self._options.json:
            shown = {"id": line.id, "session": line.session, "line": line.text}
            document = {name: value for name, value in shown.items() if value is not UNSET}
            show.document(msgspec.json.encode(document))
            return
        name = line.id if isinstance(line.session, UnsetType) else f"{line.session}/{line.id}"
        text = self._pattern.sub(
            lambda match: show.paint_stdout(match[0], "red") if match[0] else "", line.text
        )
        show.write(f"{show.paint_stdout(f'{name}:', 'dim')} {text}\n")
