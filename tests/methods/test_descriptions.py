"""Awaited descriptions of `haftd.methods.descriptions`, without a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import trio
import trio.testing

from haft_protocol.methods import METHODS, SpawnParams
from haftd.arrival_order import ArrivalOrder
from haftd.caller import Caller
from haftd.methods.base import DeferredReply
from haftd.methods.descriptions import described, missing_descriptions


class _Parts:
    """A catalogue, a describer and servers, of which one is always due again."""

    def __init__(self) -> None:
        self.stopping = False
        self.launch_settings = SimpleNamespace(default_root="/")
        self.catalogue = self.servers = self
        self.lacks = ["greet"]
        self.asked = trio.Event()
        self.listed = 0

    def unlisted_servers(self, name: str | None, root: str | None) -> list[str]:
        return ["broken"]

    def due(self, names: list[str]) -> list[str]:
        return names

    def find_self_describing(self, name: str | None = None, root: str | None = None) -> list[str]:
        return ["greet"]

    def lacking(self, tools: list[str], root: str) -> list[str]:
        return [tool for tool in tools if tool in self.lacks]

    async def ask(self, tools: list[str], root: str) -> None:
        for tool in tools:
            self.lacks.remove(tool)
            self.asked.set()

    async def list_tools(self, servers: list[str], within_s: float) -> None:
        await self.asked.wait()
        self.listed += 1


async def test_programs_are_asked_while_servers_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    parts: Any = _Parts()
    ready = missing_descriptions(parts, parts, "tools/list", METHODS["tools/list"].params())
    assert ready is not None
    with trio.fail_after(5):
        await ready()
    assert (parts.lacks, parts.listed) == ([], 1)


async def test_calls_that_wait_for_descriptions_of_one_tool_take_effect_in_order(
    nursery: trio.Nursery,
) -> None:
    """A call of another tool does not wait for them."""
    served: list[tuple[str, int]] = []
    described_tools = {name: trio.Event() for name in ("slow", "quick")}

    class Parts(_Parts):
        orders: ClassVar[dict[str, ArrivalOrder]] = {}

        def unlisted_servers(self, name: str | None, root: str | None) -> list[str]:
            return []

        def find_self_describing(
            self, name: str | None = None, root: str | None = None
        ) -> list[Any]:
            return [SimpleNamespace(name=name, must_describe=True)]

        def lacking(self, tools: list[Any], root: str) -> list[Any]:
            return [tool for tool in tools if not described_tools[tool.name].is_set()]

        async def ask(self, tools: list[Any], root: str) -> None:
            for tool in tools:
                await described_tools[tool.name].wait()

        async def list_tools(self, servers: list[str], within_s: float) -> None: ...

        def place(self, name: str) -> Any:
            return self.orders.setdefault(name, ArrivalOrder()).place()

    def serve(caller: Caller, params: SpawnParams) -> object:
        served.append((params.tool, int(params.id)))
        return None

    parts: Any = Parts()
    decide = described(parts, parts, "spawn", serve)
    for turn in range(12):  # a pass of the loop runs its tasks in either order, at random
        described_tools.update({name: trio.Event() for name in described_tools})
        for n in range(5):
            for tool in ("slow", "quick"):
                reply = decide(Caller("unix"), SpawnParams(tool=tool, id=str(n)))
                assert isinstance(reply, DeferredReply)
                nursery.start_soon(reply.run)
                await trio.testing.wait_all_tasks_blocked()
        for tool in ("quick", "slow"):
            described_tools[tool].set()
            await trio.testing.wait_all_tasks_blocked()
            assert served == [(tool, n) for n in range(5)], turn
            served.clear()
