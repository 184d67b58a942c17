"""One task a handle: it runs the tool, reports into the handle, and ends when nothing is left.

Rules: `start` decides at once and schedules; what became of it is a fact in the handle and in its
`Use`. A handle's fault stays in that handle. Aborting is cancelling the task; the runtime ends
what it started and says so through its port. Connections are not known here.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import structlog
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.errors import (
    RpcError,
    input_refused,
    invalid_params,
    shutting_down,
    spawn_failed,
)
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, Exit, LeftBehind, Screen, ToolError
from haftd.asking import Asking, NoAnswer, Router, Void
from haftd.core.handles import Handle
from haftd.core.outcomes import fault
from haftd.runtimes.base import (
    Call,
    Ended,
    Grip,
    Input,
    InputRefused,
    Runtime,
    ScreenShot,
    StartFailed,
    ToolFailed,
    Wanted,
)

__all__ = ["Entry", "Skipped", "Supervisor", "Use", "changes"]

_IN_A_ROW = 4  # starts or ends, before all others get their turn: one or two milliseconds

_SHOWN_KEPT = 4
"""Screens that changes can be told against."""

log = structlog.get_logger("haftd.supervisor")


class Skipped(Exception):
    """The tool is not run, and that is no failure; the argument says so."""

    def __init__(self, said: str, by: str | UnsetType = UNSET) -> None:
        super().__init__(said)
        self.said = said
        self.by = by


Entry = Callable[[], Awaitable[tuple[Runtime, Call]]]
"""What a use waits for before it runs; it returns what runs. Raises `Skipped`, or the `RpcError`
with which the start is refused, as if the handle had never been admitted."""


class Use:
    """One use of a tool, from its start until nothing of it is left; also the runtime's port."""

    __slots__ = (
        "_early",
        "_entry",
        "_shown",
        "asking",
        "begun",
        "done",
        "ender",
        "failure",
        "grace_s",
        "grip",
        "handle",
        "scope",
        "written_to",
    )

    def __init__(
        self,
        handle: Handle,
        grace_s: float,
        router: Router | None = None,
        entry: Entry | None = None,
    ) -> None:
        self.handle = handle
        self._entry = entry
        self.asking = Asking(handle, router)
        self.grace_s = grace_s
        self.scope = trio.CancelScope()
        self.begun = trio.Event()
        self.done = trio.Event()
        self.grip: Grip | None = None
        self.failure: RpcError | None = None
        self.ender: EndedBy | None = None
        self.written_to = 0
        self._early: list[Callable[[], None]] = []
        self._shown: dict[int, ScreenShot] = {}

    @property
    def is_held_back(self) -> bool:
        """Whether it waits to be let in."""
        return self._entry is not None

    async def enter(self) -> tuple[Runtime, Call] | None:
        """Wait until it may run; what runs now, where that was not known before."""
        if self._entry is None:
            return None
        entered = await self._entry()
        self._entry = None
        return entered

    def skip(self, skipped: Skipped) -> None:
        """Say that the tool is not run, and that this is its result."""
        self._entry = None
        self.handle.end(
            trio.current_time(),
            result=skipped.said,
            by=EndedBy("exit", skipped.by),
            complete=True,
        )
        self.begin()

    # -- the port: what the runtime reports

    def started(self, grip: Grip) -> None:
        """See `runtimes.base.Port`."""
        self.grip = grip
        self.handle.left_behind = self._left_behind
        self.handle.start(
            trio.current_time(),
            pid=grip.pid,
            command=grip.command,
            terminal=grip.terminal,
            rendering=grip.rendering,
        )
        self.begin()
        self.asking.go_on()

    def emit(self, data: bytes) -> None:
        """See `runtimes.base.Port`."""
        self.handle.emit(data, trio.current_time())

    def written(self, number: int) -> None:
        """See `runtimes.base.Port`."""
        self.written_to = max(self.written_to, number)
        self.handle.touch(trio.current_time())

    def ended(self, end: Ended) -> None:
        """See `runtimes.base.Port`."""
        exit_ = None
        if end.code is not None:
            exit_ = Exit(code=end.code)
        elif end.signal is not None:
            exit_ = Exit(signal=end.signal)
        by, failure = self._verdict(end)
        self.handle.end(
            trio.current_time(),
            result=end.result if failure is None else None,
            failure=failure,
            raw=end.result is None and end.failure is None,
            exit=exit_,
            by=by,
            limit=end.limit,
            complete=end.output_complete,
            unconfirmed=end.unconfirmed,
        )
        self.asking.end()

    def _verdict(self, end: Ended) -> tuple[EndedBy, ToolError | None]:
        """Who ended it, and the failure where it is not only the end that says it."""
        if end.failure is not None:
            said = ToolError(end.failure.message, end.failure.trace, end.failure.transient)
            return (EndedBy("exit") if end.natural else self.ender or EndedBy("exit")), said
        if end.limit is not None:
            return EndedBy("limit"), None
        if end.natural:
            return EndedBy("exit"), None
        if self.ender is None:
            return EndedBy("lost"), ToolError(fault(), transient=True)
        return self.ender, None

    def completed(self) -> None:
        """See `runtimes.base.Port`."""
        self.handle.complete(trio.current_time())

    async def ask(self, question: Question) -> Any:
        """See `runtimes.base.Port`."""
        try:
            return await self.asking.ask(question)
        except Void:
            # The runtime has said so itself; it ends what it does for this question.
            return await trio.sleep_forever()
        except NoAnswer as none:
            raise ToolFailed(f"The inquiry failed: {str(none).rstrip('.')}.") from None

    # -- what the verbs do to it

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

    def wanted(self) -> Wanted:
        """Whether the tool waits for input, as of now; some 0.2 ms for a terminal."""
        return Wanted("busy") if self.grip is None else self.grip.wanted()

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

    def _left_behind(self) -> tuple[LeftBehind, ...]:
        if self.grip is None:
            return ()
        return tuple(LeftBehind(one.pid, one.command) for one in self.grip.left_behind())

    def fail(self, error: RpcError) -> None:
        """Say that the tool could not be started, also to those who wait for its end."""
        self.failure = error
        self.handle.on_news = None  # whoever started it is told
        self.handle.end(
            trio.current_time(),
            failure=ToolError(error.message),
            by=EndedBy("exit"),
            complete=True,
        )
        self.asking.end()
        self.begin()


class Supervisor:
    """Holds the task of every handle. `settled` is called when nothing of a use is left, with
    whether all of it was confirmed gone."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        grace_s: float,
        withdraw: Callable[[Handle], None],
        settled: Callable[[Call, bool], None],
    ) -> None:
        self._nursery = nursery
        self._grace_s = grace_s
        self._withdraw = withdraw
        self._settled = settled
        self._uses: dict[Handle, Use] = {}
        self._marks: dict[str, Use] = {}
        self._turns = trio.Semaphore(_IN_A_ROW)

    def start(
        self,
        handle: Handle,
        runtime: Runtime,
        call: Call,
        router: Router | None = None,
        entry: Entry | None = None,
    ) -> Use:
        """Schedule the tool's task; nothing of it has run when this returns. `router` finds whoever
        answers its questions; `entry` is waited for before it runs."""
        use = Use(handle, self._grace_s, router, entry)
        self._uses[handle] = use
        self._marks[call.mark] = use
        handle.held = True
        self._nursery.start_soon(self._hold, use, runtime, call, name=f"{call.tool}:{handle.id}")
        return use

    def use_of(self, handle: Handle) -> Use | None:
        """The use that is still held: running, or with processes left behind."""
        return self._uses.get(handle)

    def marked(self, mark: str) -> Use | None:
        """The use whose processes carry this mark, for as long as there are any."""
        return self._marks.get(mark)

    def uses(self, session: str | None = None, id: str | None = None) -> tuple[Use, ...]:
        """The uses that are still held, or those of a session, or of an id: a handle that a new one
        of its name has replaced may have left processes behind, and they are still its."""
        return tuple(
            use
            for handle, use in self._uses.items()
            if session in (None, handle.session) and id in (None, handle.id)
        )

    def end(self, use: Use, by: EndedBy, grace_s: float | None = None) -> None:
        """Decide that a use ends, whoever goes away meanwhile. The first to do so ended it."""
        if use.ender is None:
            use.ender = by
        if grace_s is not None:
            use.grace_s = grace_s
        self._nursery.start_soon(self._cancel_in_turn, use)

    def give_up(self, use: Use, by: EndedBy) -> None:
        """End a use that nobody has let in yet; any other goes on."""
        if use.is_held_back:
            self.end(use, by)

    async def _cancel_in_turn(self, use: Use) -> None:
        await self._take_turn()
        use.scope.cancel()

    async def abort(self, use: Use, by: EndedBy, grace_s: float | None = None) -> None:
        """End a use; returns when nothing of it is left."""
        self.end(use, by, grace_s)
        await use.done.wait()

    async def abort_all(self, by: EndedBy, uses: Iterable[Use] | None = None) -> None:
        """End many uses at once; returns when nothing of them is left."""
        async with trio.open_nursery() as nursery:
            for use in self.uses() if uses is None else uses:
                nursery.start_soon(self.abort, use, by)

    async def _take_turn(self) -> None:
        """Wait until it is this one's turn to block the loop, as every start and every look for what
        is to be ended does for a moment; hundreds of them at once must not block it as a whole."""
        async with self._turns:
            pass

    async def _hold(self, use: Use, runtime: Runtime, call: Call) -> None:
        handle = use.handle
        try:
            with use.scope:
                try:
                    entered = await use.enter()
                    if entered is not None:
                        runtime, call = entered
                    await self._take_turn()
                    result = await runtime.run(call, use)
                except Skipped as skipped:
                    use.skip(skipped)
                except RpcError as refusal:
                    if not use.is_held_back:
                        raise
                    self._keep_out(use, refusal)
                except StartFailed as failed:
                    self._refuse(use, failed.message, failed.reason)
                except ToolFailed as failed:
                    if not handle.stopped:
                        use.ended(Ended(failure=failed))
                else:
                    if not handle.stopped:
                        use.ended(Ended(code=0 if result is None else None, result=result))
        except Exception:
            incident = secrets.token_hex(4)
            log.exception("a runtime failed", handle=handle.id, tool=call.tool, incident=incident)
            problem = fault(incident)
            if not use.begun.is_set():
                self._refuse(use, problem, "internal")
            elif not handle.stopped:
                use.ended(Ended(failure=ToolFailed(problem)))
        if use.is_held_back and not handle.stopped:
            self._keep_out(use, _unstarted(use.ender))
        if not handle.stopped:
            use.ended(Ended(natural=use.ender is None))
        use.begin()
        handle.held = False
        del self._uses[handle]
        self._marks.pop(call.mark, None)
        try:
            if handle.terminal:
                handle.last_screen = use.screen()
                handle.last_paint = use.paint() or b""
            self._settled(call, not handle.unconfirmed)
        except Exception:
            log.exception("clearing up after a handle failed", handle=handle.id, tool=call.tool)
        finally:
            use.done.set()

    def _keep_out(self, use: Use, refusal: RpcError) -> None:
        """It was not let in: as if it had never been admitted, and no news to anybody but its caller,
        who is told."""
        use.handle.on_news = None
        self._withdraw(use.handle)
        use.fail(refusal)

    def _refuse(self, use: Use, why: str, reason: str) -> None:
        """It could not be started: as if it had never been admitted."""
        self._withdraw(use.handle)
        use.fail(spawn_failed(why.rstrip("."), reason=reason))


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


def _unstarted(by: EndedBy | None) -> RpcError:
    """Why what was never let in will not run."""
    if by is not None and by.by == "shutdown":
        return shutting_down()
    return spawn_failed("it was ended while it waited for approval", reason="aborted")
