"""Notifications to the service manager by sd_notify(3).

Failed sends are counted, never raised. The event loop feeds the watchdog: a hanging loop is
restarted.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping

import trio


class Notifier:
    """Socket of the service manager at `address` (`@name` is abstract)."""

    def __init__(self, address: str | None) -> None:
        self.failed = 0
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._socket: socket.socket | None = None
        if address and address[0] in "/@":
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Notifier:
        return cls(env.get("NOTIFY_SOCKET"))

    def ready(self, status: str = "") -> None:
        """Report the end of a start or reload."""
        self._send("READY=1", status)

    def reloading(self, now: float) -> None:
        """Report a reload until `ready`; `now` is CLOCK_MONOTONIC in seconds."""
        self._send("RELOADING=1", microseconds=int(now * 1_000_000))

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", status)

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, state: str, status: str = "", microseconds: int | None = None) -> None:
        if self._socket is None or self._address is None:
            return
        lines = [state]
        if microseconds is not None:
            lines.append(f"MONOTONIC_USEC={microseconds}")
        if status:
            lines.append("STATUS=" + " ".join(status.splitlines()))
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            self.failed += 1


def read_watchdog_interval_s(env: Mapping[str, str], pid: int) -> float | None:
    """Return half of the service manager's time limit, as sd_watchdog_enabled(3) recommends; None without
    a watchdog of this process."""
    try:
        limit_s = int(env["WATCHDOG_USEC"]) / 1_000_000
        watched_pid = int(env.get("WATCHDOG_PID", pid))
    except (KeyError, ValueError, OverflowError):
        return None
    return limit_s / 2 if watched_pid == pid and limit_s > 0 and math.isfinite(limit_s) else None


async def feed_watchdog(notifier: Notifier, interval: float) -> None:
    """Notify the watchdog every `interval` seconds, for ever."""
    while True:
        notifier.watchdog()
        await trio.sleep(interval)
