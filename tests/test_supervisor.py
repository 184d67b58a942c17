"""One task a handle: what many of them may do to all others."""

from __future__ import annotations

import trio

from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.runtimes.base import Call, Port, StartFailed
from haftd.supervisor import Supervisor


class Counting:
    """A runtime that starts nothing and counts how often it was asked to."""

    def __init__(self) -> None:
        self.starts = 0

    async def run(self, call: Call, port: Port) -> str | None:
        self.starts += 1
        raise StartFailed("There is nothing to start.", "program")


def handle(name: str) -> Handle:
    spool = Spool(0, 0, None, Budget(0))
    return Handle(id=name, tool="none", session="s", generation=1, spool=spool, now=0.0)


async def test_many_starts_at_once_let_everybody_else_have_a_turn_between_a_few_of_them() -> None:
    runtime, call = Counting(), Call(tool="none", argv=(), cwd="/", env={}, mark="")
    seen = []
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(
            nursery, grace_s=0, withdraw=lambda _: None, settled=lambda *_: None
        )
        uses = [supervisor.start(handle(f"h{n}"), runtime, call) for n in range(100)]
        while runtime.starts < len(uses):
            await trio.lowlevel.checkpoint()
            seen.append(runtime.starts)
    between = [later - sooner for sooner, later in zip([0, *seen], seen, strict=False)]
    # Within a round of the loop the order is anybody's: two rounds' worth may stand between.
    assert max(between) <= 8
    assert all(use.failure is not None for use in uses)
