"""One use of a tool: what its runtime reports into the handle, and what is done to it from outside.

Rules: everything decides at once but waiting to be answered. A report is an event of the handle, whose
state says how far the use is; a use has begun, or could not, once, and is done when nothing of it is left. Who holds
the task that runs it is the supervisor's matter; connections are not known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.errors import (
    RpcError,
    input_refused,
    invalid_params,
)
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, LeftBehind, Screen
from haftd.core.ending import Ending
from haftd.core.handles import Handle
from haftd.inquiries.kind import Withdrawn
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.tool_question import InquiryCancelled, InquiryQueue, NoAnswer
from haftd.runtimes.base import (
    Call,
    ExecutionControl,
    Input,
    InputRefused,
    PendingAnswer,
    Runtime,
    ScreenShot,
    ToolFailed,
    Wanted,
)

from .review import PendingReview
from .silence import Silence

MAX_BACKLOG = 262_144
"""Bytes of output that a pipe may be behind before the program is held up: less than what memory keeps of it."""

_SHOWN_KEPT = 4
"""Screens that changes can be told against."""

_SUSPENSION_KNOWN_S = 0.1


class Skipped(Exception):
    """The tool is not run, and that is no failure; the argument says so."""

    def __init__(self, said: str, by: str | UnsetType = UNSET) -> None:
        super().__init__(said)
        self.said = said
        self.by = by


Entry = Callable[[], Awaitable[tuple[Runtime, Call]]]
"""What a use waits for before it runs; it returns what runs. Raises `Skipped`, or the `RpcError`
with which the start is refused, as if the handle had never been admitted."""


class Execution:
    """One use of a tool, from its start until nothing of it is left; also the runtime's port."""

    __slots__ = (
        "_backlog_changed",
        "_backlogs",
        "_early",
        "_shown",
        "_suspended",
        "_suspension_known_until",
        "begun",
        "callers",
        "done",
        "grace_s",
        "grip",
        "handle",
        "inquiries",
        "is_stop_requested",
        "mark",
        "review",
        "routine_ms",
        "scope",
        "silence",
        "written_to",
    )

    def __init__(
        self,
        handle: Handle,
        grace_s: float,
        inquiries: InquiryQueue | None = None,
        review: PendingReview | None = None,
    ) -> None:
        self.handle = handle
        self.mark = ""
        """What its processes carry."""
        self.review = review
        self.inquiries = inquiries or InquiryQueue(handle)
        self.grace_s = grace_s
        self.scope = trio.CancelScope()
        self.begun = trio.Event()
        self.done = trio.Event()
        self.grip: ExecutionControl | None = None
        self.is_stop_requested = False
        """Whether its end was requested, or that of the processes that it has left behind."""
        self._suspended = False
        self._suspension_known_until = 0.0
        self.written_to = 0
        self.routine_ms = 0
        """The longest wait that was seen to end with nothing coming of it, at a prompt."""
        self.silence = Silence()
        """What the looks at it came to that could not tell whether it waits."""
        self.callers: int | None = None
        """The calls that it is for, so many of which still wait; None where it is held."""
        self._early: list[Callable[[], None]] = []
        self._backlogs: list[Callable[[], int]] = []
        """For each pipe that reads its output, how many bytes are not passed on yet."""
        self._backlog_changed = trio.Event()
        self._shown: dict[int, ScreenShot] = {}

    def join(self, *, is_new: bool) -> None:
        """One more call waits; a retry finds what an earlier call started, or somebody's handle."""
        if is_new:
            self.callers = 0
        if self.callers is not None:
            self.callers += 1

    def leave(self) -> bool:
        """A call waits no longer; whether none does that it is for."""
        if self.callers is None:
            return False
        self.callers -= 1
        return self.callers == 0

    def hold(self) -> None:
        """It is no call's any longer."""
        self.callers = None

    @property
    def is_unclaimed(self) -> bool:
        """Whether it waits for an answer that nobody is asked for."""
        pending = self.inquiries.current
        return pending is not None and pending.is_unclaimed

    def cancel(self) -> None:
        """End what runs, and what waits for a word about its result."""
        self.scope.cancel()
        if self.review is not None:
            self.review.cancel()

    def request_stop(self, by: EndedBy) -> bool:
        """Record that its end is requested; return whether that is the first request."""
        is_first = not self.is_stop_requested
        self.is_stop_requested = True
        self.handle.request_stop(by)
        return is_first

    def skip(self, skipped: Skipped) -> None:
        """Report the end of a tool that is not run, with that as its result."""
        ending = Ending(by=EndedBy("exit", skipped.by), result=skipped.said)
        self.handle.end(ending, trio.current_time())

    # -- the port: what the runtime reports

    def started(self, grip: ExecutionControl) -> None:
        """See `runtimes.base.RuntimeContext`."""
        self.grip = grip
        self.handle.start(
            trio.current_time(),
            pid=grip.pid,
            command=grip.command,
            terminal=grip.terminal,
            rendering=grip.rendering,
        )
        self.begin()
        self.inquiries.go_on()

    def emit(self, data: bytes) -> None:
        """See `runtimes.base.RuntimeContext`."""
        if self.review is not None:
            self.review.emit(data)
        else:
            self.handle.append_output(data, trio.current_time())

    def keep_up(self) -> Awaitable[None] | None:
        """See `runtimes.base.RuntimeContext`."""
        return self._catch_up() if self._backlog() > MAX_BACKLOG else None

    async def _catch_up(self) -> None:
        while self._backlog() > MAX_BACKLOG // 2:
            self._backlog_changed = trio.Event()
            await self._backlog_changed.wait()

    def _backlog(self) -> int:
        return max((backlog() for backlog in self._backlogs), default=0)

    def written(self, number: int) -> None:
        """See `runtimes.base.RuntimeContext`."""
        self.written_to = max(self.written_to, number)
        self.handle.touch(trio.current_time())

    def ended(self, ending: Ending, *, complete: bool = True) -> None:
        """See `runtimes.base.RuntimeContext`."""
        ending = ending.with_cause(self.handle.stop_requested_by)
        now = trio.current_time()
        if self.review is None:
            self.handle.end(ending, now, complete=complete)
        else:
            self.review.end(ending, now, complete=complete)
        self.inquiries.end()

    def redrawn(self) -> None:
        """See `runtimes.base.RuntimeContext`."""
        self.handle.touch(trio.current_time())

    def completed(self) -> None:
        """See `runtimes.base.RuntimeContext`."""
        if self.review is not None:
            self.review.complete()
        self.handle.complete_output(trio.current_time())

    def ask(self, question: Question, *, for_a_person: bool = False) -> PendingAnswer:
        """See `runtimes.base.RuntimeContext`."""
        queue = self.inquiries
        kind = queue.question(question)
        if for_a_person:
            kind = replace(kind, for_a_person=True)
        return _PendingAnswer(queue, queue.put(kind))

    # -- the pipes that read its output

    def add_backlog(self, backlog: Callable[[], int]) -> None:
        """Hold the program up while `backlog` returns more than `MAX_BACKLOG` bytes."""
        self._backlogs.append(backlog)

    def remove_backlog(self, backlog: Callable[[], int]) -> None:
        """Undo one `add_backlog`."""
        self._backlogs.remove(backlog)
        self.backlog_changed()

    def backlog_changed(self) -> None:
        """Have the backlogs looked at again."""
        self._backlog_changed.set()

    # -- what the verbs do to it

    def feed(self, data: bytes) -> int:
        """Queue bytes of another handle as input; raises `InputRefused` where the program takes none."""
        if self.grip is None:
            raise InputRefused("The program has not started.")
        return self.grip.feed(data)

    def write(self, item: Input) -> int:
        """Queue input for the running tool; raises `RpcError` where it takes none."""
        if self.grip is None:
            raise AssertionError("input before the tool runs is queued by when_begun")
        try:
            number = self.grip.write(item)
        except InputRefused as refused:
            if refused.malformed:
                raise invalid_params(str(refused), field="input") from None
            raise input_refused(self.handle.tool, str(refused)) from None
        self.handle.touch(trio.current_time())
        self._suspension_known_until = 0.0  # It may have been CONT.
        return number

    def when_begun(self, act: Callable[[], None]) -> None:
        """Call `act` once the tool runs or could not be started, in the order of these calls."""
        if self.begun.is_set():
            act()
        else:
            self._early.append(act)

    def screen(self, since: int | None = None) -> Screen | None:
        """The terminal's screen, if there is one: whole, or what has changed since a revision that
        was shown before."""
        shot = self._shot()
        if shot is None:
            return None
        before = None if since is None else self._shown.get(since)
        self._shown[shot.revision] = shot
        while len(self._shown) > _SHOWN_KEPT:
            del self._shown[min(self._shown)]
        now = _whole(shot)
        return now if before is None else changes(_whole(before), now)

    def picture(self) -> Screen | None:
        """The terminal's whole screen, if there is one, for who keeps what was shown itself."""
        shot = self._shot()
        return None if shot is None else _whole(shot)

    def _shot(self) -> ScreenShot | None:
        return self.grip.screen() if self.grip is not None else None

    def paint(self) -> bytes | None:
        """The bytes that draw the terminal's screen, if there is one."""
        return self.grip.paint() if self.grip is not None else None

    def screen_digest(self) -> int | None:
        """A hash of what the terminal shows, if that is known; see `runtimes.base.ExecutionControl`."""
        return None if self.grip is None else self.grip.screen_digest()

    def wanted(self) -> Wanted:
        """Whether the tool waits for input, as of now; some 0.2 ms for a terminal."""
        wanted = Wanted("busy") if self.grip is None else self.grip.wanted()
        self.silence.see(wanted, trio.current_time())
        return wanted

    def is_suspended(self) -> bool:
        """Whether a signal has stopped what runs, so that it does nothing until it is sent CONT. Asked of the
        kernel ten times a second at most."""
        now = trio.current_time()
        if now >= self._suspension_known_until:
            self._suspended = self.grip is not None and self.grip.is_suspended()
            self._suspension_known_until = now + _SUSPENSION_KNOWN_S
        return self._suspended

    def hides_input(self) -> bool:
        """Whether a line that is typed now is not shown, as a password is not."""
        return self.grip is not None and self.grip.hides_input()

    def begin(self) -> None:
        """Let those go on who wait until it runs, or cannot."""
        self.begun.set()
        early, self._early = self._early, []
        for act in early:
            act()

    def kill(self) -> None:
        """End what runs without asking; the task that aborts it goes on and finds it gone."""
        self.grace_s = 0.0
        if self.grip is not None:
            self.grip.kill()

    def members(self) -> tuple[int, ...]:
        """The pids of everything of it that lives, as of now."""
        return () if self.grip is None else self.grip.members()

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """What of it lives on after its end, as of now."""
        return () if self.grip is None else self.grip.left_behind()

    def finish(self) -> None:
        """Nothing of it is left. It lets go of its grip, which knows it: a circle would be freed by
        the collector only."""
        self.grip = None
        self.done.set()

    def reject(self, error: RpcError) -> None:
        """Say that the tool was not started, also to those who wait for its end."""
        self.handle.reject(error, trio.current_time())
        self.inquiries.end()


class _PendingAnswer:
    """A question as the runtime that has put it sees it; see `runtimes.base.PendingAnswer`."""

    __slots__ = ("_pending", "_queue")

    def __init__(self, queue: InquiryQueue, pending: PendingInquiry) -> None:
        self._queue = queue
        self._pending = pending

    async def wait(self) -> Any:
        try:
            return await self._queue.wait(self._pending)
        except InquiryCancelled:
            # The runtime has said so itself; it ends what it does for this question.
            return await trio.sleep_forever()
        except NoAnswer as none:
            raise ToolFailed(f"The inquiry failed: {str(none).rstrip('.')}.") from None

    def withdraw(self) -> None:
        self._pending.settle(Withdrawn())


def changes(before: Screen, now: Screen) -> Screen:
    """The screen for a reader that was shown `before`: only the rows that have changed, unless its
    size has. Both are whole."""
    old, new = before.lines, now.lines
    if isinstance(old, UnsetType) or isinstance(new, UnsetType):
        raise AssertionError("a whole screen has its lines")
    if (before.rows, before.cols) != (now.rows, now.cols):
        return now
    changed = {str(at): text for at, text in enumerate(new) if old[at] != text}
    return msgspec.structs.replace(now, lines=UNSET, changed=changed)


def _whole(shot: ScreenShot) -> Screen:
    return Screen(
        rows=shot.rows,
        cols=shot.cols,
        cursor=shot.cursor,
        alt=shot.alt,
        title=shot.title,
        revision=shot.revision,
        lines=shot.lines,
        scrollback=shot.scrollback,
    )
