"""One configured server: stopped → opening → open → stopped."""

from __future__ import annotations

import itertools
from typing import Protocol

import structlog
import trio

from haftd.arrival_order import ArrivalOrder
from haftd.config.mcp_settings import McpServer
from haftd.tools.definitions.server_tools import ServedTool

from ..base import StartFailed
from .connection import Connection, Era, Unusable, open_connection
from .environment import Environment
from .peer import Disconnected, Peer, ServerError
from .process import ServerProcess

log = structlog.get_logger("haftd.mcp")

_LISTENING_S = 1.0
_LIST_PAUSE_S = 1.0
"""Pause after a reading of the list: a server may announce a change at each."""
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ServerFault(Exception):
    """Unusable server; the message is a sentence, `reason` a reason of `StartFailed`."""

    def __init__(self, message: str, reason: str = "server") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class Link(Protocol):
    """Transport of a connection."""

    peer: Peer

    async def start(self) -> None:
        """Begin, to be followed by `run` at once. Raises `StartFailed`."""

    async def run(self) -> None:
        """Serve until nothing is left."""

    def admit(self, tools: tuple[ServedTool, ...]) -> tuple[ServedTool, ...]:
        """Return the tools callable over this link."""

    def stop(self, reason: str) -> None:
        """End `run`; `reason` is a clause for open requests."""


class _Opening:
    def __init__(self) -> None:
        self.over = trio.Event()
        self.fault: ServerFault | None = None

    def end(self, fault: ServerFault | None) -> None:
        self.fault = fault
        self.over.set()


class Server:
    """Configured server, shared by all sessions; started on first use and after its end. Lists its
    tools at each opening and announced change."""

    def __init__(self, name: str, settings: McpServer, environment: Environment) -> None:
        self.name = name
        self.settings = settings
        self.tools: tuple[ServedTool, ...] | None = None
        self._environment = environment
        self._connection: Connection | None = None
        self._link: Link | None = None
        self._opening: _Opening | None = None
        self._waiting = ArrivalOrder()
        """Callers of `connect`."""
        self._fault: ServerFault | None = None
        self._failures = 0
        self._retry_at = float("-inf")
        self._era: Era = settings.era
        self._is_closed = False

    @property
    def is_due(self) -> bool:
        """True unless in the pause after a failed opening."""
        return self._opening is not None or trio.current_time() >= self._retry_at

    def find(self, tool: str) -> ServedTool | None:
        return next((candidate for candidate in self.tools or () if candidate.name == tool), None)

    async def connect(self) -> Connection:
        """Return the connection, opened if need be: callers share one opening, regardless of their
        cancellation, and continue in the order of their arrival. Raises `ServerFault`."""
        connection = self._usable_connection
        if connection is not None and not self._waiting:
            return connection
        with self._waiting.place() as place:
            await self._wait_open()
            await place.wait_first()
            return await self._wait_open()

    async def _wait_open(self) -> Connection:
        while (connection := self._usable_connection) is None:
            opening = self._opening or self._open()
            await opening.over.wait()
            if opening.fault is not None:
                raise opening.fault
        return connection

    @property
    def _usable_connection(self) -> Connection | None:
        connection = self._connection
        return None if connection is None or connection.peer.lost is not None else connection

    def close(self, reason: str) -> None:
        """End the server for good; open calls fail with the reason."""
        self._is_closed = True
        if self._link is not None:
            self._link.stop(reason)

    def _open(self) -> _Opening:
        """Begin to open the server. Raises `ServerFault` within the doubling pause after failures."""
        if self._is_closed:
            raise ServerFault(f"The MCP server `{self.name}` is no longer configured.")
        left_s = self._retry_at - trio.current_time()
        if self._fault is not None and left_s > 0:
            raise ServerFault(
                f"{self._fault.message} It can be started again in {left_s:.0f} s.",
                self._fault.reason,
            )
        opening = self._opening = _Opening()
        self._environment.nursery.start_soon(self._supervise, opening, name=f"mcp:{self.name}")
        return opening

    async def _supervise(self, opening: _Opening) -> None:
        try:
            await self._serve(opening)
        except Exception:
            log.exception("an MCP server failed", server=self.name)
            self._failed(
                opening,
                ServerFault(
                    f"The MCP server `{self.name}` could not be opened: haftd failed; its log has the reason."
                ),
            )
        finally:
            if not opening.over.is_set():
                self._opening = None
                opening.end(
                    ServerFault(
                        f"The MCP server `{self.name}` was not opened: haftd is shutting down."
                    )
                )

    async def _serve(self, opening: _Opening) -> None:
        era = self._era
        if self.settings.url:
            await self._serve_endpoint(opening, era)
            return
        while True:
            call = self._environment.make_call(self.name, self.settings)
            process = ServerProcess(call, self._environment.grace_s)
            try:
                is_over = await self._serve_link(opening, process, era)
            finally:
                self._environment.clear_up(call, not process.unconfirmed)
            if is_over:
                return
            # The server ended at the first modern request.
            era = "legacy"

    async def _serve_endpoint(self, opening: _Opening, era: Era) -> None:
        # Imports an HTTP library.
        from .http import Endpoint

        environ = self._environment.environ
        if not await self._serve_link(opening, Endpoint(self.settings, environ), era):
            await self._serve_link(opening, Endpoint(self.settings, environ), "legacy")

    async def _serve_link(self, opening: _Opening, link: Link, era: Era) -> bool:
        """Open and serve over a link; return False if a legacy connection may succeed."""
        try:
            await link.start()
        except StartFailed as failed:
            self._failed(
                opening,
                ServerFault(
                    f"The MCP server `{self.name}` could not be started: {failed.message}",
                    failed.reason,
                ),
            )
            return True
        self._link = link
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._open_connection, opening, link, era, nursery)
                await link.run()
                nursery.cancel_scope.cancel()
        finally:
            # The next link may be open while this one ends.
            if self._link is link:
                self._link = self._connection = None
        return opening.over.is_set()

    async def _open_connection(
        self, opening: _Opening, link: Link, era: Era, nursery: trio.Nursery
    ) -> None:
        """Open the connection and list the tools, within `startup_s`; then follow changes."""
        peer = link.peer
        fault = ""
        connection: Connection | None = None
        with trio.move_on_after(self.settings.startup_s) as bound:
            try:
                connection = await open_connection(peer, era)
                if connection.is_modern and connection.announces:
                    # Listen first, or a change before the announcements would be missed.
                    nursery.start_soon(self._listen, connection)
                    with trio.move_on_after(_LISTENING_S):
                        await connection.is_listening.wait()
                tools = link.admit(await connection.list_tools())
            except Disconnected as gone:
                if era == "auto" and connection is None:
                    link.stop(gone.message)
                    return  # see `_serve`
                fault = f"{gone.message} before it was ready{_written(gone.lines)}"
            except ServerError as error:
                fault = f"answered with an error: {error.message}"
            except Unusable as unusable:
                fault = str(unusable)
        if bound.cancelled_caught:
            fault = f"was not ready within {self.settings.startup_s:g} s (`startup_s`)"
        if fault or connection is None:
            self._failed(opening, ServerFault(f"The MCP server `{self.name}` {fault}."))
            link.stop("could not be used")
            return
        peer.on_lost = self._lost
        if not connection.is_modern:
            self._era = "legacy"  # the next start sends no probe
        self._connection = connection
        self._opening = self._fault = None
        self._failures = 0
        log.info(
            "an MCP server is open", server=self.name, revision=connection.version, tools=len(tools)
        )
        self._take(tools)
        opening.end(None)
        await self._keep_list(connection, link)

    async def _listen(self, connection: Connection) -> None:
        for pause in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
            try:
                await connection.listen()
                return
            except Disconnected:
                if connection.peer.lost is not None:
                    return
            await trio.sleep(pause)
            connection.changed.set()

    async def _keep_list(self, connection: Connection, link: Link) -> None:
        while True:
            await connection.changed.wait()
            connection.changed = trio.Event()
            try:
                self._take(link.admit(await connection.list_tools()))
            except (Disconnected, ServerError, Unusable) as error:
                log.warning("the tools could not be listed again", server=self.name, why=str(error))
            await trio.sleep(_LIST_PAUSE_S)

    def _take(self, tools: tuple[ServedTool, ...]) -> None:
        self.tools = tools
        self._environment.listed(self.name, tools)

    def _failed(self, opening: _Opening, fault: ServerFault) -> None:
        if opening.over.is_set():
            return
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        self._era = self.settings.era
        self._retry_at = trio.current_time() + pause
        self._fault = fault
        self._opening = None
        log.warning("an MCP server could not be opened", server=self.name, why=fault.message)
        opening.end(fault)
        self._environment.listed(self.name, fault.message)

    def _lost(self, reason: Disconnected, owners: list[object]) -> None:
        if self._is_closed:
            return
        marks = [str(getattr(owner, "mark", "")) for owner in owners]
        message = f"The MCP server `{self.name}` {reason.message}{_written(reason.lines[-1:])}."
        log.warning("an MCP server is gone", server=self.name, why=reason.message, calls=len(marks))
        self._environment.lost(self.name, message, marks)


def _written(lines: tuple[str, ...]) -> str:
    return f"; its last lines were: {' / '.join(lines[-3:])}" if lines else ""
