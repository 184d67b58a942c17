"""Resolve the names of hosts, for host calls and for the proxy."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

import trio

_threads = trio.CapacityLimiter(16)
"""Bounds all tools' look-ups together: a silent name server takes no thread of the daemon's other
tasks."""


async def resolve_addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, in the system's order; raises OSError."""

    def look_up() -> tuple[str, ...]:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in entries))

    try:
        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=_threads)
    except socket.gaierror as error:
        raise OSError(errno.ENOENT, error.strerror) from None
    except UnicodeError:
        raise OSError(errno.EINVAL, "it is no name of a host") from None
