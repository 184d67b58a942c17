"""Pseudo-terminals: open one; its size, modes and foreground group.

The daemon holds only the master, which reads and sets all of these: an open slave would prevent
hang-ups. A new terminal is 0x0: set its size before a process runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios

from haftd.named_tuple import NamedTuple

MAX_LINE = 4095
"""Bytes per line in canonical mode without its end, by termios(3); a terminal drops the rest."""

# Not all are in Python's termios. The numbers are those of gate.py's machines; mips, powerpc and
# sparc need the names.
_UNLOCK = getattr(termios, "TIOCSPTLCK", 0x40045431)
_NUMBER = getattr(termios, "TIOCGPTN", 0x80045430)
_GROUP = termios.TIOCGPGRP
_IUTF8 = 0o40000
_INT = struct.Struct("i")
_SIZE = struct.Struct("HHHH")
_MAX_SIZE = 65_535  # of an unsigned short in struct winsize, ioctl_tty(2)


class Modes(NamedTuple):
    """Modes of the line discipline."""

    canonical: bool
    """Input is delivered by lines, edited in the terminal."""
    echo: bool
    maps_cr: bool
    """A typed carriage return reaches the program as a newline."""
    eof: bytes
    """Empty where no character ends input."""
    signals: bool = True
    """Typed characters send signals, as C-c sends INT."""

    @property
    def gives_enter_alone(self) -> bool:
        """True if Enter reaches the process unmapped while C-c does not: readline's modes."""
        return self.signals and not self.maps_cr


def open_terminal(rows: int, cols: int) -> tuple[int, str]:
    """Open a terminal; return the master and the slave's path. Raises OSError.

    The master is close-on-exec, non-blocking, and the caller's to close.
    """
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        fcntl.ioctl(master, _UNLOCK, _INT.pack(0))
        (number,) = _INT.unpack(fcntl.ioctl(master, _NUMBER, bytes(_INT.size)))
        set_size(master, rows, cols)
        attributes = termios.tcgetattr(master)
        attributes[0] |= _IUTF8  # erase takes a whole character
        termios.tcsetattr(master, termios.TCSANOW, attributes)
    except BaseException:
        os.close(master)
        raise
    return master, f"/dev/pts/{number}"


def set_size(master: int, rows: int, cols: int) -> None:
    """Set the size; the foreground group gets SIGWINCH after a change. Raises ValueError, OSError."""
    if not (1 <= rows <= _MAX_SIZE and 1 <= cols <= _MAX_SIZE):
        raise ValueError(f"a terminal has 1 to {_MAX_SIZE} rows and columns, not {rows}x{cols}")
    fcntl.ioctl(master, termios.TIOCSWINSZ, _SIZE.pack(rows, cols, 0, 0))


def modes(master: int) -> Modes:
    """Read the modes. Raises OSError."""
    try:
        iflag, _, _, lflag, _, _, chars = termios.tcgetattr(master)
    except termios.error as error:
        raise OSError(*error.args) from None

    canonical = bool(lflag & termios.ICANON)
    eof = chars[termios.VEOF] if canonical else b""
    return Modes(
        canonical=canonical,
        echo=bool(lflag & termios.ECHO),
        maps_cr=bool(iflag & termios.ICRNL),
        eof=b"" if eof == b"\0" else eof,
        signals=bool(lflag & termios.ISIG),
    )


def foreground(master: int) -> int | None:
    """Return the foreground process group; None if there is none, and for a file that is not a terminal. Raises
    OSError."""
    try:
        (answer,) = _INT.unpack(fcntl.ioctl(master, _GROUP, bytes(_INT.size)))
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EIO, errno.ESRCH):
            return None
        raise
    return answer if answer > 0 else None


def is_empty_group(group: int) -> bool:
    """True if no process, not even a zombie, is in the group."""
    try:
        os.killpg(group, 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False
