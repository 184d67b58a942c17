"""One configured server, without a server: the list of tools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haftd.config.mcp_settings import McpServer
from haftd.runtimes.mcp.peer import Disconnected
from haftd.runtimes.mcp.server import Server, ServerFault, _Opening


class Link:
    """A link and connection in one: each reading of the list takes `takes_s` and is announced as a change."""

    def __init__(self, takes_s: float = 0.0, *, fails: bool = False) -> None:
        self.changed = trio.Event()
        self.read_at: list[float] = []
        self.takes_s = takes_s
        self.fails = fails
        self.readings = 0

    async def list_tools(self) -> tuple[str, ...]:
        assert self.readings == 0, "one list is read at a time"
        assert len(self.read_at) < 100, "the list is read without end"
        self.readings += 1
        self.read_at.append(trio.current_time())
        self.changed.set()
        await trio.sleep(self.takes_s)
        self.readings -= 1
        if self.fails:
            raise Disconnected("is gone")
        return (f"tool{len(self.read_at)}",)

    def admit(self, tools: Any) -> Any:
        return tools


class Environment:
    def __init__(self, nursery: trio.Nursery | None = None) -> None:
        self.nursery = nursery
        self.told: list[object] = []

    def listed(self, name: str, tools: object) -> None:
        self.told.append(tools)

    def lost(self, name: str, message: str, marks: list[str]) -> None:
        self.told.append(message)

    def make_call(self, name: str, settings: McpServer) -> Any:
        raise OSError("no server can be started")


def keep(link: Link, environment: Environment) -> Any:
    server = Server("s", McpServer(command=("x",)), cast(Any, environment))
    return lambda: server._keep_list(cast(Any, link), cast(Any, link))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_flood_of_changes_is_read_once_a_second(
    autojump_clock: MockClock, fails: bool
) -> None:
    link, environment = Link(0.5, fails=fails), Environment()
    begun = trio.current_time()
    with trio.move_on_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep(link, environment))
            while True:
                link.changed.set()
                await trio.sleep(0.01)
    assert 15 <= len(link.read_at) <= 21
    assert link.read_at[0] == begun and len(environment.told) == (0 if fails else 20)


async def test_a_change_during_a_reading_is_read_after_it(mock_clock: MockClock) -> None:
    link, environment = Link(), Environment()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep(link, environment))
        link.changed.set()
        await wait_all_tasks_blocked()
        assert environment.told == [("tool1",)]
        mock_clock.jump(1)
        await wait_all_tasks_blocked()
        assert environment.told == [("tool1",), ("tool2",)]
        nursery.cancel_scope.cancel()


async def test_a_server_that_failed_to_open_is_due_again_after_the_pause(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = Server("s", McpServer(command=("x",)), cast(Any, Environment(nursery)))
        due = [server.is_due]
        for _ in range(2):
            with pytest.raises(ServerFault, match="could not be opened"):
                await server.connect()
            due.append(server.is_due)
            with pytest.raises(ServerFault, match="can be started again in"):
                await server.connect()
            await trio.sleep(600)
            due.append(server.is_due)
    assert due == [True, False, True, False, True]


async def test_callers_go_on_in_the_order_of_their_arrival_once_the_server_is_open(
    nursery: trio.Nursery,
) -> None:
    """Also a caller that comes while others have not gone on."""
    for _ in range(12):  # a pass of the loop runs its tasks in either order, at random
        server = Server("s", McpServer(command=("x",)), cast(Any, Environment(nursery)))
        opening = server._opening = _Opening()
        connected: list[int] = []

        async def connect(n: int, server: Server = server, to: list[int] = connected) -> None:
            await server.connect()
            to.append(n)

        for n in range(5):
            nursery.start_soon(connect, n)
            await wait_all_tasks_blocked()
        server._connection = cast(Any, SimpleNamespace(peer=SimpleNamespace(lost=None)))
        opening.end(None)
        await connect(5)
        assert connected == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("lines", "last"), [((), ""), (("one", "two"), "; its last lines were: two")]
)
def test_a_lost_server_is_named_with_its_last_line(lines: tuple[str, ...], last: str) -> None:
    environment = Environment()
    server = Server("s", McpServer(command=("x",)), cast(Any, environment))
    server._lost(Disconnected("has ended", lines), [])
    assert environment.told == [f"The MCP server `s` has ended{last}."]
