"""A request that is served: a generator of what it waits for, and the host that it comes from.

Rules: no I/O. A server yields `CallDaemon` for a request to the daemon and gets its result as JSON, or `RemoteError`
raised; it yields `CallHost` for a request to a legacy host in the same way, `NotifyHost` for a notification to the host,
and `AwaitNotification` for the next notification of the daemon's. It returns the result of MCP.

Example: def ping(host, params): yield CallDaemon("ping", {}); return {}
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .messages import Capabilities, Id


class CallDaemon(msgspec.Struct, frozen=True):
    """A request to the daemon."""

    method: str
    params: dict[str, Any]


class AwaitNotification(msgspec.Struct, frozen=True):
    """Wait for a notification of the daemon's; its method and params come as JSON, `[method, params]`."""


class NotifyHost(msgspec.Struct, frozen=True):
    """Send the host a notification, and go on."""

    method: str
    params: dict[str, Any]


class CallHost(msgspec.Struct, frozen=True):
    """A request to a legacy host; `RemoteError` is raised where it refuses."""

    method: str
    params: dict[str, Any]


Step = CallDaemon | CallHost | AwaitNotification | NotifyHost
Steps = Generator[Step, Raw, dict[str, Any]]


class Host:
    """The host as one request describes it. `subject` is what its progress is about."""

    __slots__ = ("capabilities", "id", "is_modern", "progress_token", "subject", "version")

    def __init__(
        self,
        version: str,
        capabilities: Capabilities,
        *,
        is_modern: bool,
        progress_token: int | str | UnsetType = UNSET,
    ) -> None:
        self.version = version
        self.capabilities = capabilities
        self.is_modern = is_modern
        self.progress_token = progress_token
        self.subject = "waiting"
        self.id: Id = 0
        """The id of the request."""


Serve = Callable[[Host, Raw], Steps]
"""Serves a method: the generator of its result."""
