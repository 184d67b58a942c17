"""Asks a program of the user's: a prompt on the desktop, a bot.

Rules: the question is JSON on its standard input, never an argument; the answer is the object
`{"answer": …}` on its standard output, and nobody logs either, nor what it says on standard error.
Any exit but 0 declines. It is an errand (`runtimes.errand`): when somebody else has answered it is ended.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog
import trio

from haft_protocol.inquiries import read_lasting
from haft_protocol.questions import InvalidAnswer
from haftd.runtimes.base import Call
from haftd.runtimes.errand import run_errand

from .base import AGAIN, Answered, Backend, Declined, Outcome, Way

__all__ = ["CommandBackend"]

_MOST_AT_ONCE = 16

log = structlog.get_logger("haftd.inquiry")


class CommandBackend(Backend):
    """The backend `command`. `begin` makes the call of one run, `clear_up` is called when nothing of
    that is left, with whether all of it was confirmed gone."""

    name = "command"
    takes_secrets = True

    def __init__(self, begin: Callable[[], Call], clear_up: Callable[[Call, bool], None]) -> None:
        self._begin = begin
        self._clear_up = clear_up
        self._turns = trio.Semaphore(_MOST_AT_ONCE)

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        inquiry = way.inquiry
        async with self._turns:
            for _ in range(1 + AGAIN):
                said = await self._run(msgspec.json.encode(inquiry) + b"\n")
                if isinstance(said, str):
                    return Declined(said)
                try:
                    answer, remember = read_lasting(way.inquiry, msgspec.json.decode(said))
                except InvalidAnswer as wrong:
                    inquiry = msgspec.structs.replace(inquiry, refused=f"{wrong}.")
                    continue
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    inquiry = msgspec.structs.replace(inquiry, refused="It is not JSON.")
                    continue
                return Answered(answer, {"by": "command"}, remember)
        return Declined("what it printed was no answer to the question")

    async def _run(self, question: bytes) -> bytes | str:
        """What one run printed, or why that does not count."""
        said = await run_errand(self._begin(), self._clear_up, question)
        if isinstance(said, bytes):
            return said
        if said.kind != "start":
            return f"it {said.why}"
        log.warning("the program that is to answer cannot be started", why=said.why)
        return "it cannot be started"
