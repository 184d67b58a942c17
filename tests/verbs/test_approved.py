"""An action that needs approval leaves nothing behind on its handle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from haft_protocol.errors import RpcError, not_approved
from haft_protocol.methods import AbortParams, ApplyParams
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.daemon import Daemon
from haftd.uses.approvals import Verdict
from haftd.verbs.approved import approved
from haftd.verbs.base import result_of

PARAMS: dict[str, Any] = {
    "abort": AbortParams(id="h"),
    "apply": ApplyParams(id="h", input="x"),
}


def running(action: str) -> Handle:
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool(), now=0.0)
    handle.start(0.0)
    handle.policy = {action: "ask"}
    return handle


def spool() -> Spool:
    return Spool(1 << 16, 0, None, Budget(0))


def daemon_where(seek: Any) -> Daemon:
    def known(_name: str, _root: str) -> object:
        return SimpleNamespace(style={})

    approvals = SimpleNamespace(new_id=lambda: "a1", seek=seek)
    return cast(
        Daemon, SimpleNamespace(approvals=approvals, catalogue=SimpleNamespace(known=known))
    )


@pytest.mark.parametrize("action", ["abort", "apply"])
@pytest.mark.parametrize("decision", ["allow", "deny", "cancelled"])
async def test_no_listener_is_left_on_the_handle_after_a_decision(
    action: Any, decision: str
) -> None:
    handle, during = running(action), list[int]()

    async def seek(_request: object) -> Verdict[Any]:
        during.append(len(handle._listeners))
        if decision == "cancelled":
            await trio.sleep_forever()
        if decision == "deny":
            raise not_approved("t", action, "no")
        return Verdict("allow")

    reply = approved(
        daemon_where(seek), Caller("unix"), action, handle, PARAMS[action],
        lambda _params: "done", lambda _params: None,
    )  # fmt: skip
    with trio.move_on_after(0 if decision == "cancelled" else 60):
        try:
            assert await result_of(reply) == "done"
        except RpcError:
            assert decision == "deny"
    assert during == [1] and handle._listeners == ()
