"""Who calls: one connection, as everything behind it knows it.

Rules: a value that says who; it knows neither its connection nor what it may ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Caller"]


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

    @property
    def label(self) -> str:
        """Who that is, for `ended_by.client` and the log."""
        return self.name or (f"pid {self.pid}" if self.pid else self.transport)

    @property
    def identity(self) -> dict[str, object]:
        """Who that is, for the audit log."""
        who = {"name": self.name, "pid": self.pid, "transport": self.transport}
        return {key: value for key, value in who.items() if value is not None}
