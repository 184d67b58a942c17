"""Causes of a failure in a process's last output: a hint only.
The kernel reports a sandbox's refusal (EACCES, EPERM; no network) to the process alone; most programs
print the path or the host, also of ordinary failures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern

_MAX_TAIL = 4096
_MAX_EXPLANATION = 500
_DENIED = lazy_pattern(
    rb"permission denied|operation not permitted|\bEACCES\b|\bEPERM\b", re.IGNORECASE
)
_UNREACHED = lazy_pattern(
    rb"(?:could not|couldn't|failed to|unable to) resolve|failure in name resolution"
    rb"|network is unreachable|\bEAI_AGAIN\b|\bENETUNREACH\b",
    re.IGNORECASE,
)
_NO_LIBRARY = b"No module named 'encodings'"
"""Python's message if it cannot read its standard library, the first module of which is this."""
_HOST = lazy_pattern(
    rb"(?:resolve(?: host(?:name)?+(?: address)?+)?+:?+|lookup|EAI_AGAIN|connect to(?: host)?+|host=)"
    rb" *+['\"\xe2\x80\x98]*+([A-Za-z0-9:][\w.:-]*\w)",
    re.IGNORECASE,
)
# Linear: no quoted text begins after another quote.
_QUOTED = lazy_pattern(rb"(?<!['\"`\xe2\x80\x98])['\"`\xe2\x80\x98]++([^'\"`\xe2\n]++)['\"`\xe2]")


class FailureHint:
    """Last 4 KiB of output, to find a cause in once the process has failed.

    `destination` returns one that haft's proxy refused. A process that ends with a code of `explained`
    has printed the reason as its last line.
    """

    __slots__ = ("_destination", "_explained", "_has_network", "_is_sandboxed", "_tail")

    def __init__(
        self,
        destination: Callable[[], str] = str,
        *,
        is_sandboxed: bool = True,
        has_network: bool = False,
        explained: Collection[int] = (),
    ) -> None:
        self._destination = destination
        self._is_sandboxed = is_sandboxed
        self._has_network = has_network
        self._explained = explained
        self._tail = b""

    def feed(self, data: bytes) -> None:
        self._tail = (self._tail + data[-_MAX_TAIL:])[-_MAX_TAIL:]

    def text(self, tool: str, code: int | None = None) -> str:
        """Return sentences on the last cause, or an empty string."""
        lines = self._tail.splitlines()
        if code in self._explained and lines:
            last = lines[-1].decode(errors="replace").strip().rstrip(".")
            reason = shorten(last, _MAX_EXPLANATION)
            return f"{reason}." if reason and not reason.endswith("…") else reason
        if not self._is_sandboxed:
            return ""
        rules = f"`haft access {tool}` shows what it may do."
        if destination := self._destination():
            return f"A connection to {shown(destination)} was refused by the tool's rules: {rules}"
        for line in reversed(lines):
            if match := _DENIED.search(line):
                path = _path(line, match.start())
                to = f" to {shown(path)}" if path else ""
                return f"An access{to} was denied, possibly by the tool's sandbox: {rules}"
            if _NO_LIBRARY in line:
                return (
                    "Python could not read its standard library, possibly because of the tool's sandbox: "
                    "`execute` of the folder that its `sys.base_prefix` names permits that; "
                    f"{rules}"
                )
            if not self._has_network and _UNREACHED.search(line):
                host_match = _HOST.search(line)
                host = f"The host {shown(host_match[1].decode())}" if host_match else "A host"
                return f"{host} was not reached, possibly because of the tool's sandbox: {rules}"
        return ""


def find_error_line(lines: Sequence[str]) -> str:
    """Return the line that names the error among a failed program's last lines: the last one, or that
    before a stack or another list, whose lines are indented below a title that ends with a colon.

    >>> find_error_line(["KeyError: 'a'", "Current thread (most recent call first):", "  <no frame>"])
    "KeyError: 'a'"
    """
    for line in reversed(lines):
        if not line[:1].isspace() and not line.endswith(":"):
            return line
    return lines[-1]


def _path(line: bytes, at: int) -> str:
    for quoted in _QUOTED.finditer(line):
        if not _DENIED.search(quoted[1]):
            return quoted[1].decode(errors="replace")
    before = line[:at].rstrip(b": ").replace(b":", b" ").split()
    word = before[-1].decode(errors="replace") if before else ""
    return word if "/" in word or "." in word or "cannot" in line.decode(errors="replace") else ""
