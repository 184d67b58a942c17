"""System calls in which a thread waits, by machine; a call that is not listed counts as work."""

from __future__ import annotations

from typing import Final, Literal

from haftd.named_tuple import NamedTuple


class Call(NamedTuple):
    """System call that waits: the kind of its wait (`shape`), and the positions of its arguments, from 0."""

    shape: Literal["read", "poll", "select", "epoll", "nap", "lock", "ring"]
    first: int = 0
    """The descriptor or set of descriptors; of a `lock` the futex command."""
    bound: int = -1
    """The timeout in `unit`: milliseconds (negative: for ever), or a time's address (0: for ever).
    -1: the call has none."""
    unit: Literal["ms", "timespec", "timeval"] = "ms"
    resumed: bool = False
    """It resumes an interrupted call, whose arguments it shows."""


_READ = Call("read")
_NAP = Call("nap")  # of any length, which is not read
_LOCK = Call("lock", first=1, bound=3, unit="timespec")
_RING = Call("ring")
_POLL = Call("poll", bound=2)
_PPOLL = Call("poll", bound=2, unit="timespec")
_SELECT = Call("select", first=1, bound=4, unit="timeval")
_PSELECT = Call("select", first=1, bound=4, unit="timespec")
_EPOLL = Call("epoll", bound=3)
_EPOLL_2 = Call("epoll", bound=3, unit="timespec")

CALLS: Final[dict[str, dict[int, Call]]] = {
    "x86_64": {
        0: _READ,  # read
        19: _READ,  # readv
        327: _READ,  # preadv2
        275: _READ,  # splice
        276: _READ,  # tee
        45: _READ,  # recvfrom
        47: _READ,  # recvmsg
        40: Call("read", first=1),  # sendfile
        7: _POLL,  # poll
        271: _PPOLL,  # ppoll
        23: _SELECT,  # select
        270: _PSELECT,  # pselect6
        232: _EPOLL,  # epoll_wait
        281: _EPOLL,  # epoll_pwait
        441: _EPOLL_2,  # epoll_pwait2
        219: Call("poll", bound=2, resumed=True),  # restart_syscall
        35: _NAP,  # nanosleep
        230: _NAP,  # clock_nanosleep
        202: _LOCK,  # futex
        426: _RING,  # io_uring_enter
        208: _RING,  # io_getevents
        333: _RING,  # io_pgetevents
    },
    "aarch64": {
        63: _READ,  # read
        65: _READ,  # readv
        286: _READ,  # preadv2
        76: _READ,  # splice
        77: _READ,  # tee
        207: _READ,  # recvfrom
        212: _READ,  # recvmsg
        71: Call("read", first=1),  # sendfile
        73: _PPOLL,  # ppoll
        72: _PSELECT,  # pselect6
        22: _EPOLL,  # epoll_pwait
        441: _EPOLL_2,  # epoll_pwait2
        101: _NAP,  # nanosleep
        115: _NAP,  # clock_nanosleep
        98: _LOCK,  # futex
        426: _RING,  # io_uring_enter
        4: _RING,  # io_getevents
        292: _RING,  # io_pgetevents
    },  # without restart_syscall, which never resumes a poll here
}
