"""Identity and permissions of a caller, one per connection, fixed when it connects."""

from __future__ import annotations

from typing import Literal

import msgspec

from haft_protocol.errors import RpcError, confined, peer_gone
from haftd.host.process.identity import Identity

Permission = Literal["handles", "approvals", "questions"]
"""Permissions of a tool's processes: `handles`, use every session; `approvals`, approve, trust,
reload definitions; `questions`, answer a person's questions."""


class Confinement(msgspec.Struct, frozen=True):
    """Permissions of a process started by haftd."""

    why: Literal["handle", "sandboxed", "started", "gone"]
    """`handle`: a process of a handle. `sandboxed`: such a process may use no session, not even its own,
    which runs tools without a sandbox. `started`: another descendant of the daemon. `gone`: the process
    is unknown, and may be one of these."""
    handle: str | None = None
    """Handle of the process's ancestor, if known; so is `session`."""
    session: str | None = None
    may: frozenset[str] = frozenset()


class Caller(msgspec.Struct, eq=False, weakref=True):
    """Connection as seen by methods; compared by identity."""

    transport: Literal["unix", "websocket"]
    pid: int | None = None
    name: str | None = None
    initialized: bool = False
    inquiry: bool = False
    approval: bool = False
    read_only: bool = False
    """True at the client's request, for good."""
    session: str = "default"
    """Default session of calls."""
    process: Identity | None = None
    """Connected process; None if a reused pid could be mistaken for it."""
    confinement: Confinement | None = None
    """None for processes not started by haftd."""

    @property
    def label(self) -> str:
        """Name for `ended_by.client` and the log."""
        return self.name or (f"pid {self.pid}" if self.pid else self.transport)

    @property
    def identity(self) -> dict[str, object]:
        """Fields for the audit log."""
        fields: dict[str, object] = {}
        if self.name is not None:
            fields["name"] = self.name
        if self.pid is not None:
            fields["pid"] = self.pid
        fields["transport"] = self.transport
        if (confinement := self.confinement) is not None:
            if confinement.session is not None:
                fields["session"] = confinement.session
            if confinement.handle is not None:
                fields["handle"] = confinement.handle
        return fields

    def may(self, permission: Permission) -> bool:
        """True if the caller is not confined, or has the permission."""
        return self.confinement is None or permission in self.confinement.may

    def may_use(self, session: str) -> bool:
        """True if the session (`*`: all) is permitted."""
        if self.confinement is None or "handles" in self.confinement.may:
            return True
        return self.confinement.why == "handle" and session == self.confinement.session

    def may_reach(self, granted: frozenset[str]) -> bool:
        """True if a handle's or tool's permissions, `granted`, do not exceed the caller's."""
        return self.confinement is None or granted <= self.confinement.may

    def refusal(self, action: str) -> RpcError:
        """Return the error for an action that this confined caller may not do."""
        if self.confinement is None:
            raise AssertionError("the refusal of a caller that is not confined was requested")
        if self.confinement.why == "gone":
            return peer_gone()
        return confined(action, self.confinement.handle, self.confinement.session)
