"""Whether a process runs, as the kernel has it: a zombie that nobody has reaped does not."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Say whether a process with this number exists and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
