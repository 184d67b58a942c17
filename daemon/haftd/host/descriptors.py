"""Reserve file descriptors by purpose: the kernel assigns the lowest free number, so one at the
bound means that all below are taken.

As they run out, waits for ends of processes are refused first, then starts, output files,
connections.
"""

from __future__ import annotations

import resource
from typing import Literal

Use = Literal["wait", "start", "output", "client"]

SPARE = 32
"""Reserved from connections, for short-lived descriptors, logs and files."""
_MAX_FOR_CLIENTS = 32
_SHARE_FOR_CLIENTS = 8
"""Clients get one descriptor of so many where descriptors are few."""


def has_room(fd: int, use: Use) -> bool:
    """True if a new descriptor leaves enough for uses of higher priority."""
    return fd < _bound(use)


def shortage() -> str:
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
