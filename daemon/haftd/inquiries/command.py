"""Backend `command`: a program of the user's."""

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
from .pending_inquiry import PendingInquiry

_MAX_AT_ONCE = 16
"""Running programs; further inquiries wait for their turn."""

log = structlog.get_logger("haftd.inquiries")


class CommandBackend(Backend):
    """The message is JSON on stdin, `{"answer": …}` is read from stdout. A program that cannot be
    started, exceeds a limit or exits with another status than 0 declines; output that is not JSON is a
    wrong answer. `clear_up` is called after the last process, with False if some may be left."""

    name = "command"
    takes_secrets = True

    def __init__(self, begin: Callable[[], Call], clear_up: Callable[[Call, bool], None]) -> None:
        self._begin = begin
        self._clear_up = clear_up
        self._turns = trio.Semaphore(_MAX_AT_ONCE)

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        yield Candidate(self._run, {"by": "command"})

    async def _run(self, message: Message) -> object:
        async with self._turns:
            request = msgspec.json.encode(message) + b"\n"
            printed = await run_helper(self._begin(), self._clear_up, request)
        if not isinstance(printed, bytes):
            if printed.kind == "start":
                log.warning("the program that answers cannot be started", why=printed.why)
                raise Declined("it cannot be started")
            raise Declined(f"it {printed.why}")
        try:
            return msgspec.json.decode(printed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise InvalidAnswer("It is not JSON") from None
