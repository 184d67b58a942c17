"""Refused accesses in a sandboxed process's output: a hint only.

The kernel reports a refusal (EACCES, EPERM) to the process alone; most programs print the path,
also of ordinary refusals.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern

_MAX_TAIL = 4096
_DENIED = lazy_pattern(
    rb"permission denied|operation not permitted|\bEACCES\b|\bEPERM\b", re.IGNORECASE
)
# Linear: no quoted text begins behind another quote.
_QUOTED = lazy_pattern(rb"(?<!['\"`\xe2\x80\x98])['\"`\xe2\x80\x98]++([^'\"`\xe2\n]++)['\"`\xe2]")


class DenialWatch:
    """Last 4 KiB of output, to find a refusal in once the process has failed; `destination` returns
    one that haft's proxy refused."""

    __slots__ = ("_destination", "_tail")

    def __init__(self, destination: Callable[[], str] = str) -> None:
        self._destination = destination
        self._tail = b""

    def feed(self, data: bytes) -> None:
        self._tail = (self._tail + data[-_MAX_TAIL:])[-_MAX_TAIL:]

    def hint(self, tool: str) -> str:
        """Return a sentence with the path of the last refusal, or an empty string."""
        if destination := self._destination():
            return (
                f"A connection to {shown(destination)} was refused by the tool's rules: "
                f"`haft access {tool}` shows what it may do."
            )
        for line in reversed(self._tail.splitlines()):
            if match := _DENIED.search(line):
                path = _path(line, match.start())
                to = f" to {shown(path)}" if path else ""
                return (
                    f"An access{to} was denied, perhaps by the tool's sandbox: "
                    f"`haft access {tool}` shows what it may do."
                )
        return ""


def _path(line: bytes, at: int) -> str:
    for quoted in _QUOTED.finditer(line):
        if not _DENIED.search(quoted[1]):
            return quoted[1].decode(errors="replace")
    before = line[:at].rstrip(b": ").replace(b":", b" ").split()
    found = before[-1].decode(errors="replace") if before else ""
    return (
        found if "/" in found or "." in found or "cannot" in line.decode(errors="replace") else ""
    )
