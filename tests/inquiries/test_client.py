from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import trio
from msgspec import UNSET
from msgspec.structs import replace

from haft_protocol.inquiries import Target
from haft_protocol.rpc import Response
from haftd.caller import Caller, Confinement
from haftd.client_requests import ClientRequests, Clients
from haftd.inquiries.client import ClientBackend
from haftd.inquiries.kind import Answered
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.router import ask_backend
from tests.inquiries.tool_questions import pending

PERSON = Caller("unix", 1, "person", inquiry=True)


def of_a_handle(name: str, *may: str, of: str = "another") -> Caller:
    return Caller(
        "unix", 2, name, inquiry=True, confinement=Confinement("handle", of, "s", frozenset(may))
    )


class _Out:
    has_room = True

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()

    async def idle(self) -> None:
        await trio.lowlevel.checkpoint()


async def asked(
    question: PendingInquiry, *callers: Caller
) -> tuple[Answered | None, list[str | None]]:
    """Return the answer where each client says yes for the session, and the asked clients."""
    clients = Clients()
    names: list[str | None] = []
    async with trio.open_nursery() as nursery:

        def connect(caller: Caller) -> None:
            async def say(reply: Response) -> None:
                clients.on_reply(caller, reply)

            def send(message: bytes) -> None:
                names.append(caller.name)
                number = json.dumps(json.loads(message)["id"]).encode()
                nursery.start_soon(say, Response(number, b'{"answer":true,"remember":"session"}'))

            clients.open(ClientRequests(caller, _Out(), send, 64))

        for caller in callers:
            connect(caller)
        outcome = await ask_backend(ClientBackend(clients, lambda session: callers), question)
    return outcome, names


def put(*, target: Target | None = None, may: Sequence[str] = ()) -> PendingInquiry:
    question = pending(target=target)
    question.kind = replace(question.kind, may=frozenset(may))
    return question


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (put(), ["plain"]),
        (put(target="user"), ["answers"]),
        (put(may=["handles"]), ["looks"]),
        (put(target="user", may=["handles"]), ["person"]),
    ],
)
async def test_a_program_is_asked_only_permitted_questions(
    question: PendingInquiry, names: list[str]
) -> None:
    """Neither a user's question, nor one of a more privileged program."""
    callers = (
        of_a_handle("plain"),
        of_a_handle("answers", "questions"),
        of_a_handle("looks", "handles"),
        PERSON,
    )
    assert (await asked(question, *callers))[1] == names


async def test_a_process_of_the_asking_handle_is_not_asked() -> None:
    """A nested assistant is a client of its session; its question is for another client."""
    outcome, names = await asked(
        put(), of_a_handle("asker", "questions", "handles", of="h"), of_a_handle("other")
    )
    assert isinstance(outcome, Answered)
    assert names == ["other"]


async def test_without_a_permitted_client_the_question_is_declined() -> None:
    outcome, names = await asked(put(target="user"), of_a_handle("plain"))
    assert outcome is None and names == []


async def test_only_a_user_sets_how_long_an_answer_is_remembered() -> None:
    found = [(await asked(put(), one))[0] for one in (PERSON, of_a_handle("plain"))]
    assert [one.remember for one in found if isinstance(one, Answered)] == ["session", UNSET]
