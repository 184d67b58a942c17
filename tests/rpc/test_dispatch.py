"""From a message to its answer, without a connection."""

from __future__ import annotations

import inspect
import json
from collections.abc import Generator
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
import pytest
import trio
from msgspec.structs import replace

from haft_protocol.errors import RpcError, internal
from haft_protocol.methods import AwaitResult, CalledText, Empty, FetchParams
from haft_protocol.rpc import read_params
from haft_protocol.states import (
    Base64,
    EndedBy,
    HandleState,
    Notice,
    Running,
    Screen,
    Stopped,
    as_text,
)
from haft_protocol.tools import called
from haftd.caller import Caller
from haftd.core import truncation
from haftd.core.truncation import BatchBudget, Paint
from haftd.methods import base
from haftd.methods.base import DeferredReply, MethodHandler
from haftd.rpc import dispatch, jsonrpcserver
from haftd.rpc.dispatch import Verdicts
from haftd.rpc.replies import Cancel, PendingBatch, PendingRequest, Reply
from tests.rpc.rig import Echo, Rig, batch, notification, request


@pytest.fixture
def rig() -> Rig:
    return Rig()


def answer(rig: Rig, message: bytes, caller: Caller | None = None, room: int = 8) -> Any:
    replies = rig.rpc_context.dispatcher.receive(caller or Caller("unix"), message, room)
    return settled(replies) if isinstance(replies, Generator) else replies


def settled(steps: Generator[None, None, Any]) -> Any:
    """Return the result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def plain(reply: object) -> Any:
    assert isinstance(reply, bytes)
    return json.loads(reply)


def test_params_are_decoded_once_and_typed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []

    def count(raw: Any, kind: Any, method: str = "") -> Any:
        decoded.append(kind)
        return read_params(raw, kind, method)

    for module in (dispatch, jsonrpcserver):
        monkeypatch.setattr(module, "read_params", count)
    assert plain(answer(rig, request("echo", text="a")))["result"] == "a"
    assert len(decoded) == 1
    answer(rig, batch(request("spawn", 1, tool="t", id="x"), request("spawn", 2, tool="t", id="y")))
    assert len(decoded) == 3


def test_short_params_of_a_method_that_only_reads_stay_decoded_and_no_others() -> None:
    given: dict[str, list[object]] = {"ping": [], "apply": []}

    def keep(name: str) -> MethodHandler:
        return lambda caller, params: given[name].append(params)

    methods = {name: (Echo, keep(name)) for name in given}
    table = jsonrpcserver.MethodTable(methods, lambda name, fault: internal("0"))
    for name in given:
        for text in ("a", "a", "b", "a", "l" * 300, "l" * 300):
            table.call(name, Caller("unix"), msgspec.Raw(msgspec.json.encode({"text": text})))
    for name, params in given.items():
        assert params == [Echo(text) for text in ("a", "a", "b", "a", "l" * 300, "l" * 300)]
        assert params[4] is not params[5]
        assert (params[0] is params[3]) is (name == "ping")


def test_a_call_goes_through_jsonrpcserver(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []
    get_method, call = (vars(jsonrpcserver)[name] for name in ("get_method", "call"))

    def spy_get(methods: Any, name: str) -> Any:
        seen.append(("get_method", name))
        return get_method(methods, name)

    def spy_call(request: Any, context: Any, method: Any) -> Any:
        seen.append(("call", request.method))
        return call(request, context, method)

    monkeypatch.setattr(jsonrpcserver, "get_method", spy_get)
    monkeypatch.setattr(jsonrpcserver, "call", spy_call)
    answer(rig, request("ping"))
    answer(rig, request("none"))
    assert seen == [("get_method", "ping"), ("call", "ping"), ("get_method", "none")]


def test_a_call_computes_no_signature(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a signature is computed")

    monkeypatch.setattr(inspect, "_signature_from_callable", fail)
    assert plain(answer(rig, request("echo", text="a")))["result"] == "a"


def test_a_method_keeps_nothing_of_another_call(rig: Rig) -> None:
    answer(rig, request("echo", text="a"))
    assert plain(answer(rig, request("echo")))["result"] == ""


def test_a_method_may_call_the_dispatcher_again(rig: Rig) -> None:
    depth = [0]

    def nest(caller: Caller, params: Any) -> str:
        depth[0] += 1
        if depth[0] == 1:
            assert plain(answer(rig, request("again", text="inner")))["result"] == "inner"
        return str(params.text)

    rig.rpc_context.dispatcher._methods.add("again", Echo, nest)
    assert plain(answer(rig, request("again", text="outer")))["result"] == "outer"


def test_a_deferred_reply_is_returned(rig: Rig) -> None:
    waiting = answer(rig, request("wait", "a", name="x"))
    assert isinstance(waiting, PendingRequest)
    assert (waiting.id, waiting.key) == (b'"a"', "a")
    assert answer(rig, notification("$/cancelRequest", id="a")) == Cancel("a")


def test_cancel_takes_only_an_id(rig: Rig) -> None:
    for params in ({"id": 1.5}, {"id": True}, {"id": [1]}, {}, {"id": 1, "x": 2}):
        assert answer(rig, notification("$/cancelRequest", **params)) is None
    assert plain(answer(rig, request("$/cancelRequest", 7, id=1)))["error"]["code"] == -32600


def test_equal_ids_written_differently_are_the_same(rig: Rig) -> None:
    waiting = answer(rig, b'{"jsonrpc":"2.0","id":"\\u0061","method":"wait","params":{"name":"x"}}')
    assert waiting.id == b'"\\u0061"'
    assert answer(rig, notification("$/cancelRequest", id="a")) == Cancel(waiting.key)


def test_a_batch_cancels_its_own_calls(rig: Rig) -> None:
    found = answer(rig, batch(request("wait", 1, name="x"), notification("$/cancelRequest", id=1)))
    assert isinstance(found, PendingBatch)
    assert found.cancels == [Cancel(1)] and found.reply is None


def test_a_batch_with_a_cancellation_and_no_deferred_call_is_answered(rig: Rig) -> None:
    cancel = notification("$/cancelRequest", id=9)
    found = answer(rig, batch(cancel, request("ping", 1), request("none", 2)))
    assert isinstance(found, PendingBatch) and found.cancels == [Cancel(9)]
    assert [one["id"] for one in plain(found.reply)] == [1, 2]
    found = answer(rig, batch(cancel))
    assert isinstance(found, PendingBatch) and found.reply is None


def test_a_batch_shares_the_reply_bound(rig: Rig) -> None:
    found = answer(rig, batch(*(request("wait", n, name="x") for n in range(4))), room=2)
    assert [isinstance(slot, PendingRequest) for slot in found.slots] == [True, True, False, False]
    assert plain(found.slots[3])["error"]["data"]["limit"] == "max_in_flight"


def test_a_failed_reservation_fails_the_batch(rig: Rig) -> None:
    def broken(*_: object) -> Generator[None, None, Verdicts]:
        raise KeyError("planted")

    rig.rpc_context.dispatcher.reserve = broken
    replies = plain(answer(rig, batch(request("spawn", 1, tool="t", id="x"), request("ping", 2))))
    assert [reply["error"]["code"] for reply in replies] == [-32603, -32603]
    assert rig.calls == []


def test_a_response_to_an_unknown_request_is_ignored(rig: Rig) -> None:
    assert answer(rig, b'{"jsonrpc":"2.0","id":3,"result":{"a":1}}') is None
    assert rig.calls == []


async def test_a_late_result_that_cannot_be_encoded_is_an_incident(rig: Rig) -> None:
    async def run() -> object:
        await trio.lowlevel.checkpoint()
        return object()

    reply = await rig.rpc_context.dispatcher.finish(
        PendingRequest(b"1", 1, "m", DeferredReply(run))
    )
    assert isinstance(reply, Reply)
    assert plain(rig.rpc_context.dispatcher.encode(reply))["error"]["code"] == -32603


@pytest.mark.parametrize("in_batch", [True, False])
async def test_only_a_reply_that_is_not_cut_may_have_encoded_texts(
    rig: Rig, in_batch: bool
) -> None:
    async def text() -> object:
        return "text"

    async def encoded() -> object:
        return "encoded"

    budget = BatchBudget() if in_batch else None
    pending = PendingRequest(b"1", 1, "m", DeferredReply(text, encoded), budget)
    reply = await rig.rpc_context.dispatcher.finish(pending)
    assert isinstance(reply, Reply)
    assert reply.result == ("text" if in_batch else "encoded")


def test_a_websocket_starts_with_initialize(rig: Rig) -> None:
    caller = Caller("websocket")
    assert plain(answer(rig, request("ping"), caller))["error"]["code"] == -32006
    assert plain(answer(rig, request("none"), caller))["error"]["code"] == -32006
    hello = request("initialize", client={"name": "x"}, protocol=1)
    assert plain(answer(rig, hello, caller))["result"] == "welcome"
    assert plain(answer(rig, request("ping"), caller))["result"] == {"pong": True}


def test_nothing_comes_between_the_spawns_of_a_batch(rig: Rig) -> None:
    """Their clashes were checked for all at once."""
    calls = [request("spawn", n, tool="t", id=str(n)) for n in (1, 3)]
    steps = rig.rpc_context.dispatcher.receive(
        Caller("unix"), batch(calls[0], request("note", 2, name="n"), calls[1]), 8
    )
    assert isinstance(steps, Generator)
    next(steps)
    assert rig.calls[:2] == ["spawn 1", "spawn 3"]
    assert [one["id"] for one in plain(settled(steps))] == [1, 2, 3]
    assert rig.calls == ["spawn 1", "spawn 3", "n"]


def test_other_tasks_run_between_the_spawns_of_a_batch(rig: Rig) -> None:
    """The spawns' ids are reserved meanwhile, and released when taken."""
    calls = [request("spawn", n, tool="t", id=str(n)) for n in range(20)]
    steps = rig.rpc_context.dispatcher.receive(Caller("unix"), batch(*calls), 30)
    assert isinstance(steps, Generator)
    next(steps)
    assert 0 < len(rig.calls) < 20 and rig.given_up == [call.split()[1] for call in rig.calls]
    assert [one["id"] for one in plain(settled(steps))] == list(range(20))
    assert rig.given_up == [str(n) for n in range(20)]


def test_a_dropped_batch_releases_its_reservations(rig: Rig) -> None:
    calls = [request("spawn", n, tool="t", id=str(n)) for n in range(20)]
    steps = rig.rpc_context.dispatcher.receive(Caller("unix"), batch(*calls), 30)
    assert isinstance(steps, Generator)
    next(steps)
    steps.close()
    assert sorted(rig.given_up, key=int) == [str(n) for n in range(20)]


def test_no_program_is_described_before_initialize(rig: Rig) -> None:
    """A tool's program may be run to find out its parameters."""
    looked: list[str] = []

    def unready(name: str, params: object) -> None:
        looked.append(name)

    rig.rpc_context.dispatcher.unready = unready
    spawns = batch(request("spawn", 1, tool="t", id="x"), request("spawn", 2, tool="t", id="y"))
    caller = Caller("websocket")
    assert [one["error"]["code"] for one in plain(answer(rig, spawns, caller))] == [-32006] * 2
    assert looked == [] and rig.calls == []
    caller.initialized = True
    answer(rig, spawns, caller)
    assert looked == ["spawn", "spawn"]


def test_a_batch_that_holds_much_text_is_cut_while_it_grows(rig: Rig) -> None:
    events: list[str] = []

    def read(caller: Caller, params: Empty) -> Running:
        events.append("read")
        return Running(
            id="h",
            tool="t",
            session="s",
            cursor=0,
            generation=1,
            elapsed_ms=0,
            omitted=0,
            content=("x" * 63 + "\n") * (1 << 14),
        )

    def find(session: str, id: str, generation: int) -> None:
        events.append("cut")

    dispatcher = rig.rpc_context.dispatcher
    dispatcher._methods.add("read", Empty, read)
    dispatcher.find = find
    replies = plain(answer(rig, batch(*(request("read", n) for n in range(40))), room=40))
    uncut = [len(list(run)) for event, run in groupby(events) if event == "read"]
    assert max(uncut) <= 9 and sum(uncut) == 40
    states = [reply["result"] for reply in replies]
    assert sum(len(state["content"]) for state in states) <= 2 << 20
    for state in states:
        line = f"… {state['omitted']} bytes left out …\n"
        assert state["content"].count("left out") == 1
        assert len(state["content"].replace(line, "")) + state["omitted"] == 1 << 20


def test_lists_beyond_the_room_of_a_batch_are_refused_and_not_made(rig: Rig) -> None:
    made: list[str] = []

    def session_list(caller: Caller, params: Empty) -> dict[str, str]:
        made.append("list")
        return {"text": "x" * (1 << 20)}

    def close(caller: Caller, params: Empty) -> dict[str, str]:
        made.append("close")
        return {}

    methods = rig.rpc_context.dispatcher._methods
    methods.add("session/list", Empty, session_list)
    methods.add("session/close", Empty, close)
    requests = [request("session/list", n) for n in range(40)]
    replies = plain(answer(rig, batch(*requests, request("session/close", 40)), room=41))
    whole = [reply["id"] for reply in replies if "result" in reply]
    assert whole == [*range(32), 40], "an action is done in any case"
    assert made.count("list") == 32
    error = replies[39]["error"]
    assert error["code"] == -32009
    assert error["data"] == {
        "kind": "limit_exceeded", "limit": "max_batch_reply", "value": 32 << 20
    }  # fmt: skip


async def test_lists_of_a_batch_that_are_made_in_turn_end_with_its_room(rig: Rig) -> None:
    lock, made = trio.Lock(), 0

    async def listed() -> object:
        nonlocal made
        made += 1
        return {"text": "x" * (1 << 20)}

    dispatcher, budget = rig.rpc_context.dispatcher, BatchBudget()
    replies = []
    for number in range(40):
        reply: Any = base.then(base.in_turn(lock, listed), lambda result: result)
        pending = PendingRequest(b"%d" % number, number, "tools/call", reply, budget)
        finished = await dispatcher.finish(pending)
        assert isinstance(finished, Reply)
        replies.append(dispatcher.take(finished, budget))
    assert made == 32 and ["error" in plain(reply) for reply in replies] == 32 * [False] + 8 * [
        True
    ]


async def test_a_list_that_was_made_beside_others_is_refused_behind_the_room(rig: Rig) -> None:
    dispatcher, budget = rig.rpc_context.dispatcher, BatchBudget()
    budget.add(32 << 20)
    for method, is_refused in (("tools/list", True), ("fetch", False), ("abort", False)):
        taken = dispatcher.take(Reply(b"1", method, {}), budget)
        assert ("error" in plain(taken)) == is_refused


def test_a_call_that_may_have_a_screen_and_acts_by_it_alone_is_refused_behind_the_room() -> None:
    budget = BatchBudget()
    budget.add(32 << 20)
    calls: list[tuple[str, dict[str, object]]] = [
        ("fetch", {"id": "h", "view": "screen"}),
        ("fetch", {"id": "h", "view": "paint"}),
        ("tools/call", {"tool": "t", "arguments": {}}),
        ("session/list", {}),
    ]
    for method, params in calls:
        with pytest.raises(RpcError, match="max_batch_reply"):
            dispatch._refuse_lists(method, msgspec.Raw(msgspec.json.encode(params)), budget)
    text = msgspec.Raw(msgspec.json.encode({"id": "h"}))
    assert dispatch._refuse_lists("fetch", text, budget) == FetchParams(id="h")
    for method in ("apply", "spawn", "abort"):
        assert dispatch._refuse_lists(method, text, budget) is text


_SCREEN = Screen(
    rows=1, cols=9, cursor=(0, 0), alt=False, title="", revision=1, scrollback=0, lines=("x" * 900,)
)
_STYLED = replace(_SCREEN, lines=(), runs=((("x" * 900, "1"),),))
_HANDLE: dict[str, Any] = {
    "id": "h", "tool": "t", "session": "s", "cursor": 0, "generation": 1, "elapsed_ms": 0
}  # fmt: skip
_ENDED: dict[str, Any] = {**_HANDLE, "ended_by": EndedBy("exit")}
_PAINT = Paint("eA==" * 300)
_SHOWN = {
    "screen": Running(**_HANDLE, content="", screen=_SCREEN),
    "styles": Running(**_HANDLE, content="", screen=_STYLED),
    "paint": Running(**_HANDLE, content=_PAINT),
    "screen of the stopped": Stopped(**_ENDED, result="end", screen=_SCREEN),
    "paint of the stopped": Stopped(**_ENDED, result="end", content=_PAINT),
    "screen of a model": called(
        Running(**_HANDLE, content="", screen=_SCREEN), "c", (Notice("k", "info", "news", 1.0),)
    ),
}


@pytest.mark.parametrize("shown", _SHOWN.values(), ids=_SHOWN)
@pytest.mark.parametrize("method", ["apply", "spawn", "tools/call", "fetch"])
def test_screens_behind_the_room_of_a_batch_are_left_out_and_what_was_done_is_reported(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, method: str, shown: HandleState
) -> None:
    monkeypatch.setattr(truncation, "MAX_BATCH_REPLY", 2000)
    dispatcher, budget = rig.rpc_context.dispatcher, BatchBudget()
    slots = [dispatcher.take(Reply(b"1", method, shown), budget) for _ in range(4)]
    replies = plain(settled(dispatcher.join(slots, budget)))
    whole = json.loads(msgspec.json.encode(shown, enc_hook=as_text))
    assert [reply.get("result") == whole for reply in replies] == [True, True, False, False]
    if method == "fetch":
        assert [reply["error"]["data"]["limit"] for reply in replies[2:]] == 2 * ["max_batch_reply"]
        return
    state = replies[3]["result"]
    assert state.pop("limit") == "max_batch_reply"
    assert "screen" not in state and not state.get("content")
    for name in ("screen", "content"):
        whole.pop(name, None)
        state.pop(name, None)
    assert state == whole, "the rest, with the result and the notices, is there"


@pytest.mark.parametrize("view", ["delta", "raw"])
def test_a_state_without_a_screen_is_whole_behind_the_room(rig: Rig, view: str) -> None:
    """The output that a batch reads has a bound of its own, and a mark may have moved over it."""
    budget = BatchBudget()
    budget.add(32 << 20)
    state = Running(**_HANDLE, content="out" if view == "delta" else Base64("b3V0"))
    dispatcher = rig.rpc_context.dispatcher
    for method in ("fetch", "apply", "tools/call"):
        slots = [dispatcher.take(Reply(b"1", method, state), budget)]
        [reply] = plain(settled(dispatcher.join(slots, budget)))
        assert reply["result"]["content"] == state.content and "limit" not in reply["result"]


def test_a_long_text_for_a_model_is_cut_behind_the_room(rig: Rig) -> None:
    """It may be a screen."""
    budget, dispatcher = BatchBudget(), rig.rpc_context.dispatcher
    short, long = (CalledText(text="é" * size, call_id="c") for size in (100, 9000))
    reply = partial(Reply, b"1", "tools/call")
    assert plain(dispatcher.take(reply(long), budget))["result"]["text"] == long.text
    budget.add(32 << 20)
    assert plain(dispatcher.take(reply(short), budget))["result"]["text"] == short.text
    text = plain(dispatcher.take(reply(long), budget))["result"]["text"]
    assert "bytes left out" in text and len(text.encode()) < 8100


def test_of_a_reply_with_texts_all_else_is_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are cut together at the end, many handles of an `await` are not."""
    monkeypatch.setattr(truncation, "MAX_BATCH_REPLY", 2000)
    for completed, is_spent in ((1, False), (20, True)):
        budget = BatchBudget()
        states = tuple(Stopped(**_ENDED, result="x" * 3000) for _ in range(completed))
        reply = Reply(b"1", "await", AwaitResult(completed=states, pending=()))
        assert rig.rpc_context.dispatcher.take(reply, budget) is reply
        assert budget.is_spent is is_spent


def test_an_error_counts_as_a_reply(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "MAX_BATCH_REPLY", 100)
    dispatcher, budget = rig.rpc_context.dispatcher, BatchBudget()
    failed = Reply(b"1", "session/list", error=internal("0" * 100))
    first = dispatcher.take(failed, budget)
    assert budget.is_spent
    assert dispatcher.take(failed, budget) == first, "it stays this error"


def test_other_tasks_run_while_the_replies_of_a_batch_are_joined(rig: Rig) -> None:
    slots = [b"1", None, Reply(b"2", "echo", "x"), b"3"]
    pause = "1" * 70_000
    few, many = ([*slots, *([pause.encode()] * count)] for count in (0, 3))
    turns = [
        sum(1 for _ in rig.rpc_context.dispatcher.join(each, BatchBudget())) for each in (few, many)
    ]
    assert turns[1] - turns[0] == 3, "one for each long reply, none for the short ones"
    joined = settled(rig.rpc_context.dispatcher.join(slots, BatchBudget()))
    assert joined == b'[1,{"jsonrpc":"2.0","id":2,"result":"x"},3]'
    assert settled(rig.rpc_context.dispatcher.join([None], BatchBudget())) is None
