"""Addresses of hosts: whether they are public, and their resolution from names.

An embedded address (mapped, compatible, NAT64, 6to4) counts in place of the outer one.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence

import trio

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")  # RFC 8215
_COMPATIBLE = ipaddress.ip_network("::/96")  # RFC 4291, section 2.5.5.1
_threads = trio.CapacityLimiter(16)
"""Bounds all tools' look-ups together: a silent name server takes no thread of the daemon's other
tasks."""


def is_public(text: str) -> bool:
    """Return whether an address belongs to the public network; False for another text.

    >>> is_public("93.184.216.34"), is_public("10.0.0.1"), is_public("169.254.169.254")
    (True, False, False)
    >>> is_public("::ffff:127.0.0.1"), is_public("64:ff9b::7f00:1"), is_public("fe80::1%eth0")
    (False, False, False)
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = find_embedded(address)
        if inner is not None:
            return _is_public(inner)
        if address.is_site_local or address.teredo is not None or address in _LOCAL_NAT64:
            return False
    return _is_public(address)


def find_embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address; None if there is none."""
    if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
        return mapped
    if address in _COMPATIBLE or address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_unspecified


async def resolve_addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, in the system's order, from a thread that goes on after a
    cancellation. Raises OSError."""

    def look_up() -> tuple[str, ...]:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in entries))

    try:
        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=_threads)
    except socket.gaierror as error:
        raise OSError(errno.ENOENT, error.strerror) from None
    except UnicodeError:
        raise OSError(errno.EINVAL, "it is not the name of a host") from None
