"""One checker for every transport and framing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import trio

from tests.patience import PATIENCE_S
from tests.rpc.rig import (
    KINDS,
    Client,
    Kind,
    Rig,
    Served,
    ask,
    batch,
    code,
    limits,
    notification,
    ok,
    read,
    request,
    serving,
    timeouts,
    upgrade,
)

everywhere = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Rig(timeouts=timeouts(stalled=10, partial=10))) as found:
        yield found


@everywhere
@pytest.mark.parametrize(
    "id_", ["1", "-7", '"a"', '"\\u00e4"', '""', "null", "12345678901234567890"]
)
async def test_an_id_is_returned_exactly_as_sent(served: Served, kind: Kind, id_: str) -> None:
    client = await served.connect(kind)
    await client.send(f'{{"jsonrpc":"2.0","id":{id_},"method":"ping"}}'.encode())
    with trio.fail_after(PATIENCE_S):
        reply = await client.receive()
    assert reply is not None
    assert f'"id":{id_},' in reply.decode()
    assert json.loads(reply)["result"] == {"pong": True}


@everywhere
async def test_pipelined_requests_are_answered_in_order(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    count = 500
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, *(request("echo", n, text=str(n)) for n in range(count)))
        for n in range(count):
            assert await read(client) == {"jsonrpc": "2.0", "id": n, "result": str(n)}


@everywhere
async def test_a_waiting_call_delays_no_other(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(request("wait", "slow", name="door"), request("ping", "quick"))
    assert (await read(client))["id"] == "quick"
    served.rig.gates["door"].set()
    assert await read(client) == {"jsonrpc": "2.0", "id": "slow", "result": "door"}


@everywhere
async def test_a_cancelled_call_is_answered_as_cancelled_and_harms_no_other(
    served: Served, kind: Kind
) -> None:
    client = await served.connect(kind)
    await client.send(request("wait", 1, name="a"), request("wait", "1", name="b"))
    await served.rig.until(lambda: served.rig.waiting == 2)
    await client.send(notification("$/cancelRequest", id=1))
    reply = await read(client)
    assert (reply["id"], code(reply), reply["error"]["data"]["kind"]) == (
        1,
        -32800,
        "request_cancelled",
    )
    assert served.rig.cancelled == 1
    served.rig.gates["b"].set()
    assert ok(await read(client)) == "b"


@everywhere
async def test_cancelling_an_unknown_request_changes_nothing(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(notification("$/cancelRequest", id=99), notification("$/cancelRequest"))
    assert ok(await ask(client, "ping"))


@everywhere
async def test_an_id_may_be_in_use_twice(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(request("wait", 5, name="a"), request("wait", 5, name="b"))
    await served.rig.until(lambda: served.rig.waiting == 2)
    served.rig.gates["b"].set()
    assert await read(client) == {"jsonrpc": "2.0", "id": 5, "result": "b"}
    served.rig.gates["a"].set()
    assert await read(client) == {"jsonrpc": "2.0", "id": 5, "result": "a"}


@everywhere
async def test_a_notification_is_never_answered(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(
        notification("note", name="seen"),
        notification("boom"),
        notification("nothing/like/it"),
        notification("refuse"),
        notification("fail_later"),
        request("ping", "last"),
    )
    assert (await read(client))["id"] == "last"
    assert served.rig.calls == ["seen"]


@everywhere
async def test_params_are_by_name_and_unknown_ones_are_named(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    reply = await ask(client, "echo", txet="x")
    assert code(reply) == -32602
    assert "txet" in reply["error"]["message"]
    await client.send(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":["x"]}')
    assert code(await read(client)) == -32602
    assert ok(await ask(client, "echo", text="x")) == "x"


@everywhere
async def test_an_unknown_method_is_refused(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    assert code(await ask(client, "no/such")) == -32601


@everywhere
async def test_a_refusal_comes_from_the_method(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    reply = await ask(client, "refuse")
    assert reply["error"]["code"] == -32011
    assert reply["error"]["data"] == {"kind": "invalid_answer"}


@everywhere
@pytest.mark.parametrize("method", ["boom", "fail_later", "unencodable"])
async def test_U20_an_internal_fault_is_an_incident_only(
    served: Served, kind: Kind, method: str
) -> None:
    client = await served.connect(kind)
    reply = await ask(client, method, 4)
    assert (reply["id"], code(reply)) == (4, -32603)
    assert "secret detail" not in json.dumps(reply)
    incident = reply["error"]["data"]["incident"]
    assert [line["incident"] for line in served.rig.lines if "incident" in line] == [incident]
    assert ok(await ask(client, "ping"))


@everywhere
@pytest.mark.parametrize("junk", ["{]", '{"a":', "[1,", "nul", '{"id":1,"id"}'])
async def test_invalid_json_costs_a_reply_and_not_the_connection(
    served: Served, kind: Kind, junk: str
) -> None:
    client = await served.connect(kind)
    assert ok(await ask(client, "ping"))
    await client.send(junk.encode())
    reply = await read(client)
    assert (reply["id"], code(reply)) == (None, -32700)
    assert ok(await ask(client, "ping"))


@everywhere
async def test_a_batch_is_answered_once_in_request_order(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(
        batch(
            request("wait", 1, name="gate"),
            request("ping", 2),
            notification("note", name="n"),
            request("boom", 3),
            b"7",
            request("spawn", 4, tool="t", id="h"),
        )
    )
    await served.rig.until(lambda: served.rig.waiting == 1)
    assert ok(await ask(client, "echo", text="between")) == "between"
    served.rig.gates["gate"].set()
    replies = await read(client)
    assert [reply["id"] for reply in replies] == [1, 2, 3, None, 4]
    assert [reply.get("error", {}).get("code") for reply in replies] == [
        None,
        None,
        -32603,
        -32600,
        None,
    ]


@everywhere
async def test_spawns_of_a_batch_run_first(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(
        batch(
            request("note", 1, name="a"),
            request("spawn", 2, tool="t", id="x"),
            request("note", 3, name="b"),
            request("spawn", 4, tool="t", id="y"),
        )
    )
    assert [reply["result"] for reply in await read(client)] == ["a", "x", "b", "y"]
    assert served.rig.calls == ["spawn x", "spawn y", "a", "b"]


@everywhere
async def test_a_clash_fails_the_whole_batch_before_anything_runs(
    served: Served, kind: Kind
) -> None:
    client = await served.connect(kind)
    served.rig.taken.add("live")
    await client.send(
        batch(
            request("note", 1, name="a"),
            request("spawn", 2, tool="t", id="free"),
            request("spawn", 3, tool="t", id="live"),
            notification("note", name="b"),
        )
    )
    replies = await read(client)
    assert [(reply["id"], code(reply)) for reply in replies] == [
        (1, -32002),
        (2, -32002),
        (3, -32002),
    ]
    assert all("live" in reply["error"]["message"] for reply in replies)
    assert all(reply["error"]["data"]["id"] == "live" for reply in replies)
    assert served.rig.calls == []


@everywhere
async def test_two_spawns_of_a_batch_may_not_share_an_id(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(batch(*(request("spawn", n, tool="t", id="one") for n in range(2))))
    assert [code(reply) for reply in await read(client)] == [-32002, -32002]
    assert served.rig.calls == []


@everywhere
async def test_a_spawn_with_wrong_params_fails_by_itself(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(
        batch(request("spawn", 1, tool="t"), request("spawn", 2, tool="t", id="good"))
    )
    wrong, good = await read(client)
    assert code(wrong) == -32602
    assert ok(good) == "good"


@everywhere
async def test_a_batch_of_notifications_has_no_reply(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(batch(notification("note", name="a"), notification("fail_later")))
    assert ok(await ask(client, "ping", "next"))
    assert served.rig.calls == ["a"]


@everywhere
async def test_a_member_of_a_batch_can_be_cancelled(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(batch(request("wait", 1, name="a"), request("wait", 2, name="b")))
    await served.rig.until(lambda: served.rig.waiting == 2)
    await client.send(notification("$/cancelRequest", id=1))
    await served.rig.until(lambda: served.rig.waiting == 1)
    served.rig.gates["b"].set()
    first, second = await read(client)
    assert code(first) == -32800
    assert ok(second) == "b"


@everywhere
async def test_U11_a_batch_over_the_limit_gets_one_error(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    most = served.rig.limits.max_batch
    await client.send(batch(*(request("note", n, name="x") for n in range(most + 1))))
    reply = await read(client)
    assert (reply["id"], code(reply)) == (None, -32009)
    assert reply["error"]["data"] == {
        "kind": "limit_exceeded",
        "limit": "max_batch",
        "value": most,
    }
    assert served.rig.calls == []


@everywhere
async def test_waiting_calls_are_bounded(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    most = served.rig.limits.max_in_flight
    await client.send(*(request("wait", n, name="g") for n in range(most + 1)))
    reply = await read(client)
    assert (reply["id"], code(reply)) == (most, -32009)
    assert reply["error"]["data"]["limit"] == "max_in_flight"
    served.rig.gates["g"].set()
    assert {(await read(client))["id"] for _ in range(most)} == set(range(most))
    assert ok(await ask(client, "ping"))


@everywhere
async def test_U04_a_message_over_the_limit_is_refused_by_name_and_closed(kind: Kind) -> None:
    rig = Rig(limits=limits(max_message=1000), timeouts=timeouts())
    async with serving(rig) as served:
        client = await served.connect(kind)
        other = await served.connect(kind)
        assert ok(await ask(client, "echo", text="x" * 800))
        with trio.fail_after(PATIENCE_S):
            await client.send(request("echo", text="ä" * 2000))
        reply = await read(client)
        if reply is not None:  # the library closes a WebSocket with 1009 and the limit's value
            assert code(reply) == -32009
            assert reply["error"]["data"]["limit"] == "max_message"
            assert await read(client) is None
        assert ok(await ask(other, "ping"))


@pytest.mark.parametrize("kind", ["lines", "headers"])
async def test_a_message_over_the_limit_beside_a_waiting_call_is_refused_at_once(
    kind: Kind,
) -> None:
    """Also while the client is still writing, and reads only then; the call's reply follows."""
    async with serving(Rig(limits=limits(max_message=1000))) as served:
        client = await served.connect(kind)
        await client.send(request("wait", 1, name="g"))
        await served.rig.until(lambda: served.rig.waiting == 1)
        with trio.fail_after(PATIENCE_S):
            await client.send(request("echo", 2, text="x" * (4 << 20)), request("ping", 3))
        error = (await read(client))["error"]
        assert (error["code"], error["data"]["limit"]) == (-32009, "max_message")
        assert served.rig.waiting == 1
        served.rig.gates["g"].set()
        assert ok(await read(client)) == "g"
        assert await read(client) is None


@pytest.mark.parametrize("kind", ["lines", "headers"])
async def test_U14_invalid_utf8_is_no_message(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    for junk in (b'{"a":"\xff"}', b'{"a":"\xc0\xaf"}', b'{"a":"\xed\xa0\x80"}'):
        await client.send(junk)
        assert code(await read(client)) == -32700
    assert ok(await ask(client, "ping"))


@everywhere
async def test_U19_an_unsolicited_response_is_ignored(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}',
        request("ping", "after"),
    )
    assert (await read(client))["id"] == "after"


@everywhere
async def test_U23_a_flood_of_notifications_meets_the_same_limit(
    served: Served, kind: Kind
) -> None:
    client = await served.connect(kind)
    await client.send(*(notification("wait", name="g") for _ in range(50)))
    await served.rig.until(lambda: served.rig.waiting == served.rig.limits.max_in_flight)
    reply = await ask(client, "ping", "q")
    assert code(reply) == -32009
    assert served.rig.waiting == served.rig.limits.max_in_flight
    served.rig.gates["g"].set()
    await served.rig.until(lambda: served.rig.waiting == 0)
    assert ok(await ask(client, "ping"))


@everywhere
async def test_a_disconnect_cancels_only_the_peers_waits(served: Served, kind: Kind) -> None:
    client, other = await served.connect(kind), await served.connect(kind)
    await client.send(*(request("wait", n, name="a") for n in range(3)))
    await other.send(request("wait", 9, name="b"))
    await served.rig.until(lambda: served.rig.waiting == 4)
    await client.aclose()
    await served.rig.until(lambda: served.rig.waiting == 1 and served.rig.gone)
    assert served.rig.cancelled == 3
    assert len(served.rig.gone) == 1
    served.rig.gates["b"].set()
    assert ok(await read(other)) == "b"
    assert len(served.rig.rpc_context.connections) == 1


@everywhere
async def test_a_large_reply_reaches_a_slow_reader(served: Served, kind: Kind) -> None:
    client, other = await served.connect(kind), await served.connect(kind)
    size = 3 * served.rig.limits.max_queued
    await client.send(*(request("echo", n, size=size) for n in range(3)))
    assert ok(await ask(other, "ping"))
    for n in range(3):
        reply = await read(client)
        assert (reply["id"], len(reply["result"])) == (n, size)


@everywhere
async def test_U07_a_peer_that_never_reads_is_disconnected_and_no_other(kind: Kind) -> None:
    rig = Rig(timeouts=timeouts())
    async with serving(rig) as served:
        client, other = await served.connect(kind), await served.connect(kind)
        for n in range(8):
            await client.send(request("echo", n, size=2_000_000))
        await rig.until(lambda: rig.gone)
        assert ok(await ask(other, "ping"))
        assert len(rig.rpc_context.connections) == 1
        await client.aclose()


@everywhere
async def test_a_graceful_close_delivers_pending_replies(served: Served, kind: Kind) -> None:
    client = await served.connect(kind)
    await client.send(request("wait", 1, name="g"))
    await served.rig.until(lambda: served.rig.waiting == 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.rig.rpc_context.connections.finish, 5)
        await trio.testing.wait_all_tasks_blocked()
        served.rig.gates["g"].set()
        assert ok(await read(client)) == "g"
        assert await read(client) is None
        await client.aclose()
    assert len(served.rig.rpc_context.connections) == 0


@everywhere
async def test_over_max_connections_a_peer_is_refused_by_name(kind: Kind) -> None:
    rig = Rig(limits=limits(max_connections=2), timeouts=timeouts())
    async with serving(rig) as served:
        held: list[Client] = [await served.connect(kind) for _ in range(2)]
        for one in held:
            assert ok(await ask(one, "ping"))
        if kind == "websocket":
            status, text = await upgrade(served.port)
            assert status == 503
            assert "max_connections" in text
        else:
            late = await served.connect(kind)
            reply = await ask(late, "ping")
            assert (reply["id"], code(reply)) == (None, -32009)
            assert reply["error"]["data"]["limit"] == "max_connections"
            assert await read(late) is None
        assert rig.rpc_context.connections.refused["max_connections"] == 1
        await held[0].aclose()
        await rig.until(lambda: rig.gone)
        assert ok(await ask(await served.connect(kind), "ping"))
