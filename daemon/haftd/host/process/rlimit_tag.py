"""The brand: the mark of a handle in a place that a program does not lose.

The mark in the environment is gone when a program clears it (`env -i`), and what then makes its
own session and leaves its parent cannot be told from a stranger. Resource limits are inherited
by every child, through every execution, and a program has to know of one to change it. So the
soft limit of real-time CPU time (RLIMIT_RTTIME, microseconds) carries a number: with bit 62 set
it means 146,000 years, which limits nothing. Rules:

- Only the soft limit is set, and only where the hard one is unlimited.
- A daemon that has a brand itself runs in a handle of another one, and hands that brand on: what the
  handle is ended with must find all below it. Its own handles are told by their marks.
- A brand proves kinship only together with what else is known: a child of this daemon, or a
  verified process of this user. Its absence proves nothing.
- 24 bits tell the runtime folder, 20 the daemon's instance, 18 the number of the handle.
"""

from __future__ import annotations

import hashlib
import re
import resource

__all__ = ["RESOURCE", "encode", "home_prefix", "instance_prefix", "limits_for", "read_tag"]

RESOURCE = resource.RLIMIT_RTTIME
_BIT = 1 << 62
_MARK = re.compile(r"([0-9a-f]{6})[0-9a-f]*\.([0-9a-f]{5})[0-9a-f]*\.([0-9]+)")


def encode(mark: str) -> int:
    """The brand for the mark `<home>.<instance>.<n>`, or for any other text."""
    match = _MARK.fullmatch(mark)
    if match is None:
        digest = hashlib.sha256(mark.encode("utf-8", "surrogateescape")).digest()
        return _BIT | int.from_bytes(digest[:8]) >> 2
    home, instance, number = int(match[1], 16), int(match[2], 16), int(match[3])
    return _BIT | home << 38 | instance << 18 | number & 0x3FFFF


def home_prefix(brand: int) -> int:
    """The part that all brands of one runtime folder share."""
    return brand >> 38


def instance_prefix(brand: int) -> int:
    """The part that all brands of one daemon share; it includes the folder's."""
    return brand >> 18


def limits_for(mark: str) -> tuple[int, int] | None:
    """(soft, hard) to be set on a child; None where no brand can be set."""
    soft, hard = resource.getrlimit(RESOURCE)
    if hard != resource.RLIM_INFINITY or _is_tag(soft):
        return None
    return encode(mark), hard


def read_tag(pid: int) -> int | None:
    """The brand that a process carries, dead but not reaped ones included; None without."""
    try:
        soft = resource.prlimit(pid, RESOURCE)[0]
    except PermissionError:
        return _read_file(pid)  # another user's by now: setuid
    except (OSError, ValueError):
        return None
    return soft if _is_tag(soft) else None


def _is_tag(soft: int) -> bool:
    return soft > 0 and soft & _BIT != 0


def _read_file(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            for line in file:
                if line.startswith("Max realtime timeout"):
                    soft = line[20:].split()[0]
                    return int(soft) if soft.isdecimal() and int(soft) & _BIT else None
    except (OSError, ValueError):
        pass
    return None
