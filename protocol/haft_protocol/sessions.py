"""Who connects, and what becomes of handles when a turn, a session or the daemon ends.

Rules: those of `params`. Sections 7 and 8.
"""

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
    """Who connects, as it calls itself."""

    name: Annotated[str, Meta(max_length=128)]
    version: Annotated[str, Meta(max_length=64)] = ""


class ClientCapabilities(msgspec.Struct, frozen=True):
    """What a client can be asked; what this daemon does not know is passed over."""

    inquiry: bool = False
    approval: bool = False


PROTOCOL = 1
"""The version of the protocol that these types are."""


class InitializeParams(Params, frozen=True, kw_only=True):
    """Say who connects; optional on a Unix socket, required first on a WebSocket."""

    client: Client
    protocol: int
    capabilities: ClientCapabilities = ClientCapabilities()
    challenge: Annotated[str, msgspec.Meta(min_length=16, max_length=256)] | UnsetType = UNSET


class ShutdownParams(Params, frozen=True, kw_only=True):
    """Stop the daemon: `abort` ends every handle within its grace, `refuse` fails when one lives."""

    policy: Literal["abort", "refuse"] = "abort"


class SessionCloseParams(Params, frozen=True, kw_only=True):
    """Close a session; its live handles are aborted."""

    policy: Literal["abort"] = "abort"


class SessionCloseResult(msgspec.Struct, frozen=True):
    """The last states of the session's handles."""

    handles: tuple[HandleState, ...]


class TurnResult(msgspec.Struct, frozen=True):
    """Turns of a session are counted from 1."""

    turn: int


class TurnEndParams(Params, frozen=True, kw_only=True):
    """End a turn: what still runs in the session is aborted, awaited, kept or asked about, as each
    tool says. `target` is who is meant to answer, `context` is handed to whoever does."""

    policy: TurnPolicy | UnsetType = UNSET
    timeout_ms: Milliseconds = 60_000
    target: Literal["caller", "assistant", "user"] = "caller"
    context: Any = None


class Inquired(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided of a handle that was asked about; `stopped` where it has stopped before. `why`
    is there where nobody has decided."""

    id: str
    decided: Literal["wait", "abort", "keep", "stopped"]
    why: str = ""


class TurnEndResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of those that ran when the turn ended; that they are here does not count as read."""

    turn: int
    handles: tuple[HandleState, ...]
    inquired: tuple[Inquired, ...] = ()
