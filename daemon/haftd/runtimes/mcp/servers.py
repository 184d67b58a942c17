"""All configured servers.

Rules: nothing of a server is loaded or started before one is needed. A list of tools does not wait for a slow server
for longer than `LIST_S`; the server goes on opening, and the list changes when it is open.
"""

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
    """The servers by name."""

    def __init__(self, settings: Mapping[str, McpServer], environment: Environment) -> None:
        self._settings = dict(settings)
        self._environment = environment
        self._servers: dict[str, Server] = {}

    def get(self, name: str) -> Server | None:
        """Return the server of that name; None where none is configured."""
        if name not in self._settings:
            return None
        if name not in self._servers:
            from .server import Server

            self._servers[name] = Server(name, self._settings[name], self._environment)
        return self._servers[name]

    def due(self, names: Iterable[str]) -> list[Server]:
        """Return those of these servers that can be asked for their tools now."""
        found = (self.get(name) for name in names)
        return [server for server in found if server is not None and server.is_due]

    async def list_tools(self, servers: Iterable[Server], within_s: float = float("inf")) -> None:
        """Return when each of these servers has listed its tools or could not, or after `within_s`."""
        with trio.move_on_after(within_s):
            async with trio.open_nursery() as nursery:
                for server in servers:
                    nursery.start_soon(_connect, server)

    def replace(self, settings: Mapping[str, McpServer]) -> None:
        """Serve these from now on. A server that is configured otherwise, or no more, is ended."""
        for name, server in list(self._servers.items()):
            if settings.get(name) != server.settings:
                server.close("was ended: its configuration has changed")
                del self._servers[name]
        self._settings = dict(settings)

    def close(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.close("was ended: haftd is shutting down")


async def _connect(server: Server) -> None:
    from .server import ServerFault

    try:
        await server.connect()
    except ServerFault:
        pass  # The catalogue was told why.
