from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from haft_protocol.methods import SpawnParams
from haftd.caller import Caller
from haftd.client_requests import Clients
from haftd.core.registry import Registry, SpawnKey
from haftd.core.sessions import Sessions
from haftd.methods.access import Access
from haftd.methods.spawn import reserve


def test_reserved_ids_are_released_in_their_session() -> None:
    """A connection may name another session between two steps of its batch."""
    registry = Registry()
    services = SimpleNamespace(
        access=Access(registry, Sessions(), Clients()),
        starter=SimpleNamespace(
            prepare=lambda session, spawn: SimpleNamespace(key=SpawnKey(session, spawn.id))
        ),
    )
    caller = Caller("unix")
    spawns = [SpawnParams(tool="run", id=id) for id in ("a", "b")]
    steps = reserve(cast(Any, services), caller, spawns)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        kept = done.value
    assert registry.is_reserved("default", "a") and registry.is_reserved("default", "b")
    caller.session = "other"
    for give_up in kept:
        give_up()
    assert not registry.is_reserved("default", "a") and not registry.is_reserved("default", "b")
