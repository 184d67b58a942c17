"""Reserve file descriptors by purpose: the kernel assigns the lowest free number, so one at the
bound means that all below are taken.

As they run out, waits for ends of processes are refused first, then starts, output files,
connections.
"""

from __future__ import annotations

import resource
from typing import Literal

Use = Literal["wait", "start", "output", "client"]

_MAX_SPARE = 32
_SHARE_SPARE = 4
"""One descriptor of so many is spare where descriptors are few."""
_MAX_FOR_CLIENTS = 32
_SHARE_FOR_CLIENTS = 8
"""Clients get one descriptor of so many where descriptors are few."""
_OF_A_START = 6
"""Descriptors of a start above the one that is compared with the bound."""


def has_room(fd: int, use: Use) -> bool:
    """True if a new descriptor leaves enough for uses of higher priority."""
    return fd < _find_bound(use)


def explain_shortage() -> str:
    """Return the error message for a start without a descriptor."""
    most = read_limit()
    return (
        f"haftd may have {most} open files, and keeps {_count_for_clients(most)} for those who connect: end a "
        "handle, or raise `ulimit -n` (with systemd `LimitNOFILE=`)."
    )


def count_spare() -> int:
    """Return the number reserved from connections, for short-lived descriptors, logs and files."""
    return _share_spare(read_limit())


def read_limit() -> int:
    """Return the soft limit of open files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _share_spare(most: int) -> int:
    return min(_MAX_SPARE, most // _SHARE_SPARE)


def _count_for_clients(most: int) -> int:
    return min(_MAX_FOR_CLIENTS, most // _SHARE_FOR_CLIENTS)


def _find_bound(use: Use) -> int:
    most = read_limit()
    for_clients = _count_for_clients(most)
    for_output = for_clients // 2
    kept = {
        "wait": 2 * for_clients + for_output,
        "start": for_clients + for_output + _OF_A_START,
        "output": for_clients,
        "client": 0,
    }
    return most - _share_spare(most) - kept[use]
