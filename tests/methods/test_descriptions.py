"""Awaited descriptions of `haftd.methods.descriptions`, without a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from haft_protocol.methods import METHODS
from haftd.methods.descriptions import missing_descriptions


class _Parts:
    """A catalogue, a describer and servers, of which one is always due again."""

    def __init__(self) -> None:
        self.stopping = False
        self.launch_settings = SimpleNamespace(root="/")
        self.catalogue = self.servers = self
        self.lacks = ["greet"]
        self.asked = trio.Event()
        self.listed = 0

    def unlisted_servers(self, name: str | None, root: str | None) -> list[str]:
        return ["broken"]

    def due(self, names: list[str]) -> list[str]:
        return names

    def self_describing(self, name: str | None = None, root: str | None = None) -> list[str]:
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
