"""Connection to the daemon, started if none answers."""

from __future__ import annotations

import socket

from ..daemon_socket import open_daemon
from ..errors import NotRunning

_START_S = 10.0


def open_or_start(chosen: str | None) -> socket.socket:
    """Return a socket connected to the daemon at `chosen`, or at its usual path.

    Raises `NotRunning` if no daemon answers within ten seconds.
    """
    try:
        return open_daemon(chosen, _START_S)
    except NotRunning:
        from ..autostart import start_and_connect

        return start_and_connect(chosen, timeout=_START_S)
