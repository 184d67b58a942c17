"""Classification of addresses as local: decides where the daemon listens."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return True if the numeric address `host` reaches only this machine."""
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False
