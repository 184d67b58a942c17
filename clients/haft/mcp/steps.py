"""A request in service: a generator of its steps, and the requesting host.

A server yields `CallDaemon` or `CallHost` and receives the result as JSON, or `RemoteError` raised;
`NotifyHost`; or `AwaitNotification` for the daemon's next one. The generator returns the result:

    def ping(host, params):
        yield CallDaemon("ping", {})
        return {}
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .messages import Capabilities, Id


class CallDaemon(msgspec.Struct, frozen=True):
    method: str
    params: dict[str, Any]


class AwaitNotification(msgspec.Struct, frozen=True):
    """Wait for a notification of the daemon; receive `[method, params]` as JSON."""


class NotifyHost(msgspec.Struct, frozen=True):
    """Send the host a notification, and continue."""

    method: str
    params: dict[str, Any]


class CallHost(msgspec.Struct, frozen=True):
    """Request to a legacy host. Raises `RemoteError` on its refusal, or after `timeout_s`."""

    method: str
    params: dict[str, Any]
    timeout_s: float | None = None
    on_late: Callable[[Raw], None] | None = None
    """Called with the result of a reply after the timeout."""


Step = CallDaemon | CallHost | AwaitNotification | NotifyHost
Steps = Generator[Step, Raw, dict[str, Any]]


class Host:
    """Host as described by one request. `subject` is the subject of the progress."""

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
        """Id of the request."""


Serve = Callable[[Host, Raw], Steps]
