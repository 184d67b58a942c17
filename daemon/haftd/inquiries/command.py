"""The backend `command`: a program of the user's, such as a prompt on the desktop or a bot.

Rules: the question is JSON on its standard input, never an argument; the answer is the object
`{"answer": …}` on its standard output, and neither is logged, nor its standard error. Any exit but 0 declines. It
runs as a helper command (`runtimes.process.helper`): when another candidate has answered it is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import structlog
import trio

from haft_protocol.questions import InvalidAnswer
from haftd.runtimes.base import Call
from haftd.runtimes.process.helper import run_helper

from .backend import Backend, Candidate, Declined
from .kind import Message
from .pending import PendingInquiry

_MAX_AT_ONCE = 16

log = structlog.get_logger("haftd.inquiries")


class CommandBackend(Backend):
    """The backend `command`. `begin` makes the call of one run, `clear_up` is called when nothing of
    that is left, with whether all of it was confirmed gone."""

    name = "command"
    takes_secrets = True

    def __init__(self, begin: Callable[[], Call], clear_up: Callable[[Call, bool], None]) -> None:
        self._begin = begin
        self._clear_up = clear_up
        self._turns = trio.Semaphore(_MAX_AT_ONCE)

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        """See `backend.Backend`."""
        yield Candidate(self._run, {"by": "command"})

    async def _run(self, message: Message) -> object:
        async with self._turns:
            given = msgspec.json.encode(message) + b"\n"
            printed = await run_helper(self._begin(), self._clear_up, given)
        if not isinstance(printed, bytes):
            if printed.kind == "start":
                log.warning("the program that is to answer cannot be started", why=printed.why)
                raise Declined("it cannot be started")
            raise Declined(f"it {printed.why}")
        try:
            return msgspec.json.decode(printed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise InvalidAnswer("It is not JSON") from None
