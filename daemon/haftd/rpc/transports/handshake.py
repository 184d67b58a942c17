"""Access control of the WebSocket by request headers: host (against DNS rebinding), origin, token.

After ten failures replies leave at one per second in total, against guesses.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence

import msgspec

PROTOCOL = "haft.v1"
_TOKEN = "haft.token."
_MAX_TOKEN_LENGTH = 256
_FREE_FAILURES = 10
_FORGIVEN_AFTER = 60.0
_LATE = 1.0

Headers = Iterable[tuple[bytes, bytes]]


class Refusal(msgspec.Struct, frozen=True):
    """Refused handshake."""

    status: int
    kind: str
    message: str
    delay: float = 0.0
    """Seconds before the reply."""


class Gatekeeper:
    """Judge of handshakes. `hosts` are names, or `name:port` for another port than the bound one."""

    def __init__(
        self,
        token: str,
        *,
        hosts: Sequence[str],
        origins: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._port = ""
        self._token = token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)
        # `name:port` or `[::1]:port`; a bare IPv6 address has more colons.
        self._whole = {host for host in self._hosts if host.rpartition("]")[2].count(":") == 1}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._clock = clock
        self._failures = 0
        self._last = float("-inf")
        self._next = float("-inf")

    def bound(self, address: str, port: int) -> None:
        """Accept the bound address as a host, and this port with every host."""
        self._port = str(port)
        self._hosts |= {address}

    def judge(self, host: str, headers: Headers, protocols: Sequence[str]) -> Refusal | str | None:
        """Return a refusal, or the reply's sub-protocol."""
        if not self._host_is_ours(host):
            return Refusal(403, "host", "This host name is not one that haftd serves.")
        by_name: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            by_name.setdefault(name.lower(), []).append(value)
        origins = by_name.get(b"origin", [])
        if any(_text(origin).lower() not in self._origins for origin in origins):
            return Refusal(403, "origin", "Pages of this origin must not connect to haftd.")
        if not self._token_is_right(by_name.get(b"authorization", []), protocols):
            return Refusal(
                401,
                "token",
                "A token is needed: `Authorization: Bearer <token>` from the file beside haftd's "
                "socket, or the sub-protocol `haft.token.<token>` beside `haft.v1`.",
                self._failed(),
            )
        return PROTOCOL if PROTOCOL in protocols else None

    def _host_is_ours(self, host: str) -> bool:
        host = host.strip().lower()
        if host in self._whole:
            return True
        name, colon, port = host.rpartition(":")
        if not colon or port.endswith("]"):
            name, port = host, "80"
        named = name in self._hosts or name.strip("[]") in self._hosts
        return named and port == self._port

    def _token_is_right(self, authorizations: Sequence[bytes], protocols: Sequence[str]) -> bool:
        shown: list[bytes] = []
        for value in authorizations:
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                shown.append(token.strip())
        shown += [
            protocol.removeprefix(_TOKEN).encode()
            for protocol in protocols
            if protocol.startswith(_TOKEN)
        ]
        if len(shown) != 1 or len(shown[0]) > _MAX_TOKEN_LENGTH:
            return False
        return hmac.compare_digest(shown[0], self._token)

    def _failed(self) -> float:
        now = self._clock()
        if now - self._last > _FORGIVEN_AFTER:
            self._failures = 0
        self._failures += 1
        self._last = now
        if self._failures <= _FREE_FAILURES:
            return 0.0
        self._next = max(self._next, now) + _LATE
        return self._next - now


def _text(value: bytes) -> str:
    return value.decode("latin-1").strip()
