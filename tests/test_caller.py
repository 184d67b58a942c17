from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from haftd.caller import Caller, Confinement, Permission
from haftd.host.process.identity import Stat
from haftd.host.process.peer_process import PeerProcess
from haftd.methods.access import confine
from haftd.rpc.connection import RpcContext

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
ALL = frozenset(PERMISSIONS)
NONE = frozenset[str]()


def of_a_handle(*may: str) -> Caller:
    return Caller("unix", confinement=Confinement("handle", "h", "mine", frozenset(may)))


def test_a_caller_not_started_by_haftd_may_do_everything() -> None:
    person = Caller("unix")
    assert all(person.may(one) for one in PERMISSIONS)
    assert person.may_use("any") and person.may_use("*") and person.may_reach(ALL)
    with pytest.raises(AssertionError):
        person.refusal("do this")


@pytest.mark.parametrize("granted", PERMISSIONS)
def test_a_program_has_exactly_the_rights_of_its_definition(granted: Permission) -> None:
    program = of_a_handle(granted)
    assert [one for one in PERMISSIONS if program.may(one)] == [granted]
    assert program.may_use("mine")
    assert program.may_use("other") == program.may_use("*") == (granted == "handles")
    assert program.may_reach(NONE) and program.may_reach(frozenset([granted]))
    assert not program.may_reach(ALL)


@pytest.mark.parametrize("why", ["started", "gone"])
def test_a_process_of_no_handle_may_use_no_session(why: Any) -> None:
    program = Caller("unix", confinement=Confinement(why))
    assert not any(map(program.may_use, ("default", "*", "mine")))
    assert not any(map(program.may, PERMISSIONS)) and not program.may_reach(ALL)


def test_a_refusal_names_the_caller_and_its_handle() -> None:
    told = {
        why: Caller("unix", confinement=Confinement(cast(Any, why), *names)).refusal("do this")
        for why, names in (("handle", ("h", "mine")), ("started", ()), ("gone", ()))
    }
    assert {error.kind for error in told.values()} == {"not_authorized"}
    assert "'h'" in told["handle"].message and "'mine'" in told["handle"].message
    assert "do this" in told["handle"].message and "do this" in told["started"].message
    assert "ended" in told["gone"].message and "hides" in told["gone"].message
    assert "connect again" in told["gone"].message and "Unix socket" in told["gone"].message


def test_the_audit_log_names_the_callers_handle_where_known() -> None:
    assert Caller("unix", 7, "c").identity == {"name": "c", "pid": 7, "transport": "unix"}
    assert of_a_handle().identity == {"transport": "unix", "session": "mine", "handle": "h"}
    gone = Caller("websocket", confinement=Confinement("gone"))
    assert gone.identity == {"transport": "websocket"}


@pytest.mark.parametrize(
    ("name", "pid", "label"), [("c", 7, "c"), (None, 7, "pid 7"), (None, None, "unix")]
)
def test_a_caller_is_named_by_its_known_facts(
    name: str | None, pid: int | None, label: str
) -> None:
    assert Caller("unix", pid, name).label == label


def test_a_connection_before_initialize_is_unnamed_and_asked_nothing() -> None:
    caller = Caller("unix")
    assert not (caller.initialized or caller.inquiry or caller.approval)
    assert caller != Caller("unix") and len({caller, Caller("unix")}) == 2


ITSELF = Stat(9, "S", 1, 9, 9, 0, 0, 5)


def confined(lineage: tuple[Stat, ...] | None, holding: Any = None) -> Confinement | None:
    supervisor = SimpleNamespace(ancestor_of=lambda line: holding)
    return confine(cast(Any, supervisor), PeerProcess(9, 0, None, lineage))


def test_a_process_is_confined_by_its_ancestors() -> None:
    settings = SimpleNamespace(may=ALL, is_sandboxed=False)
    handle = SimpleNamespace(id="h", session="mine", settings=settings)
    execution = SimpleNamespace(handle=handle)
    assert confined(()) is None
    assert confined(None) == Confinement("gone")
    assert confined((ITSELF,)) == Confinement("started")
    assert confined((ITSELF,), (execution, True)) == Confinement("handle", "h", "mine", ALL)
    assert confined((ITSELF,), (execution, False)) == Confinement("handle", "h", "mine", NONE)
    settings.is_sandboxed = True
    assert confined((ITSELF,), (execution, True)) == Confinement("sandboxed", "h", "mine", NONE)


def test_a_sandboxed_process_may_use_no_session() -> None:
    caller = Caller("websocket", confinement=Confinement("sandboxed", "h", "mine"))
    assert not caller.may_use("mine") and not caller.may_use("*") and not caller.may("approvals")


@pytest.mark.parametrize(
    ("confinement", "session"),
    [
        (None, "default"),
        (Confinement("gone"), "default"),
        (Confinement("handle", "h", "mine"), "mine"),
        (Confinement("handle", "h", "mine", frozenset(["questions"])), "mine"),
        (Confinement("handle", "h", "mine", frozenset(["handles"])), "default"),
    ],
)
def test_calls_without_a_session_use_the_callers_permitted_one(
    confinement: Confinement | None, session: str
) -> None:
    rpc_context = RpcContext(
        cast(Any, None),
        cast(Any, None),
        cast(Any, None),
        lambda caller: None,
        confine=lambda peer: confinement,
    )
    caller = rpc_context.caller_of("unix", PeerProcess(0, 0, None, ()))
    assert (caller.session, caller.confinement, caller.pid) == (session, confinement, None)
