"""Client errors; a message names the fault and the remedy."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "ConnectionLost",
    "Declined",
    "HaftError",
    "InvalidAddress",
    "NotRunning",
    "NotUnicode",
    "ProtocolFault",
    "RemoteError",
    "ReplyTimeout",
    "SetupFailed",
    "StartFailed",
    "Unreachable",
    "VersionMismatch",
]


class HaftError(Exception):
    """Base of all client errors."""


class RemoteError(HaftError):
    """The daemon refused the request; `kind` and `data` are for programs (docs/protocol.md,
    "Errors")."""

    def __init__(self, code: int, kind: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.message = message
        self.data = data

    def __repr__(self) -> str:
        return f"RemoteError({self.code}, {self.kind!r}, {self.message!r})"


class NotRunning(HaftError):
    """No daemon answers at the socket; the command line shows `remedy` after the message."""

    def __init__(self, message: str = "", *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class InvalidAddress(HaftError):
    """The socket's path is too long, or relative; or the host's address is none."""


class StartFailed(NotRunning):
    """The daemon was started but did not come up."""


class Unreachable(NotRunning):
    """The machine of the chosen host does not answer, or has no `haft`."""


class ConnectionLost(HaftError):
    """The connection ended while a reply was due."""


class ReplyTimeout(HaftError, TimeoutError):
    """The reply did not come in time; the request was cancelled."""


class ProtocolFault(HaftError):
    """The peer broke the protocol, is another program, or belongs to another user."""


class NotUnicode(HaftError, ValueError):
    """A text of a request is not UTF-8; `field` names the param, as in `args.path`."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"`{field}` is not UTF-8 (it has a lone surrogate): {text!a}")
        self.field = field
        self.text = text


class SetupFailed(HaftError):
    """The service could not be set up or removed."""


class VersionMismatch(ProtocolFault):
    """The daemon has another version of the protocol. `protocol`, `version` and `pid` are the
    daemon's, if known."""

    def __init__(
        self, own: int, protocol: int | None, version: str | None, pid: int | None
    ) -> None:
        daemon = "haftd" if version is None else f"haftd {version}"
        their_version = "another version" if protocol is None else f"version {protocol}"
        self.daemon = daemon
        super().__init__(
            f"{daemon} speaks {their_version} of the protocol, and this haft version {own}; `haft stop` ends it and "
            "everything that it runs, and the next command starts the daemon of this haft"
        )
        self.protocol = protocol
        self.version = version
        self.pid = pid


class Declined(HaftError):
    """Raised by a client to leave the question to other clients."""
