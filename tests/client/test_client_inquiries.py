from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import UNSET

from haft import ConnectionLost, Declined, ProtocolFault, RemoteError, aio
from haft_protocol.approvals import Approval, Decided
from haft_protocol.inquiries import Inquiry, RememberedAnswer
from tests.client.conftest import Serve
from tests.client.fake import LATER, FakeDaemon
from tests.e2e.question_tools import asking, tool
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon

TOOLS = (
    tool("one", asking("sure"), more="parameters = {}")
    + tool("two", asking("name", "Text"), asking("again", "Text"), more="parameters = {}")
    + tool("both", asking("sure"), more='parameters = {}\nrun = "ask"')
)


@pytest.fixture(scope="module")
def asking_daemon() -> Iterator[RunningDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(TOOLS)
    yield daemon.start()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(asking_daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch) -> RunningDaemon:
    """A daemon with tools that ask, which clients find."""
    monkeypatch.setenv("HAFT_SOCKET", str(asking_daemon.socket))
    return asking_daemon


async def test_a_question_is_answered_by_the_calling_program(place: RunningDaemon) -> None:
    asked: list[Inquiry] = []

    async def answer(inquiry: Inquiry) -> object:
        asked.append(inquiry)
        return f"{inquiry.question.id}!"

    async with aio.connect(answer=answer) as haft:
        done = await haft.call_tool("two", call_id="c1", context={"said": "hi"})
    assert json.loads(done["result"]) == {"name": "name!", "again": "again!"}
    assert [one.question.id for one in asked] == ["name", "again"]
    assert {one.inquiry_id for one in asked} == {"tool_call.two.c1"}
    assert asked[0].context == {"said": "hi"}


async def test_a_remembered_answer_is_requested_once(place: RunningDaemon) -> None:
    asked: list[str] = []

    async def answer(inquiry: Inquiry) -> object:
        asked.append(str(inquiry.call_id))
        return RememberedAnswer(True, "session")

    async with aio.connect(answer=answer, session="lasting") as haft:
        done = [await haft.call_tool("one", call_id=name) for name in ("a", "b")]
    assert [json.loads(one["result"]) for one in done] == [{"sure": True}] * 2
    assert asked == ["a"]


async def test_questions_are_answered_concurrently(place: RunningDaemon) -> None:
    both_are_asked = trio.Event()
    asked: list[str] = []
    results: list[dict[str, Any]] = []

    async def answer(inquiry: Inquiry) -> object:
        asked.append(str(inquiry.call_id))
        if len(asked) == 2:
            both_are_asked.set()
        await both_are_asked.wait()
        return True

    async with aio.connect(answer=answer) as haft, trio.open_nursery() as nursery:

        async def call(name: str) -> None:
            results.append(await haft.call_tool("one", call_id=name))

        nursery.start_soon(call, "a")
        nursery.start_soon(call, "b")
    assert sorted(asked) == ["a", "b"]
    assert [json.loads(result["result"]) for result in results] == [{"sure": True}] * 2


async def test_a_declined_question_goes_to_another_client(place: RunningDaemon) -> None:
    async def decline(inquiry: Inquiry) -> object:
        raise Declined("not my business")

    async def agree(inquiry: Inquiry) -> object:
        return True

    async with aio.connect(answer=agree, session="s") as other:
        await other.ping()
        async with aio.connect(answer=decline, session="s") as haft:
            done = await haft.call_tool("one")
    assert json.loads(done["result"]) == {"sure": True}


async def test_a_question_answered_elsewhere_is_withdrawn(place: RunningDaemon) -> None:
    asked, withdrawn = trio.Event(), trio.Event()

    async def think(inquiry: Inquiry) -> object:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            withdrawn.set()

    async with (
        aio.connect(answer=think, session="elsewhere") as haft,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(haft.call_tool, "one")
        await asked.wait()
        (open_one,) = (await haft.call("inquiries/list")).inquiries
        await haft.call("inquiries/answer", inquiry_id=open_one.inquiry_id, answer=True)
        with trio.fail_after(PATIENCE_S):
            await withdrawn.wait()


async def test_a_user_gives_the_approval_and_the_answer(place: RunningDaemon) -> None:
    seen: list[str] = []

    async def approve(approval: Approval) -> Any:
        seen.append(approval.action)
        return "allow" if len(seen) == 1 else Decided("deny", reason="enough")

    async def answer(inquiry: Inquiry) -> object:
        return True

    async with aio.connect(answer=answer, approve=approve) as haft:
        assert json.loads((await haft.call_tool("both"))["result"]) == {"sure": True}
        with pytest.raises(RemoteError, match="enough") as refused:
            await haft.call_tool("both")
    assert refused.value.code == -32007 and seen == ["call", "call"]


async def test_a_fault_of_the_program_is_raised_there_and_not_sent(place: RunningDaemon) -> None:
    async def broken(inquiry: Inquiry) -> object:
        raise KeyError("a secret of the program")

    with pytest.raises(KeyError, match="a secret of the program"):
        async with aio.connect(answer=broken, session="broken") as haft:
            await haft.call_tool("one")
    assert "a secret of the program" not in place.log.read_text()


async def nothing(inquiry: Inquiry) -> object:
    raise KeyError("a secret of the program")


async def loud(approval: Approval) -> Any:
    raise KeyError("a secret of the program")


ASKED: list[tuple[str, dict[str, Any]]] = [
    (
        "inquiry/ask",
        {
            "session": "s",
            "inquiry_id": "tool_call.one.c1",
            "question": {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}},
            "schema": {},
            "target": "caller",
            "handle": "one.c1",
        },
    ),
    (
        "approval/ask",
        {
            "approval_id": "1",
            "session": "s",
            "tool": "run",
            "action": "call",
            "id": "a",
            "arguments": {},
            "rendered": "make",
            "mode": "ask",
        },
    ),
]
NO_ANSWER = {"code": -32603, "message": "This client failed while it was looking for an answer."}


@pytest.mark.parametrize(("method", "params"), ASKED)
async def test_an_exception_of_the_program_is_not_sent(
    serve: Serve, method: str, params: dict[str, Any]
) -> None:
    daemon = serve(lambda request, peer: None)
    with pytest.raises(KeyError, match="a secret of the program"), trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=nothing, approve=loud) as haft:
            await haft.ping()
            daemon.peers[0].send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
            await trio.sleep_forever()
    assert await reply_of(daemon) == {"jsonrpc": "2.0", "id": 7, "error": NO_ANSWER}


async def reply_of(daemon: FakeDaemon) -> dict[str, Any]:
    """Return the only reply that the daemon has received."""
    with trio.fail_after(PATIENCE_S):
        while not daemon.replies:
            await trio.sleep(0.01)
    (reply,) = daemon.replies
    return reply


async def test_an_invalid_answer_is_requested_again_with_the_fault(
    place: RunningDaemon,
) -> None:
    asked: list[object] = []
    said = iter(["yes", math.nan, True])

    async def answer(inquiry: Inquiry) -> object:
        asked.append(inquiry.refused)
        return next(said)

    with trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer, session="no-fit") as haft:
            done = await haft.call_tool("one")
    assert json.loads(done["result"]) == {"sure": True}
    first, *again = asked
    assert first is UNSET and len(again) == 2
    assert all("true or false" in str(one) for one in again)


async def test_an_invalid_decision_is_requested_again(place: RunningDaemon) -> None:
    asked: list[object] = []
    words: Any = iter(["maybe", None, "allow"])

    async def approve(approval: Approval) -> Any:
        asked.append(approval.refused)
        return next(words)

    async def answer(inquiry: Inquiry) -> object:
        return True

    with trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer, approve=approve, session="no-word") as haft:
            assert json.loads((await haft.call_tool("both"))["result"]) == {"sure": True}
    assert asked[0] is UNSET and len(asked) == 3 and "decision" in str(asked[1])


async def test_a_question_before_the_programs_first_turn_is_answered(
    serve: Serve,
) -> None:
    """A daemon may be quicker than a client on a busy machine."""
    daemon = serve(lambda request, peer: None)
    method, params = ASKED[0]

    async def answer(inquiry: Inquiry) -> object:
        return True

    for number in range(1, 17):  # Which task has the first turn is left to chance.
        async with aio.connect(answer=answer):
            # The loop has no turn meanwhile.
            assert daemon.accepted.acquire(timeout=PATIENCE_S)
            daemon.peers[-1].send(
                {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            )
            with trio.fail_after(PATIENCE_S):
                while len(daemon.replies) < number:
                    await trio.sleep(0.001)
    assert [reply.get("result") for reply in daemon.replies] == [{"answer": True}] * 16


async def test_a_fault_of_another_connection_is_raised_in_the_program(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)
    method, params = ASKED[0]

    async def answer(inquiry: Inquiry) -> object:
        raise ProtocolFault("what answers at another socket is another program")

    with pytest.raises(ProtocolFault, match="another socket"), trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer) as haft:
            await haft.ping()
            daemon.peers[0].send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
            await trio.sleep_forever()
    assert (await reply_of(daemon))["error"] == NO_ANSWER


async def test_the_loss_of_the_connection_ends_handlers_and_the_block(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)
    asked: list[str] = []
    ended: list[str] = []
    both = trio.Event()

    async def think(kind: str) -> Any:
        asked.append(kind)
        if len(asked) == 2:
            both.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(kind)

    async def answer(inquiry: Inquiry) -> object:
        return await think("answer")

    async def approve(approval: Approval) -> Any:
        return await think("approve")

    with pytest.raises(ConnectionLost), trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer, approve=approve) as haft:
            await haft.ping()
            for number, (method, params) in enumerate(ASKED):
                daemon.peers[0].send(
                    {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                )
            await both.wait()
            daemon.peers[0].close()
            try:
                await trio.sleep_forever()
            finally:
                assert sorted(ended) == ["answer", "approve"]


async def test_a_connection_loss_is_raised_without_a_cancellation_beside_it(serve: Serve) -> None:
    """Of the block's tasks, one gets the loss from its call, another by cancellation."""
    daemon = serve(lambda request, peer: LATER)

    async def answer(inquiry: Inquiry) -> object:
        return True

    with pytest.raises(ExceptionGroup) as raised, trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer) as haft, trio.open_nursery() as nursery:
            await haft.ping()
            nursery.start_soon(haft.fetch, "a")
            nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked(0.05)
            daemon.peers[0].close()
    assert raised.group_contains(ConnectionLost) and not raised.group_contains(trio.Cancelled)


async def test_a_finished_block_is_not_cancelled_by_a_lost_connection(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)

    async def answer(inquiry: Inquiry) -> object:
        return True

    with trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=answer) as haft:
            await haft.ping()
            daemon.peers[0].close()
            with trio.CancelScope(shield=True), pytest.raises(ConnectionLost):
                while True:
                    await haft.ping()


async def test_a_program_that_serves_nothing_is_not_interrupted(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)
    async with aio.connect() as haft:
        await haft.ping()
        daemon.peers[0].close()
        with pytest.raises(ConnectionLost):
            while True:
                await haft.ping()
        await trio.sleep(0.01)


async def test_a_broken_program_is_asked_no_more(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)
    method, params = ASKED[0]

    with pytest.raises(KeyError), trio.fail_after(PATIENCE_S):
        async with aio.connect(answer=nothing) as haft:
            await haft.ping()
            with trio.CancelScope(shield=True):
                for number in range(2):
                    daemon.peers[0].send(
                        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                    )
                    while len(daemon.replies) <= number:
                        await haft.ping()
    assert [reply["error"]["code"] for reply in daemon.replies] == [-32603, -32601]


async def test_a_client_declares_its_capabilities_and_refuses_other_requests(serve: Serve) -> None:
    daemon = serve(lambda request, peer: None)

    async def answer(inquiry: Inquiry) -> object:
        raise AssertionError("what cannot be read is not asked")

    async with aio.connect(answer=answer) as haft:
        await haft.ping()
        for number, method in ((7, "inquiry/ask"), ("x", "approval/ask"), (9, "other")):
            daemon.peers[0].send({"jsonrpc": "2.0", "id": number, "method": method, "params": {}})
        await haft.ping()
        while len(daemon.replies) < 3:
            await haft.ping()
    assert daemon.calls("initialize")[0]["capabilities"] == {"inquiry": True}
    assert {r["id"]: r["error"]["code"] for r in daemon.replies} == {
        7: -32602,
        "x": -32601,
        9: -32601,
    }


async def test_a_turn_begins_and_ends(place: RunningDaemon) -> None:
    async with aio.connect(session="turns") as haft:
        assert await haft.begin_turn() == 1
        await haft.call_tool("run", {"action": "spawn", "id": "a", "argv": ["sleep", "60"]})
        ended = await haft.end_turn()
        assert [handle.id for handle in ended.handles] == ["a"] and ended.turn == 1
        assert [(one.id, one.kind) for one in await haft.notices()] == [("a", "tool.failed")]
        assert await haft.notices() == ()
