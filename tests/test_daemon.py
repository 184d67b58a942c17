"""What the verbs work on, as one value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from haft_protocol.methods import SpawnParams
from haftd.caller import Caller
from haftd.core.batch import SpawnKey
from haftd.core.registry import Registry
from haftd.daemon import Daemon


def test_the_ids_of_a_batch_are_given_up_in_the_session_that_they_were_kept_in() -> None:
    """A connection may name another session between two steps of its batch."""
    registry = Registry()
    daemon = SimpleNamespace(
        registry=registry,
        session_of=lambda caller, params: caller.session,
        starter=SimpleNamespace(
            prepare=lambda session, spawn: SimpleNamespace(key=SpawnKey(session, spawn.id))
        ),
    )
    caller = Caller("unix")
    spawns = [SpawnParams(tool="run", id=id) for id in ("a", "b")]
    steps = Daemon.reserve(cast(Any, daemon), caller, spawns)
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
