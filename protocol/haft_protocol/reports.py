"""Reports of the daemon about itself: version, limits, metrics, problems, sessions."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "InitializeResult",
    "LimitsResult",
    "OpenQuestion",
    "PingResult",
    "Problem",
    "ReloadResult",
    "ServerInfo",
    "SessionInfo",
    "SessionListResult",
    "StatusResult",
    "WebSocketInfo",
]


class LimitsResult(msgspec.Struct, frozen=True):
    """The limits of this daemon."""

    max_message: int
    max_nesting: int
    max_values: int
    max_batch: int
    max_connections: int
    max_in_flight: int
    max_handles_session: int
    max_handles: int
    max_queued: int


class ServerInfo(msgspec.Struct, frozen=True):
    """The daemon's name and version."""

    name: str
    version: str


class InitializeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The daemon and its limits; `started_at` is in seconds since the epoch."""

    server: ServerInfo
    protocol: int
    session: str
    limits: LimitsResult
    pid: int
    started_at: float
    proof: str | UnsetType = UNSET
    read_only: bool = False


class PingResult(msgspec.Struct, frozen=True):
    """The daemon answers."""

    pong: bool = True


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or definition that is not used, and the reason; or a setting that waits for the next start."""

    file: str
    key: str
    message: str
    line: int | UnsetType = UNSET
    advice: str | UnsetType = UNSET
    level: Literal["note"] | UnsetType = UNSET


class ReloadResult(msgspec.Struct, frozen=True):
    """The number of tools and the problems."""

    tools: int
    problems: tuple[Problem, ...]


class WebSocketInfo(msgspec.Struct, frozen=True):
    """The address at which the WebSocket listens."""

    host: str
    port: int


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open question; `since` is in seconds since the epoch. At a turn's end there is no `handle`."""

    inquiry_id: str
    session: str
    question: str
    since: float
    asked: bool
    tool: str | UnsetType = UNSET
    handle: str | UnsetType = UNSET


class StatusResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The daemon's metrics: `memory` in resident bytes, `cpu_s` in seconds."""

    version: str
    pid: int
    started_at: float
    uptime_s: float
    socket: str
    state: Literal["running", "stopping"]
    containment: Literal["cgroup", "processes"]
    connections: int
    sessions: int
    handles: dict[str, int]
    memory: int
    cpu_s: float
    descriptors: int
    threads: int
    spooled: int
    problems: tuple[Problem, ...]
    questions: tuple[OpenQuestion, ...] = ()
    path: str = ""
    managed: bool = False
    cache: str | UnsetType = UNSET
    websocket: WebSocketInfo | UnsetType = UNSET
    unconfirmed: tuple[int, ...] = ()
    recovered: dict[str, int] | UnsetType = UNSET
    refused: dict[str, int] | UnsetType = UNSET


class SessionInfo(msgspec.Struct, frozen=True):
    """A session and the number of its handles."""

    session: str
    live: int
    stopped: int
    connections: int


class SessionListResult(msgspec.Struct, frozen=True):
    """All known sessions."""

    sessions: tuple[SessionInfo, ...]
