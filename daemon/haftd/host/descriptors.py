"""How many descriptors this process may still open, and for what.

Rules:

- The kernel gives the lowest number that is free: one as high as the bound says that all below are taken.
- Who connects can be served as long as handles are held: the last descriptors are no handle's. What waits
  for the ends of processes stops first, then starts are refused, then files for output, and connections last.
"""

from __future__ import annotations

import resource
from typing import Literal

__all__ = ["SPARE", "has_room", "shortage"]

Use = Literal["wait", "start", "output", "client"]

SPARE = 32
"""Kept from connections: for what the daemon opens for a moment, logs and files."""
_MAX_FOR_CLIENTS = 32
_SHARE_FOR_CLIENTS = 8
"""One of so many, where there are few, is for those who connect."""


def has_room(fd: int, use: Use) -> bool:
    """Say whether a descriptor that was just opened leaves enough to those who come before this use."""
    return fd < _bound(use)


def shortage() -> str:
    """What is wrong where a start would leave too little, as a sentence."""
    most = _most()
    return (
        f"haftd may have {most} open files, and keeps the last {most - _bound('start')} for those who "
        "connect: end a handle, or raise `ulimit -n` (with systemd `LimitNOFILE=`)."
    )


def _bound(use: Use) -> int:
    most = _most()
    for_clients = min(_MAX_FOR_CLIENTS, most // _SHARE_FOR_CLIENTS)
    kept = {"wait": 2 * for_clients, "start": for_clients, "output": for_clients // 2, "client": 0}
    return most - SPARE - kept[use]


def _most() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
