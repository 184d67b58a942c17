"""Every backend obeys the rules at the head of `haftd.inquiries.backend`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import structs
from msgspec.structs import replace

from haft_protocol.inquiries import Inquiry
from haft_protocol.rpc import Response
from haftd.caller import Caller
from haftd.client_requests import ClientRequests, Clients
from haftd.inquiries.backend import Backend, Candidate, Declined
from haftd.inquiries.client import ClientBackend
from haftd.inquiries.command import CommandBackend
from haftd.inquiries.kind import Message
from haftd.inquiries.llm.backend import LlmBackend
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.static import StaticBackend
from haftd.runtimes.base import Call
from tests.inquiries.fake import FakeBackend
from tests.inquiries.llm.recorded_conversations import recorded
from tests.inquiries.llm.request_judges import judge
from tests.inquiries.llm.scripted_provider import Server, Step, serving
from tests.runtimes import kit

from .backend_checker import (
    DECLINES,
    HANGS,
    LAWS,
    PATIENCE_S,
    Bench,
    a_wrong_answer_never_comes_through,
)


@asynccontextmanager
async def as_it_is(backend: Backend) -> AsyncIterator[Backend]:
    yield backend


class FakeBench:
    """The scripted backend."""

    def __init__(self, folder: Path) -> None:
        self._backend = FakeBackend()

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend]:
        steps: dict[str, Any] = {DECLINES: Declined("so"), HANGS: trio.Event()}
        known = [steps[reply] if reply in (DECLINES, HANGS) else reply for reply in replies]
        self._backend = FakeBackend(known)
        return as_it_is(self._backend)

    def left(self) -> Sequence[object]:
        return [1] * self._backend.waiting


class StaticBench:
    """Configured answers: one per question, so the first reply is the only one."""

    def __init__(self, folder: Path) -> None: ...

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend] | None:
        match replies:
            case ["declines"]:
                return as_it_is(StaticBackend({"tool": {"other": True}, "other": {"q": True}}))
            case [{"answer": answer, **rest}, *_] if not rest and answer != "x":
                return as_it_is(StaticBackend({"tool": {"q": answer}}))
        return None

    def left(self) -> Sequence[object]:
        return ()


class ClientBench:
    """A peer that answers, over a link as a connection has it."""

    def __init__(self, folder: Path) -> None:
        self._open: set[str] = set()

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend]:
        return self._serve(list(replies))

    @asynccontextmanager
    async def _serve(self, replies: list[object]) -> AsyncIterator[Backend]:
        clients, caller = Clients(), Caller("unix", 1, "host", inquiry=True)
        bench = self

        class Out:
            has_room = True

            async def room(self) -> None:
                await trio.lowlevel.checkpoint()

            async def idle(self) -> None:
                await trio.lowlevel.checkpoint()

        def send(message: bytes) -> None:
            document = json.loads(message)
            if document["method"] == "$/cancelRequest":
                bench._open.remove(document["params"]["id"])
                return
            assert document["method"] == "inquiry/ask"
            reply = replies.pop(0)
            id_ = json.dumps(document["id"]).encode()
            if reply == HANGS:
                bench._open.add(document["id"])
            elif reply == DECLINES:
                error = b'{"code":-32800,"message":"not now"}'
                nursery.start_soon(hear, Response(id_, None, error))
            else:
                nursery.start_soon(hear, Response(id_, json.dumps(reply).encode()))

        async def hear(reply: Response) -> None:
            clients.on_reply(caller, reply)

        clients.open(ClientRequests(caller, Out(), send, 64))
        async with trio.open_nursery() as nursery:
            yield ClientBackend(clients, lambda session: [caller])
            nursery.cancel_scope.cancel()
        assert not clients.refused

    def left(self) -> Sequence[object]:
        return list(self._open)


COMMAND = """
import json, os, sys
question = json.loads(sys.stdin.read())
assert question["inquiry_id"].startswith("tool_call.tool.") and question["question"]["id"] == "q"
folder = sys.argv[1]
for number in range(1000):
    try: os.mkdir(f"{folder}/{number}")
    except FileExistsError: continue
    break
reply = json.load(open(f"{folder}/replies"))[number]
print("noise", file=sys.stderr)
if reply == "declines": sys.exit(1)
if reply == "hangs": import time; time.sleep(1000)
print(json.dumps(reply))
"""


class CommandBench:
    """A program that looks its reply up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._calls: list[Call] = []

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend]:
        self._count += 1
        folder = self._folder / f"play{self._count}"
        folder.mkdir()
        (folder / "replies").write_text(json.dumps(replies))

        def begin() -> Call:
            argv = (sys.executable, "-I", "-S", "-c", COMMAND, str(folder))
            limits = {"wall_s": PATIENCE_S}
            call = kit.call(*argv, stdin="pipe", output="outcome", limits=limits)
            self._calls.append(call)
            return call

        return as_it_is(CommandBackend(begin, self._settled))

    def _settled(self, call: Call, confirmed: bool) -> None:
        assert confirmed and not kit.lives(call)
        self._calls.remove(call)

    def left(self) -> Sequence[object]:
        return [pid for call in self._calls for pid in kit.lives(call)]


class Conversing(LlmBackend):
    """Calls that belong to a conversation, which takes questions of no other."""

    context: Any = None

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        kind = pending.kind
        context = structs.replace(kind.context, context=self.context)
        pending.kind = replace(kind, context=context)
        return super().candidates(pending)


class LlmBench:
    """A model behind a local server that returns its reply as text."""

    def __init__(self, folder: Path) -> None:
        self._server = Server(())

    def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend]:
        return self._serve(list(replies))

    @asynccontextmanager
    async def _serve(self, replies: list[object]) -> AsyncIterator[Backend]:
        recording = recorded("openai")
        steps: list[Step] = []
        context: Any = []
        for reply in replies:
            if reply == HANGS:
                steps.append("hangs")
            elif reply == DECLINES:
                context = "no conversation"
            else:
                steps.append(recording.text(json.dumps(reply)))
        self._server = Server(steps, judge("openai"))
        async with serving(self._server):
            # Each question gets its own staged reply, so none shares a request with another.
            backend = Conversing(
                recording.settings(self._server.url, gather_ms=0), recording.environ
            )
            backend.context = context
            yield backend
        assert not self._server.faults

    def left(self) -> Sequence[object]:
        return [1] * self._server.open


BENCHES: tuple[Callable[[Path], Bench], ...] = (
    FakeBench,
    StaticBench,
    ClientBench,
    CommandBench,
    LlmBench,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("make", BENCHES, ids=lambda make: make.__name__)
async def test_a_backend(make: Callable[[Path], Bench], law: Any, tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        await law(make(tmp_path))


async def test_the_checker_finds_a_backend_that_repairs_invalid_answers(tmp_path: Path) -> None:
    class Mending(FakeBackend):
        async def _play(self, message: Message) -> object:
            self.steps.clear()
            return {"answer": True if isinstance(message, Inquiry) else None}

    class Planted(FakeBench):
        def stage(self, *replies: object) -> AbstractAsyncContextManager[Backend]:
            return as_it_is(Mending(replies))

    with pytest.raises(AssertionError):
        await a_wrong_answer_never_comes_through(Planted(tmp_path))
