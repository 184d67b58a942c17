"""Connection to a daemon at any address, as a connected socket."""

from __future__ import annotations

import os
import sys

from .daemon_socket import open_daemon
from .errors import ConnectionLost, NotRunning
from .local_address import Local

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from .addresses import Address
    from .daemon_socket import Socket

_LOCAL_S = 5.0


def open_connection(
    address: Address, *, autostart: bool = False, timeout: float | None = None
) -> Socket:
    """Connect to the daemon at `address`; `autostart` one where none answers.

    Raises `NotRunning`, or its subclasses. `timeout` in seconds is by default 5, for another
    machine 30.
    """
    if not isinstance(address, Local):
        from .tunnel import open_tunnel

        return open_tunnel(address, os.environ, may_start=autostart, timeout=timeout)
    bound = _LOCAL_S if timeout is None else timeout
    try:
        return open_daemon(address.socket, bound)
    except NotRunning:
        if not autostart:
            raise
        from .autostart import start_and_connect

        return start_and_connect(address.socket, timeout=bound)


def loss_of(connected: Socket, words: str) -> ConnectionLost:
    """Return the error for an ended connection: `words`, or the reason of the program that carried
    it.

    Blocks for two seconds at most, for a socket of this machine not at all.
    """
    if f"{__package__}.tunnel" not in sys.modules:
        return ConnectionLost(words)  # No socket can be a tunnel.
    from .tunnel import Tunnel, loss

    return loss(connected) if isinstance(connected, Tunnel) else ConnectionLost(words)
