"""Addresses of hosts: whether they are public, and their resolution from names."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence

import trio

from haftd.tools.definitions.access import list_embedded_addresses

_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # services of Azure for its virtual machines, also their credentials
            "192.0.0.0/24",  # RFC 6890, section 2.1; 192.0.0.192 has the metadata of Oracle's cloud
            "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
            "64:ff9b:1::/48",  # NAT64 of a local network, RFC 8215
            "3fff::/20",  # documentation, RFC 9637
            "5f00::/16",  # segment routing, RFC 9602
        ),
    )
)
"""Networks that Python's registry of global addresses lacks, or lacks in some versions."""
_ANY_PORT = 9
"""Port of a UDP socket that sends nothing."""
_threads = trio.CapacityLimiter(16)
"""Bounds all tools' look-ups together: a silent name server takes no thread from the daemon's other
tasks."""


def is_public(text: str) -> bool:
    """Return whether an address belongs to the public network, and not to this machine at the moment;
    False for another text. Asks the kernel.

    An embedded IPv4 address (mapped, compatible, NAT64, 6to4) has to be public, too.

    >>> is_public("10.0.0.1"), is_public("169.254.169.254"), is_public("fe80::1%eth0")
    (False, False, False)
    >>> is_public("::ffff:127.0.0.1"), is_public("64:ff9b::7f00:1")
    (False, False)
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    inner = list_embedded_addresses(address)
    if isinstance(address, ipaddress.IPv6Address) and (
        address.is_site_local or address.teredo is not None
    ):
        return False
    # Python counts the networks of some embedded forms as reserved.
    return all(
        address.is_global
        and not address.is_multicast
        and not address.is_unspecified
        and not any(address in network for network in _NOT_PUBLIC)
        and not is_of_this_machine(str(address))
        for address in inner or (address,)
    ) and not (inner and is_of_this_machine(str(address)))


def is_of_this_machine(address: str) -> bool:
    """Return whether the kernel delivers packets for an address to this machine itself. Sends nothing.

    A connected UDP socket shows the route: to an address of the machine the packets come from that
    address. True as well if no socket can be opened, for a lack of descriptors.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT
    with probe:
        try:
            probe.connect((address, _ANY_PORT))
            source, destination = probe.getsockname()[0], probe.getpeername()[0]
        except OSError:
            return False  # no route, so no connection either
    return bool(source == destination)


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
