"""Who calls: one connection, as everything behind it knows it.

Rules: values that say who; they know neither their connection nor what is called. A connection of a process
that haftd has started is confined, from its first message to its last: what it may do was decided when it
connected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from haft_protocol.errors import RpcError, confined, peer_gone
from haftd.host.process.identity import Identity

Permission = Literal["handles", "approvals", "questions"]
"""What a definition may let its processes do for a person: `handles`, use every session; `approvals`,
decide what waits for one, trust a root, reload what asks first; `questions`, answer what a person is asked."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a process that haftd has started may do. `handle` and `session` name the handle that it descends
    from; both None where it is of no handle, or where that cannot be told."""

    why: Literal["handle", "started", "gone"]
    handle: str | None = None
    session: str | None = None
    may: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Caller:
    """One connection, as the verbs know it. Compared by identity."""

    transport: Literal["unix", "websocket"]
    pid: int | None = None
    name: str | None = None
    initialized: bool = False
    inquiry: bool = False
    approval: bool = False
    session: str = "default"
    """The session of calls that name none."""
    process: Identity | None = None
    """The process that connected, for as long as that can be told from others of its number."""
    confinement: Confinement | None = None
    """None for whoever haftd has not started: a person, a host, a script."""

    @property
    def label(self) -> str:
        """Who that is, for `ended_by.client` and the log."""
        return self.name or (f"pid {self.pid}" if self.pid else self.transport)

    @property
    def identity(self) -> dict[str, object]:
        """Who that is, for the audit log."""
        who: dict[str, object] = {
            "name": self.name,
            "pid": self.pid,
            "transport": self.transport,
        }
        if self.confinement is not None:
            who |= {"session": self.confinement.session, "handle": self.confinement.handle}
        return {key: value for key, value in who.items() if value is not None}

    def may(self, permission: Permission) -> bool:
        """Say whether it may do this for a person."""
        return self.confinement is None or permission in self.confinement.may

    def may_use(self, session: str) -> bool:
        """Say whether it may use the session; `*` stands for all of them."""
        if self.confinement is None or "handles" in self.confinement.may:
            return True
        return session == self.confinement.session

    def may_reach(self, granted: frozenset[str]) -> bool:
        """Say whether it may use a handle, or start a tool, whose processes are granted this: not more
        than what its own process may do."""
        return self.confinement is None or granted <= self.confinement.may

    def refusal(self, what: str) -> RpcError:
        """The error for a confined caller that cannot do `what`."""
        if self.confinement is None:
            raise AssertionError("who is not confined may do all")
        if self.confinement.why == "gone":
            return peer_gone()
        return confined(what, self.confinement.handle, self.confinement.session)
