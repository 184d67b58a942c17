"""The address of this machine's daemon."""

from __future__ import annotations


class Local:
    """This machine's daemon: at `socket`, or where `haft_protocol.paths` looks."""

    __slots__ = ("socket",)

    def __init__(self, socket: str | None = None) -> None:
        self.socket = socket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Local) and self.socket == other.socket

    def __hash__(self) -> int:
        return hash(self.socket)

    def __repr__(self) -> str:
        return f"Local({self.socket!r})"

    @property
    def name(self) -> str:
        return "this machine" if self.socket is None else self.socket
