"""Fields of /proc/<pid>/status.

Unlike `stat`, `status` waits for no lock of the process: one in execve(2) holds back `stat`, from
Linux 6.18 on.
"""

from __future__ import annotations

from haftd.host.process.identity import read_whole


class Status:
    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = b"\n" + text

    def field(self, name: bytes) -> bytes | None:
        """Return a field's value, None where the kernel writes none: a dead process has no VmSize."""
        start = self._text.find(b"\n%b:" % name)
        if start < 0:
            return None
        start += len(name) + 2
        return self._text[start : self._text.index(b"\n", start)].strip()

    @property
    def run_state(self) -> str:
        """The letter for the state, as `R`."""
        return chr((self.field(b"State") or b"?")[0])

    def number(self, name: bytes, base: int = 10) -> int:
        """Return a field's number; 0 where the kernel writes none."""
        return int(self.field(name) or b"0", base)

    def has_signal(self, mask: bytes, signum: int) -> bool:
        """True if a signal is in a mask: SigBlk, SigIgn or SigCgt."""
        return bool(self.number(mask, 16) >> signum - 1 & 1)


def read_status(process: int | str) -> Status | None:
    """Read the status of a process, or of a thread by its path below /proc; None if there is none.

    Raises OSError as `open_pidfd`.
    """
    text = read_whole(f"/proc/{process}/status")
    return Status(text) if text else None
