"""One started process: its bytes, its end, and what it leaves behind.

Rules:

- The end is the end of the process that was started, never of its output. What is there by then
  is read to the last byte before the end is reported.
- If something else holds the output then, it is read for `_LOOSE_S` more and cut loose. A terminal
  that no process has open while the one that was started lives is not at its end.
- Bytes go on moving while an abort waits: a program that cleans up may have to print.
- Whatever goes wrong in here, nothing that was started is left.
- Limits bound all of it until nothing is left, also after the end was reported.
- Everything is woken by the kernel; the only deadlines are the grace, the limit of the wall
  clock and the bound on what is held open. Only what a limit bounds as a sum is looked at again
  and again, as no kernel tells of it.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
import trio
from msgspec.structs import replace

from haft_protocol.states import EndedBy, LeftBehind
from haftd.core.ending import EXIT, LIMIT, LOST, Ending
from haftd.host import pump
from haftd.host.launch.program import LaunchFailed
from haftd.host.launch.spawn import Exit, LaunchedProcess, LaunchSpec, launch
from haftd.host.tree.process_tree import ProcessTree
from haftd.runtimes.base import Call, RuntimeContext, StartFailed, is_cancellation

from .interpreter import Interpreter, Said, exit_state
from .resource_limits import ResourceLimits

log = structlog.get_logger("haftd.runtimes.process.child")

_LOOSE_S = 0.5
_LOOKS_S = (0.02, 0.5)
_TERM = 1 << 14


@dataclass(slots=True, eq=False)
class Output:
    """One descriptor that is read, and where its bytes go; for `keep_up` see `pump.pump`."""

    fd: int
    take: Callable[[bytes], None]
    keep_up: Callable[[], Awaitable[None] | None] = lambda: None
    on_end: Callable[[], None] = lambda: None
    """Called at its end, unless the end of the process comes first."""
    at_end: bool = False


def _launch(call: Call) -> LaunchedProcess:
    """Launch, and once more where descriptors had run out and some could be freed: that is found out
    before the start is recorded, and nothing is left of it."""
    try:
        return launch(_plan(call), call.record)
    except LaunchFailed as failed:
        if not failed.no_descriptor or not call.make_room():
            raise
    return launch(_plan(call), call.record)


def _plan(call: Call) -> LaunchSpec:
    env = dict(call.env)
    if call.mark:
        env["HAFT_HANDLE"] = call.mark
    return LaunchSpec(
        argv=call.argv,
        cwd=call.cwd,
        env=env,
        terminal=call.terminal,
        rows=call.rows,
        cols=call.cols,
        stdin="pipe" if call.output == "events" else call.stdin,
        output=call.output,
        limits=call.limits,
        nofile=call.nofile,
        cgroup=call.cgroup,
    )


class Child:
    """A process of a handle that was started, and all that came of it.

    An asynchronous context: entered right after the start, and left when nothing of it is left,
    whatever went wrong in between.
    """

    def __init__(
        self,
        launched: LaunchedProcess,
        kin: ProcessTree,
        port: RuntimeContext,
        bounds: ResourceLimits,
    ) -> None:
        self.launched = launched
        self.kin = kin
        self._port = port
        self._bounds = bounds
        self._outputs: Sequence[Output] = ()
        self._io = trio.CancelScope(shield=True)
        self._life = trio.CancelScope()
        self._flowed = trio.Event()
        self._still = trio.Event()
        self._passed: str | None = None
        self._dismissed = False
        self._reported = False
        self._complete = False
        self._seen_through = False
        self._gone = False

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if not self._seen_through:
                # A fault of ours: it must not cost anybody a process that nobody holds.
                with trio.CancelScope(shield=True):
                    await self.kin.end(self._port.grace_s)
                    self.launched.reap()
        finally:
            self.close()

    @classmethod
    async def start(cls, call: Call, port: RuntimeContext, bounds: ResourceLimits) -> Child:
        """Start the program of `call`; returns when it runs, and is to be entered at once.

        Raises `StartFailed`.
        """
        try:
            launched = _launch(call)
        except LaunchFailed as failed:
            raise StartFailed(failed.message, failed.reason) from None
        child = cls(launched, ProcessTree(launched, call.mark, call.cgroup), port, bounds)
        bounds.follow(call.mark)
        try:
            await launched.confirm()
        except LaunchFailed as failed:
            child.close()
            raise StartFailed(failed.message, failed.reason) from None
        except BaseException:
            with trio.CancelScope(shield=True):
                await child.kin.end(0.0)
            child.close()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self.launched.pid

    @property
    def stdout(self) -> int:
        """Its standard output."""
        return _have(self.launched.stdout)

    @property
    def stderr(self) -> int:
        """Its standard error, where that is apart."""
        return _have(self.launched.stderr)

    @property
    def ended(self) -> bool:
        """Whether the process that was started has ended."""
        return self._gone or self.launched.exit is not None

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """What lives on after it, as of now."""
        if self._gone or not self.ended:
            return ()
        return tuple(LeftBehind(one.pid, one.command) for one in self.kin.left_behind())

    def kill(self) -> None:
        """Kill all of it; whoever sees it through finds it gone."""
        if not self._gone:
            self.kin.signal(signal.SIGKILL)

    def members(self) -> tuple[int, ...]:
        """Everything of it that lives, as of now."""
        return () if self._gone else tuple(self.kin.members())

    def emit(self, data: bytes) -> None:
        """Report output, within the limit."""
        if not data:
            return
        kept, passed = self._bounds.count(data)
        if kept:
            self._port.emit(kept)
        if passed and self._passed is None:
            self.pass_limit("output")

    def pass_limit(self, limit: str) -> None:
        """End the process because it has passed a limit."""
        self._passed = self._passed or limit
        self._life.cancel()

    def dismiss(self) -> None:
        """End the process, which has said all that it had to say."""
        self._dismissed = True
        self._life.cancel()

    async def run(
        self,
        outputs: Sequence[Output],
        interpreter: Interpreter,
        tasks: Sequence[Callable[[], Awaitable[None]]] = (),
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """See it through until nothing of it is left; reports its end through the port.

        `tasks` run beside it while bytes may move. `at_end` is called when the process has ended,
        before that is reported.
        """
        self._outputs = outputs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._move, tasks)
            try:
                await self._see_through(interpreter, at_end)
                self._seen_through = True
            except BaseException as error:
                self._seen_through = is_cancellation(error)
                raise
            finally:
                self._io.cancel()

    def close(self) -> None:
        """Give every descriptor back, and know nobody who was given bytes."""
        self._gone = True
        self._outputs = ()
        self._bounds.unfollow()
        self.launched.close()

    async def _move(self, tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        try:
            with self._io:
                if not tasks and len(self._outputs) == 1:
                    await self._flow(self._outputs[0])
                    return
                async with trio.open_nursery() as nursery:
                    for task in tasks:
                        nursery.start_soon(task)
                    for output in self._outputs:
                        nursery.start_soon(self._flow, output)
        finally:
            self._still.set()

    async def _flow(self, output: Output) -> None:
        await pump.pump(output.fd, output.take, output.keep_up, self._is_final)
        output.at_end = True
        output.on_end()
        if all(one.at_end for one in self._outputs):
            self._flowed.set()

    def _is_final(self) -> bool:
        """Whether output that has come to an end cannot go on: a terminal's may."""
        return self.launched.master is None or self.ended

    async def _see_through(self, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        began = trio.current_time()
        if self._bounds.wall_left is not None:
            self._life.deadline = began + self._bounds.wall_left
        try:
            with self._life:
                await self._exit_within_bounds()
        except BaseException as error:
            if not is_cancellation(error):
                raise
            with trio.CancelScope(shield=True):
                await self._stop(interpreter, at_end)
            raise
        wall_end = self._life.deadline
        self._bounds.spent(trio.current_time() - began)
        exit = self.launched.exit
        if exit is None:
            if not self._dismissed:
                self._passed = self._passed or "wall_s"
            with trio.CancelScope(shield=True):
                await self._stop(interpreter, at_end)
            return
        self._report(exit, interpreter, at_end)
        self._life = trio.CancelScope(deadline=wall_end)
        if self._passed is not None:
            self._life.cancel()
        await self._linger()

    async def _exit_within_bounds(self) -> None:
        await self._within_sums(self.launched.wait_exit)

    async def _within_sums(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait while what the processes use together is looked at."""
        if not self._bounds.are_summed:
            await wait()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_sums)
            await wait()
            nursery.cancel_scope.cancel()

    async def _watch_sums(self) -> None:
        pause, longest = _LOOKS_S
        while True:
            await trio.sleep(pause)
            limit = self._bounds.passed(self.members())
            if limit is not None:
                self.pass_limit(limit)
                return
            pause = min(pause * 2, longest)

    def _report(self, exit: Exit, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        """It has ended by itself: read what is there, then say so."""
        self._drain()
        at_end()
        said = interpreter.finish(exit)
        if said is None:
            return
        self._reported = True
        limit = self._passed = self._passed or self._bounds.blame(exit)
        self._port.ended(
            _ending(
                exit, said if limit is None else Said(), EXIT if limit is None else LIMIT, limit
            ),
            complete=self._complete,
        )

    def _drain(self) -> None:
        for output in self._outputs:
            # A terminal's end may have been seen while nobody had it open, and not be the last.
            output.at_end = pump.drain(output.fd, output.take) or output.at_end
        self._complete = all(output.at_end for output in self._outputs)
        if self._complete:
            self._flowed.set()

    async def _linger(self) -> None:
        """Stay until nothing of it is left."""
        try:
            if self._reported:
                with trio.move_on_after(_LOOSE_S):
                    await self._flowed.wait()
            await self._cut_loose()
            if not self._reported:
                # The handle goes on with another process: this one's rest is in the way.
                await self.kin.end(self._port.grace_s)
            await self._rest_within_bounds()
        except BaseException as error:
            if is_cancellation(error):
                with trio.CancelScope(shield=True):
                    await self.kin.end(self._port.grace_s)
                await self._cut_loose()
            raise

    async def _rest_within_bounds(self) -> None:
        """Wait until nothing that it has left behind lives; end that where it passes a limit."""
        with self._life:
            await self._within_sums(self.kin.gone)
        if self._life.cancelled_caught:
            limit = self._passed or "wall_s"
            log.warning("a limit ended what was left behind", limit=limit, pid=self.pid)
            with trio.CancelScope(shield=True):
                await self.kin.end(self._port.grace_s)

    async def _cut_loose(self) -> None:
        """Read no more."""
        self._io.cancel()
        # Not before every task has let go of them: the numbers are somebody else's afterwards.
        with trio.CancelScope(shield=True):
            await self._still.wait()
        cut = self._reported and not self._complete
        if cut:
            self._drain()
        self.launched.close_stdin()
        self.launched.close_output()
        if cut:
            self._complete = True
            self._port.completed()

    async def _stop(self, interpreter: Interpreter, at_end: Callable[[], None]) -> None:
        """End it and all of it; then say so."""
        grace_s = self._port.grace_s
        heeds_term = not _keeps_term(self.launched.pid)
        natural = self.launched.exiting()
        parted = grace_s > 0 and not natural and interpreter.part()
        if parted:
            heeds_term = False
            with trio.move_on_after(grace_s / 2):
                await self.launched.wait_exit()
        unconfirmed = await self.kin.end(grace_s)
        exit = self.launched.reap()
        if exit is None and self.launched.pid not in unconfirmed:
            exit = await self.launched.wait_exit()
        exit = exit or Exit()
        # One that has a code had left before the signal came, if it does not handle TERM, or if no
        # signal was sent: a shell blocks them for a moment when its command has ended.
        untouched = heeds_term or not (parted or self.kin.leader_was_signalled)
        natural = natural or self._dismissed or (untouched and exit.code is not None)
        self._drain()
        at_end()
        said = interpreter.give_up()
        complete, self._complete = self._complete, True
        self._reported = True
        limit = self._passed
        said = said if self._dismissed else Said()
        is_limit = limit is not None
        by = EXIT if natural and not is_limit else LOST
        if is_limit and said.failure is None:
            by = LIMIT
        ending = _ending(exit, said, by, limit)
        self._port.ended(replace(ending, unconfirmed=tuple(unconfirmed)), complete=complete)
        if not complete:
            self._port.completed()
        await self._cut_loose()


def _ending(exit: Exit, said: Said, by: EndedBy, limit: str | None) -> Ending:
    ending = Ending(result=said.result) if said.failure is None else said.failure.ending
    return replace(ending, by=by, exit=exit_state(exit), limit=limit)


def _have(fd: int | None) -> int:
    if fd is None:
        raise AssertionError("the plan of the start asked for this descriptor")
    return fd


def _keeps_term(pid: int) -> bool:
    """Whether the process does something of its own with TERM: handles, ignores or blocks it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line[:7] in (b"SigBlk:", b"SigIgn:", b"SigCgt:") and int(line[7:], 16) & _TERM:
                    return True
    except OSError:
        pass
    return False
