"""A read-only connection reads everything and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec.structs import asdict

from haft_protocol.constants import PROTOCOL
from haft_protocol.errors import RpcError
from haft_protocol.methods import METHODS, InitializeParams
from haft_protocol.sessions import Client
from haftd.caller import Caller, Confinement
from haftd.client_requests import Clients
from haftd.core.sessions import Sessions
from haftd.methods.access import Access
from haftd.methods.initialize import initialize
from tests.wire import Refused, Wire

from .conftest import Room

HELLO: dict[str, Any] = {"client": {"name": "viewer"}, "protocol": 1}


@pytest.fixture
def viewer(room: Room) -> Iterator[Wire]:
    with room.daemon.connect() as wire:
        hello = wire.call("initialize", session=room.session, read_only=True, **HELLO)
        assert hello["read_only"] is True
        yield wire


def is_refusal(refused: Refused) -> bool:
    return refused.code == -32006 and refused.data.get("read_only") is True


@pytest.mark.parametrize("method", METHODS)
def test_each_method_is_refused_unless_it_only_reads(viewer: Wire, method: str) -> None:
    try:
        viewer.call(method)
    except Refused as refused:
        assert is_refusal(refused) is not METHODS[method].reads_only
        assert not is_refusal(refused) or refused.data["method"] == method
    else:
        assert METHODS[method].reads_only


def test_a_refused_initialize_leaves_the_connection_as_it_was() -> None:
    program = Caller("unix", confinement=Confinement("handle", "h", "mine"))
    access = Access(cast(Any, None), Sessions(), Clients())
    params = InitializeParams(
        client=Client("c"), protocol=PROTOCOL, session="other", read_only=True
    )
    with pytest.raises(RpcError, match="session"):
        initialize(access, cast(Any, None), cast(Any, None), program, params)
    assert asdict(program) == asdict(Caller("unix", confinement=program.confinement))


def test_no_spawn_of_a_batch_takes_its_id(viewer: Wire, room: Room) -> None:
    spawn = {"tool": "run", "id": "a", "args": {"argv": ["true"]}}
    calls = (("spawn", spawn), ("fetch", {"id": "a"}))
    viewer.send(
        [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
    )
    replies = viewer.receive()
    assert [reply["error"]["data"]["kind"] for reply in replies] == [
        "not_authorized",
        "handle_not_found",
    ]
    assert room.spawn("a", "true")["state"] in ("running", "stopped")


def test_reads_leave_the_output_and_the_notice_of_the_end_to_the_session(
    viewer: Wire, room: Room
) -> None:
    room.spawn("a", "read x; echo out")
    fetch = viewer.start("fetch", id="a", wait="stopped")
    ended = viewer.start("await", all=["a"])
    matched = viewer.start("fetch", id="a", pattern="^out")
    room.pause()
    room.call("apply", id="a", input={"line": ""}, wait="none", view="tail", max_bytes=0)
    assert viewer.finish(fetch)["result"] == "out\n"
    assert viewer.finish(ended)["completed"][0]["result"] == "out\n"
    assert viewer.finish(matched)["waited"] == "matched"
    notices = room.call("notifications/drain")["notifications"]
    assert [notice["kind"] for notice in notices] == ["tool.stopped"]
    assert room.call("fetch", id="a")["result"] == "out\n"


def test_a_live_delta_stays_unread(viewer: Wire, room: Room) -> None:
    room.spawn("a", "echo out; read x")
    assert viewer.call("fetch", id="a", wait="output")["content"] == "out\n"
    assert viewer.call("fetch", id="a")["content"] == "out\n"
    assert room.call("fetch", id="a")["content"] == "out\n"
    assert viewer.call("fetch", id="a")["content"] == ""


def test_a_read_only_connection_stays_so(viewer: Wire) -> None:
    assert viewer.call("initialize", capabilities={"inquiry": True}, **HELLO)["read_only"] is True
    with pytest.raises(Refused) as refused:
        viewer.call("turn/begin")
    assert is_refusal(refused.value)


def test_a_read_only_connection_cannot_offer_to_answer(room: Room) -> None:
    with room.daemon.connect() as wire:
        with pytest.raises(Refused) as refused:
            wire.call("initialize", capabilities={"approval": True}, read_only=True, **HELLO)
        assert refused.value.data["field"] == "read_only"


def test_a_read_only_connection_makes_no_session(room: Room) -> None:
    with room.daemon.connect() as wire:
        wire.call("initialize", session="unseen", read_only=True, **HELLO)
        assert wire.call("handles/list")["handles"] == []
        names = [session["session"] for session in wire.call("session/list")["sessions"]]
    assert "unseen" not in names
