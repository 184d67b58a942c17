"""Local addresses, on which the daemon may listen."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """True if the numeric address `host` reaches only this machine."""
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False
