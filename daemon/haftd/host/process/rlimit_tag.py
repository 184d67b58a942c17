"""Tag the processes of a handle with an inherited resource limit.

The tag in the environment (`process_tag`) is lost when a program clears its environment (`env -i`), and a
process that then starts its own session and loses its parent looks like any other. Resource limits are
inherited through every fork and exec, and a program has to know of one to change it. So the soft limit of
real-time CPU time (RLIMIT_RTTIME, microseconds) carries a number: with bit 62 set the limit is 146,000
years, which limits nothing. Rules:

- Only the soft limit is set, and only where the hard limit is unlimited.
- A daemon that is tagged itself runs in a handle of another daemon, and its children inherit that tag:
  the other daemon must find them all. Such a daemon tells its own handles apart by `process_tag`.
- An rlimit tag proves membership only together with other evidence: a child of this daemon, or a verified
  process of this user. A missing tag proves nothing.
- 24 bits are for the runtime folder, 20 for the daemon's instance, 18 for the number of the handle.
"""

from __future__ import annotations

import hashlib
import re
import resource

RESOURCE = resource.RLIMIT_RTTIME
_BIT = 1 << 62
_MARK = re.compile(r"([0-9a-f]{6})[0-9a-f]*\.([0-9a-f]{5})[0-9a-f]*\.([0-9]+)")


def encode(mark: str) -> int:
    """Return the rlimit tag for the process tag `<home>.<instance>.<n>`, or a hash for any other text."""
    match = _MARK.fullmatch(mark)
    if match is None:
        digest = hashlib.sha256(mark.encode("utf-8", "surrogateescape")).digest()
        return _BIT | int.from_bytes(digest[:8]) >> 2
    home, instance, number = int(match[1], 16), int(match[2], 16), int(match[3])
    return _BIT | home << 38 | instance << 18 | number & 0x3FFFF


def home_prefix(brand: int) -> int:
    """Return the bits that all tags of one runtime folder share."""
    return brand >> 38


def instance_prefix(brand: int) -> int:
    """Return the bits that all tags of one daemon share; they include the folder's."""
    return brand >> 18


def limits_for(mark: str) -> tuple[int, int] | None:
    """Return the (soft, hard) limit to set on a child; None where no tag can be set."""
    soft, hard = resource.getrlimit(RESOURCE)
    if hard != resource.RLIM_INFINITY or _is_tag(soft):
        return None
    return encode(mark), hard


def read_tag(pid: int) -> int | None:
    """Read the tag of a process, also of an unreaped zombie; None where there is none."""
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
