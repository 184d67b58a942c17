"""Connection to an MCP server: the era, the tools, the server's requests.

Roots and sampling are not offered: a shared server has no single root, and must not use a client's
model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import msgspec
import structlog
import trio
from msgspec import Raw

from haft_protocol.mcp import (
    INVALID_PARAMS,
    LEGACY,
    META_PREFIX,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_NAME,
    UNSUPPORTED_VERSION,
)
from haft_protocol.methods import Annotations as Hints
from haftd import __version__
from haftd.tools.definitions.server_tools import ServedTool

from .peer import Peer, Pending, ServerError
from .shapes import (
    Annotations,
    Discovery,
    Elicitation,
    Id,
    Initialized,
    Progress,
    ServerCapabilities,
    ServerInfo,
    ServerTool,
    ToolsCapability,
    ToolsPage,
    convert,
)

log = structlog.get_logger("haftd.mcp")

Era = Literal["auto", "legacy", "modern"]

PROBE_S = 3.0
"""Seconds to wait for a reply to `server/discover`, which a legacy server may never send."""

TASKS = "io.modelcontextprotocol/tasks"
_MAX_PAGES = 100
_MAX_TOOLS = 2000
_CLIENT = {"name": "haftd", "version": __version__}
_ELICITATION: dict[str, Any] = {"form": {}, "url": {}}
_MODERN_META = {
    f"{META_PREFIX}protocolVersion": MODERN,
    f"{META_PREFIX}clientCapabilities": {
        "elicitation": _ELICITATION,
        "extensions": {TASKS: {}},
    },
    f"{META_PREFIX}clientInfo": _CLIENT,
}
_CHANGED = "notifications/tools/list_changed"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Unusable(Exception):
    """Unusable server; the message is a clause."""


class Asker(Protocol):
    """A call that can ask the server's questions."""

    @property
    def is_asking(self) -> bool: ...

    def elicit(self, elicitation: Elicitation, reply: Callable[[dict[str, Any]], None]) -> None:
        """Ask the question; pass the result to `reply` unless the call ends before."""


class Connection:
    """Open connection; `changed` is set when the server announces a changed list of tools."""

    def __init__(
        self, peer: Peer, version: str, capabilities: ServerCapabilities, info: ServerInfo
    ) -> None:
        self.peer = peer
        self.version = version
        self.info = info
        tools = capabilities.tools
        self.has_tools = isinstance(tools, ToolsCapability)
        self.announces = isinstance(tools, ToolsCapability) and bool(tools.list_changed)
        self.changed = trio.Event()
        self.is_listening = trio.Event()
        """Set when a modern server has confirmed its announcements."""
        self._held: deque[tuple[Id, Elicitation]] = deque()
        peer.on_request = self._requested
        peer.on_notification = self._notified

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        owner: Asker | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Raw:
        """Return the result of a request. Raises `ServerError`, `Disconnected`."""
        try:
            return await self.peer.request(
                method, self._params(params), owner=owner, on_progress=on_progress
            )
        finally:
            self.assign()

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a request without waiting for the reply."""
        self.peer.send(method, self._params(params))

    def _params(self, params: dict[str, Any] | None) -> dict[str, Any]:
        return {**(params or {}), "_meta": dict(_MODERN_META)} if self.is_modern else params or {}

    async def list_tools(self) -> tuple[ServedTool, ...]:
        """Return all tools. Raises `ServerError`, `Disconnected`, `Unusable`."""
        if not self.has_tools and self.is_modern:
            return ()
        tools: dict[str, ServedTool] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            reply = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            try:
                page = convert(reply, ToolsPage)
            except msgspec.MsgspecError as error:
                raise Unusable(f"sent an invalid list of tools: {error}") from None
            for tool in _tools(page.tools):
                tools.setdefault(tool.name, tool)
            if len(tools) > _MAX_TOOLS:
                raise Unusable(f"lists more than {_MAX_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                return tuple(tools.values())
        raise Unusable(f"lists its tools on more than {_MAX_PAGES} pages")

    async def listen(self) -> None:
        """Listen for a modern server's announcements until the server ends the stream."""
        try:
            await self.request(
                "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
        except ServerError as error:
            log.info("no announcements", server=self.info.name, why=error.message)

    # -- the server's own messages

    def _notified(self, method: str, params: Raw) -> None:
        if method == _CHANGED:
            self.changed.set()
        elif method == _ACKNOWLEDGED:
            self.is_listening.set()

    def _requested(self, id: Id, method: str, params: Raw, owner: object) -> None:
        peer = self.peer
        match method:
            case "ping":
                peer.answer(id, {})
            case "elicitation/create" if not self.is_modern:
                try:
                    elicitation = convert(params, Elicitation)
                except msgspec.MsgspecError as error:
                    peer.refuse(id, INVALID_PARAMS, f"haft cannot read this question: {error}")
                    return
                if owner is not None:
                    _put(peer, owner, id, elicitation)
                else:
                    self._held.append((id, elicitation))
                    self.assign()
            case "sampling/createMessage":
                why = "haft does not offer sampling: a server cannot use the client's model"
                peer.refuse(id, METHOD_NOT_FOUND, why)
            case "roots/list":
                why = "haft offers no roots: this server is shared by sessions with other folders"
                peer.refuse(id, METHOD_NOT_FOUND, why)
            case _:
                peer.refuse(id, METHOD_NOT_FOUND, f"haft does not serve {method}")

    def assign(self) -> None:
        """Assign questions to calls once there are no more calls than questions: outside a call's
        stream a legacy server names no call."""
        while self._held:
            calls: list[Any] = [owner for owner in self.peer.owners() if not _is_asking(owner)]
            if not calls:
                for id, _ in self._held:
                    self.peer.refuse(
                        id, INVALID_PARAMS, "there is no open tool call that could ask"
                    )
                self._held.clear()
            elif len(calls) > len(self._held):
                return
            else:
                id, elicitation = self._held.popleft()
                _put(self.peer, calls[0], id, elicitation)


def _is_asking(owner: Any) -> bool:
    return bool(owner.is_asking)


def _put(peer: Peer, owner: Any, id: Id, elicitation: Elicitation) -> None:
    owner.elicit(elicitation, lambda result: peer.answer(id, result))


def _tools(items: list[Raw]) -> Iterator[ServedTool]:
    for item in items:
        try:
            tool: ServerTool = convert(item, ServerTool)
        except msgspec.MsgspecError as error:
            log.warning("a tool of a server cannot be read", why=str(error))
            continue
        if not tool.name:
            continue
        text = tool.description or tool.title or ""
        task = "forbidden" if tool.execution is None else tool.execution.task_support
        yield ServedTool(tool.name, text, tool.input_schema, _hints(tool.annotations), task)


def _hints(annotations: Annotations | None) -> Hints | None:
    if annotations is None:
        return None
    return Hints(
        read_only=annotations.read_only_hint is True,
        destructive=annotations.destructive_hint is not False,
        idempotent=annotations.idempotent_hint is True,
        open_world=annotations.open_world_hint is not False,
    )


async def open_connection(peer: Peer, era: Era) -> Connection:
    """Open the connection, without a timeout. Raises `Unusable`, `ServerError`, or `Disconnected`,
    after which a legacy opening may succeed."""
    connection = await (_initialize(peer) if era == "legacy" else _negotiate(peer, era))
    if connection.info.name == SERVER_NAME:
        raise Unusable("is haft itself; its tools are available already, so remove it from `[mcp]`")
    return connection


async def _negotiate(peer: Peer, era: Era) -> Connection:
    outcome = await _probe(peer, era)
    if isinstance(outcome, _Again):
        outcome = await _probe(peer, era)
    if isinstance(outcome, Connection):
        return outcome
    raise Unusable("refuses the revision that it claims to speak")


class _Again:
    """Refusal of a revision that the server names as supported."""


async def _probe(peer: Peer, era: Era) -> Connection | _Again:
    """Send `server/discover`, then `initialize` without a usable reply."""
    probe = peer.begin("server/discover", {"_meta": dict(_MODERN_META)})
    try:
        with trio.move_on_after(float("inf") if era == "modern" else PROBE_S):
            await probe.settled.wait()
        if probe.settled.is_set():
            outcome = _discovered(peer, probe)
            if not isinstance(outcome, str):
                return outcome
            if era == "modern":
                raise Unusable(outcome)
        try:
            return await _initialize(peer)
        except ServerError:
            # A slow modern server has replied to the probe meanwhile.
            outcome = _discovered(peer, probe) if probe.settled.is_set() else ""
            if isinstance(outcome, Connection):
                return outcome
            raise
    finally:
        peer.end(probe)


def _discovered(peer: Peer, probe: Pending) -> Connection | _Again | str:
    try:
        discovery: Discovery = convert(probe.result(), Discovery)
    except ServerError as error:
        if error.code == UNSUPPORTED_VERSION:
            supported = error.data.get("supported") if isinstance(error.data, dict) else None
            if isinstance(supported, list) and MODERN in supported:
                return _Again()
            return f"does not speak the revision {MODERN}: {error.message}"
        return f"answered `server/discover` with an error: {error.message}"
    except msgspec.MsgspecError:
        return "answered `server/discover` with an invalid result"
    if MODERN in discovery.supported_versions:
        return Connection(peer, MODERN, discovery.capabilities, discovery.meta.info)
    return f"speaks {', '.join(discovery.supported_versions)}, not {MODERN}"


async def _initialize(peer: Peer) -> Connection:
    reply = await peer.request(
        "initialize",
        {
            "protocolVersion": LEGACY[0],
            "capabilities": {"elicitation": _ELICITATION},
            "clientInfo": _CLIENT,
        },
    )
    try:
        initialized: Initialized = convert(reply, Initialized)
    except msgspec.MsgspecError as error:
        raise Unusable(f"answered `initialize` with an invalid result: {error}") from None
    if initialized.protocol_version not in LEGACY:
        raise Unusable(
            f"speaks the revision {initialized.protocol_version!r}; haft speaks {MODERN}, {', '.join(LEGACY)}"
        )
    peer.notify("notifications/initialized")
    return Connection(
        peer, initialized.protocol_version, initialized.capabilities, initialized.server_info
    )
