"""Opening a connection to the daemon's socket, and making sure who is at the other end.

Rules: nothing is started here. The peer must be this user: a spawn carries the whole environment.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from haft_protocol.places import PlaceError, socket_path

from .errors import HaftError, Misplaced, NotRunning, ProtocolFault

__all__ = ["find_socket", "open_socket"]


_ROOT = 0
"""May be at the other end as well: nothing can be kept from it anyway."""


def find_socket(chosen: str | None = None) -> str:
    """Say where the daemon's socket is: `chosen`, or where section 1 puts it."""
    try:
        return socket_path(os.environ, os.getuid(), socket=chosen)
    except PlaceError as fault:
        raise Misplaced(str(fault)) from fault


def open_socket(path: str, timeout: float = 5.0) -> socket.socket:
    """Connect to `path`; raises `NotRunning` where nobody listens. The caller closes the socket."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A full backlog makes a Unix connect wait, not fail.
        end.settimeout(timeout)
        end.connect(path)
        _check_peer(end, path)
    except OSError as fault:
        end.close()
        raise _explained(fault, path) from fault
    except BaseException:
        end.close()
        raise
    return end


def _check_peer(end: socket.socket, path: str) -> None:
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    if uid not in (os.geteuid(), _ROOT):
        raise ProtocolFault(
            f"{path} belongs to the user with the number {uid}; nothing was sent to it"
        )


def _explained(fault: OSError, path: str) -> HaftError:
    if fault.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
        return NotRunning(f"haftd is not running: nobody listens at {path}")
    if isinstance(fault, TimeoutError):
        return HaftError(
            f"haftd does not accept connections at {path}; is it stopped (kill -STOP)?"
        )
    return HaftError(f"{path} cannot be connected to: {os.strerror(fault.errno or 0)}")
