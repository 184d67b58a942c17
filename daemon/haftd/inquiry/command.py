"""Asks a program of the user's: a prompt on the desktop, a bot.

Rules: the question is JSON on its standard input, never an argument; the answer is the object
`{"answer": …}` on its standard output, and nobody logs either, nor what it says on standard error.
Any exit but 0 declines. It is started, recorded and ended as every tool is: when somebody else has
answered, when its time is over, when it says too much, and with it all that it has started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog
import trio

from haft_protocol.inquiries import read_reply
from haft_protocol.questions import InvalidAnswer
from haftd.runtimes.base import Call, Ended, Grip, InputRefused, StartFailed
from haftd.runtimes.bounds import Bounds
from haftd.runtimes.child import Child, Output
from haftd.runtimes.pipes import PipeGrip
from haftd.runtimes.reading import Plain

from .base import AGAIN, Answered, Backend, Declined, Outcome, Way

__all__ = ["CommandBackend"]

_MOST_AT_ONCE = 16
_MOST_SAID = 1 << 20
_GRACE_S = 0.5

log = structlog.get_logger("haftd.inquiry")


class _Port:
    """What is reported of one run; its end is all that counts."""

    def __init__(self) -> None:
        self.grace_s = _GRACE_S
        self.scope = trio.CancelScope()
        self.end: Ended | None = None

    def started(self, grip: Grip) -> None:
        """See `runtimes.base.Port`."""

    def emit(self, data: bytes) -> None:
        """See `runtimes.base.Port`."""

    def written(self, number: int) -> None:
        """See `runtimes.base.Port`."""

    def ended(self, end: Ended) -> None:
        """See `runtimes.base.Port`. What it has left behind is not waited for, but ended."""
        self.end = end
        self.scope.cancel()

    def completed(self) -> None:
        """See `runtimes.base.Port`."""

    async def ask(self, question: Any) -> Any:
        """See `runtimes.base.Port`."""
        raise AssertionError("a program that answers asks nothing")


class CommandBackend(Backend):
    """The backend `command`. `begin` makes the call of one run, `settled` is called when nothing of
    that is left, with whether all of it was confirmed gone."""

    name = "command"
    takes_secrets = True

    def __init__(self, begin: Callable[[], Call], settled: Callable[[Call, bool], None]) -> None:
        self._begin = begin
        self._settled = settled
        self._turns = trio.Semaphore(_MOST_AT_ONCE)

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        question = msgspec.json.encode(way.inquiry) + b"\n"
        async with self._turns:
            for _ in range(1 + AGAIN):
                said = await self._run(question)
                if isinstance(said, str):
                    return Declined(said)
                try:
                    answer = read_reply(way.inquiry, msgspec.json.decode(said))
                except (msgspec.MsgspecError, InvalidAnswer, UnicodeDecodeError, RecursionError):
                    continue
                return Answered(answer, {"by": "command"})
        return Declined("what it printed was no answer to the question")

    async def _run(self, question: bytes) -> bytes | str:
        """What one run printed, or why that does not count."""
        port = _Port()
        call = self._begin()
        try:
            said = await self._played(call, port, question)
        except StartFailed as failed:
            log.warning("the program that is to answer cannot be started", why=failed.message)
            return "it cannot be started"
        except InputRefused:
            return "the question is too long for it"
        finally:
            self._settled(call, port.end is None or not port.end.unconfirmed)
        end = port.end
        if end is None:
            raise AssertionError("a child that was seen through has ended")
        if end.limit is not None:
            return "it said too much" if end.limit == "output" else "it took too long"
        return said if end.code == 0 else f"it ended with {end.code or end.signal}"

    async def _played(self, call: Call, port: _Port, question: bytes) -> bytes:
        said = bytearray()
        async with await Child.start(call, port, Bounds(call.limits)) as child:

            def take(data: bytes) -> None:
                said.extend(data[: _MOST_SAID + 1 - len(said)])
                if len(said) > _MOST_SAID:
                    child.pass_limit("output")

            grip = PipeGrip(call, port, child)
            grip.put(question)
            grip.open_writer().end()
            outputs = [Output(child.stdout, take), Output(child.stderr, _pass_over)]
            with port.scope:
                await child.run(outputs, Plain(), grip.tasks, grip.close)
        return bytes(said)


def _pass_over(data: bytes) -> None:
    """Nobody reads this."""
