"""Tag a handle's processes with an inherited resource limit, which survives a cleared environment.

The soft limit of real-time CPU time (RLIMIT_RTTIME, microseconds) has bit 62 set (146,000 years),
then 24 bits for the runtime folder, 20 for the daemon's instance, 18 for the handle. A tag proves
membership only for a child of this daemon or a verified process of this user; a missing tag proves
nothing. The tag is set only where the hard limit is unlimited; a tagged daemon's children keep the
outer one.
"""

from __future__ import annotations

import hashlib
import resource

from haftd.lazy_pattern import lazy_pattern

RESOURCE = resource.RLIMIT_RTTIME
_BIT = 1 << 62  # more than any real limit, and less than RLIM_INFINITY
_MARK = lazy_pattern(r"([0-9a-f]{6})[0-9a-f]*\.([0-9a-f]{5})[0-9a-f]*\.([0-9]+)")


def encode(mark: str) -> int:
    """Return the rlimit tag for `<home>.<instance>.<n>`, or a hash of any other text."""
    match = _MARK.fullmatch(mark)
    if match is None:
        digest = hashlib.sha256(mark.encode("utf-8", "surrogateescape")).digest()
        return _BIT | int.from_bytes(digest[:8]) >> 2
    home, instance, number = int(match[1], 16), int(match[2], 16), int(match[3])
    return _BIT | home << 38 | instance << 18 | number & 0x3FFFF


def home_prefix(tag: int) -> int:
    return tag >> 38


def instance_prefix(tag: int) -> int:
    return tag >> 18


def limits_for(mark: str) -> tuple[int, int] | None:
    """Return a child's (soft, hard) limit; None where no tag can be set, or an outer tag is kept."""
    soft, hard = resource.getrlimit(RESOURCE)
    if hard != resource.RLIM_INFINITY or _is_tag(soft):
        return None
    return encode(mark), hard


def read_tag(pid: int) -> int | None:
    """Read a process's tag, also of an unreaped zombie; None without."""
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
    """Read a process's tag from /proc/<pid>/limits; None without one."""
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            for line in file:
                if line.startswith("Max realtime timeout"):
                    soft = line[20:].split()[0]
                    return int(soft) if soft.isdecimal() and int(soft) & _BIT else None
    except (OSError, ValueError):
        pass
    return None
