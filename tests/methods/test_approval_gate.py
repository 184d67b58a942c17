from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haft_protocol.approvals import Approval as ApprovalMessage
from haft_protocol.errors import RpcError
from haft_protocol.methods import AbortParams, ApplyParams
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle, HandleSettings
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.inquiries.kind import Answered
from haftd.inquiries.router import InquiryRouter
from haftd.methods.approval_gate import approved
from haftd.methods.base import HandleServices
from tests.pending_replies import result_of

PARAMS: dict[str, Any] = {
    "abort": AbortParams(id="h"),
    "apply": ApplyParams(id="h", input="x"),
}


def running(action: str) -> Handle:
    settings = HandleSettings(policy={action: "ask"})
    handle = Handle(
        id="h", tool="t", session="s", generation=1, spool=spool(), now=0.0, settings=settings
    )
    handle.start(0.0)
    return handle


def spool() -> Spool:
    return Spool(1 << 16, 0, None, Budget(0))


def services_of(router: InquiryRouter) -> HandleServices:
    def known(_name: str, _root: str) -> object:
        return SimpleNamespace(style={})

    return cast(
        HandleServices,
        SimpleNamespace(inquiries=router, catalogue=SimpleNamespace(find_for_handle=known)),
    )


@pytest.mark.parametrize("action", ["abort", "apply"])
@pytest.mark.parametrize("decision", ["allow", "deny", "cancelled", "handle stopped"])
async def test_no_listener_is_left_on_the_handle_after_a_decision(
    action: Any, decision: str
) -> None:
    handle, during = running(action), list[int]()
    router, outcomes = InquiryRouter(), list[object]()
    reply = approved(
        services_of(router), Caller("unix"), action, handle, PARAMS[action],
        lambda _params: "done", lambda _params: None,
    )  # fmt: skip

    async def wait() -> None:
        try:
            outcomes.append(await result_of(reply))
        except RpcError as error:
            outcomes.append(error.kind)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        during.append(len(handle._listeners))
        ((pending, _),) = router.list_open(ApprovalMessage, "s")
        if decision == "cancelled":
            nursery.cancel_scope.cancel()
        elif decision == "handle stopped":
            handle.end(Termination(by=EndedBy("exit")), 1.0)
        else:
            value, _ = pending.kind.read({"decision": decision})
            assert router.accept(pending, Answered(value, caller=Caller("unix")))
    expected = {"deny": ["not_approved"], "cancelled": []}.get(decision, ["done"])
    assert outcomes == expected and router.list_open(ApprovalMessage) == []
    assert during == [1] and handle._listeners == ()
