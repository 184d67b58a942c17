"""What the service manager is told: sd_notify, in as few bytes as it takes.

Rules: without NOTIFY_SOCKET nothing is said and nothing costs; a message that cannot be sent is
counted, never raised and never waited for. The watchdog is fed from the event loop itself, so that
a loop that stands still is a daemon that is restarted. See sd_notify(3).
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping

import trio

__all__ = ["Notifier", "feed_watchdog", "watchdog_interval"]


class Notifier:
    """Tell the service manager at `address` (a path, or `@name` in the abstract namespace)."""

    def __init__(self, address: str | None) -> None:
        self.failed = 0
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._socket: socket.socket | None = None
        if address and address[0] in "/@":
            self._socket = socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Notifier:
        """The manager that started us, if one did."""
        return cls(env.get("NOTIFY_SOCKET"))

    def ready(self, status: str = "") -> None:
        """Start-up, or a reload, is done: connections are accepted from here on."""
        self._send("READY=1", status)

    def reloading(self, now: float) -> None:
        """A reload begins; `now` is CLOCK_MONOTONIC in seconds. `ready` ends it."""
        self._send("RELOADING=1", microseconds=int(now * 1_000_000))

    def stopping(self, status: str = "") -> None:
        """The daemon is on its way out."""
        self._send("STOPPING=1", status)

    def watchdog(self) -> None:
        """The loop turns."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket; what is said afterwards goes nowhere."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, what: str, status: str = "", microseconds: int | None = None) -> None:
        if self._socket is None or self._address is None:
            return
        lines = [what]
        if microseconds is not None:
            lines.append(f"MONOTONIC_USEC={microseconds}")
        if status:
            lines.append("STATUS=" + " ".join(status.splitlines()))
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            self.failed += 1


def watchdog_interval(env: Mapping[str, str], pid: int) -> float | None:
    """Seconds between two signs of life, half of what the manager allows; `None`: none wanted."""
    try:
        allowed = int(env["WATCHDOG_USEC"]) / 1_000_000
        meant = int(env.get("WATCHDOG_PID", pid))
    except (KeyError, ValueError):
        return None
    return allowed / 2 if meant == pid and allowed > 0 and math.isfinite(allowed) else None


async def feed_watchdog(notifier: Notifier, interval: float) -> None:
    """Give a sign of life every `interval` seconds until cancelled."""
    while True:
        notifier.watchdog()
        await trio.sleep(interval)
