"""Clients and sessions, and the end of a turn, a session or the daemon (docs/protocol.md, "Turns"
and "Ending")."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import Milliseconds, Params
from .states import HandleState

__all__ = [
    "Client",
    "ClientCapabilities",
    "InitializeParams",
    "Inquired",
    "SessionCloseParams",
    "SessionCloseResult",
    "ShutdownParams",
    "TurnDecision",
    "TurnEndParams",
    "TurnEndResult",
    "TurnPolicy",
    "TurnResult",
]

TurnPolicy = Literal["abort", "await", "keep", "inquire"]

TurnDecision = Literal["wait", "abort", "keep"]


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The client's name and version."""

    name: Annotated[str, Meta(max_length=128)]
    version: Annotated[str, Meta(max_length=64)] = ""


class ClientCapabilities(msgspec.Struct, frozen=True):
    """The requests that a client serves; unknown capabilities are ignored."""

    inquiry: bool = False
    approval: bool = False


class InitializeParams(Params, frozen=True, kw_only=True):
    """Introduce the client; optional on a Unix socket, required first on a WebSocket.

    With `read_only` the daemon refuses every method that changes anything, for as long as the
    connection lasts.
    """

    client: Client
    protocol: int
    capabilities: ClientCapabilities = ClientCapabilities()
    read_only: bool = False
    challenge: Annotated[str, msgspec.Meta(min_length=16, max_length=256)] | UnsetType = UNSET


class ShutdownParams(Params, frozen=True, kw_only=True):
    """Stop the daemon: `abort` ends every handle within its grace, `refuse` fails when one is live."""

    policy: Literal["abort", "refuse"] = "abort"


class SessionCloseParams(Params, frozen=True, kw_only=True):
    """Close a session; its live handles are aborted."""

    policy: Literal["abort"] = "abort"


class SessionCloseResult(msgspec.Struct, frozen=True):
    """The last states of the session's handles."""

    handles: tuple[HandleState, ...]


class TurnResult(msgspec.Struct, frozen=True):
    """The number of the turn, from 1 in each session."""

    turn: int


class TurnEndParams(Params, frozen=True, kw_only=True):
    """End a turn: each tool's policy aborts, awaits, keeps or asks about its live handles. `target`
    names the side to answer, which gets `context`."""

    policy: TurnPolicy | UnsetType = UNSET
    timeout_ms: Milliseconds = 60_000
    target: Literal["caller", "assistant", "user"] = "caller"
    context: Any = None


class Inquired(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision about a handle; `stopped` if stopped before. `why`: the reason for no decision."""

    id: str
    decided: Literal["wait", "abort", "keep", "stopped"]
    why: str = ""


class TurnEndResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of the handles live at the turn's end; their output stays unread."""

    turn: int
    handles: tuple[HandleState, ...]
    inquired: tuple[Inquired, ...] = ()
