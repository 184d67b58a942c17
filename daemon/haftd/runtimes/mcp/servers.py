"""All configured servers; each is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import trio

from haftd.config.mcp_settings import McpServer

from .environment import Environment

if TYPE_CHECKING:
    from .server import Server


LIST_S = 10.0


class Servers:
    def __init__(self, settings: Mapping[str, McpServer], environment: Environment) -> None:
        self._settings = dict(settings)
        self._environment = environment
        self._servers: dict[str, Server] = {}

    def get(self, name: str) -> Server | None:
        if name not in self._settings:
            return None
        if name not in self._servers:
            from .server import Server

            self._servers[name] = Server(name, self._settings[name], self._environment)
        return self._servers[name]

    def due(self, names: Iterable[str]) -> list[Server]:
        """Return those servers that can list their tools now."""
        servers = (self.get(name) for name in names)
        return [server for server in servers if server is not None and server.is_due]

    async def list_tools(self, servers: Iterable[Server], within_s: float = float("inf")) -> None:
        """Wait until the servers have listed their tools or failed, or `within_s`; openings
        continue."""
        with trio.move_on_after(within_s):
            async with trio.open_nursery() as nursery:
                for server in servers:
                    nursery.start_soon(_connect, server)

    def replace(self, settings: Mapping[str, McpServer]) -> set[str]:
        """Apply the settings: end changed servers, restart eager servers; return the changed names."""
        before, self._settings = self._settings, dict(settings)
        changed = {
            name for name in before.keys() | settings if before.get(name) != settings.get(name)
        }
        for name in changed & self._servers.keys():
            self._servers.pop(name).close("was ended: its configuration has changed")
        self.start_eager(changed)
        return changed

    def start_eager(self, names: Iterable[str]) -> None:
        eager = [
            name
            for name in names
            if name in self._settings and self._settings[name].start == "eager"
        ]
        if eager:
            self._environment.nursery.start_soon(self.list_tools, self.due(eager))

    def close(self) -> None:
        for server in self._servers.values():
            server.close("was ended: haftd is shutting down")


async def _connect(server: Server) -> None:
    from .server import ServerFault

    try:
        await server.connect()
    except ServerFault:
        pass  # `Environment.listed` has the reason
