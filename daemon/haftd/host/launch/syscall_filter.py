"""The seccomp filter of a sandboxed process: system calls beyond Landlock
(docs/decisions/rights.md).

No network is no socket, except for socket pairs of streams. The supervisor decides on `connect`; no
other call may give a destination: no source route, no interface. The rlimit tag stays: a process
with another would leave the handle. `clone3` and io_uring do not exist, as a filter sees no
arguments; libraries then take older calls.
"""

from __future__ import annotations

import errno
import struct
import sys
from functools import cache
from typing import Final, Literal

from haftd.host.process import rlimit_tag
from haftd.host.process.machine import architecture
from haftd.host.process.status import read_status
from haftd.named_tuple import NamedTuple

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06  # linux/bpf_common.h
# SECCOMP_RET_…, and offsets in struct seccomp_data, of linux/seccomp.h.
_ALLOW, _KILL, _ERRNO, _ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_NUMBER, _ARCH = 0, 4
_X32 = 0x40000000

_NEW_NAMESPACES = 0x7E020000  # NS, CGROUP, UTS, IPC, USER, PID, NET
_NEW_TIME = 0x80  # in `clone` a bit of the signal's number
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TYPE = 1, 5, 0xF
_TCP, _FASTOPEN = 6, 0x20000000
_SETLEASE = 1024
"""Operation of `fcntl` on a read-only file that makes other processes wait, or fail to get the
file."""
_NEW_LISTENER = 1 << 3
_ROUTES: Final = ((0, (4, 50)), (1, (25, 62)))
"""Options of sockets that route packets: IP_OPTIONS, IP_UNICAST_IF; SO_BINDTODEVICE,
SO_BINDTOIFINDEX."""
_CREATES = 0x400040
"""O_CREAT and __O_TMPFILE: without them the kernel heeds no mode (open(2))."""
_SETS_ID = 0o6000
"""S_ISUID, S_ISGID: another user who runs such a file acts as this user, outside of the sandbox."""
_OPENAT2 = 437
"""Has its mode in memory, which a filter does not see; libraries then take `openat`. The same on both
machines."""
_SETFLAGS, _FSSETXATTR = 0x40086602, 0x401C5820
"""Requests of `ioctl` that change a file's attributes, also if open for reading."""


Network = Literal["none", "proxy", "all"]


class _Machine(NamedTuple):
    """Numbers of system calls."""

    arch: int
    clone: int
    unshare: int
    socket: int
    socketpair: int
    connect: int
    setsockopt: int
    prlimit: int
    setrlimit: int
    ioctl: int
    fcntl: int
    denied: tuple[int, ...]
    ipc: tuple[int, ...]
    metadata: tuple[int, ...]
    """Changes of modes, owners, times and extended attributes."""
    modes: tuple[tuple[int, int], ...]
    """chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat, with the position of the mode."""
    creating: tuple[tuple[int, int], ...]
    """open, openat, with the position of the flags; the mode follows."""
    capset: int
    seccomp: int
    listening: tuple[int, int]
    """bind, listen."""
    sending: tuple[tuple[int, int], ...]
    """sendto, sendmsg, sendmmsg, with the position of the flags."""


_MISSING: Final = (425, 426, 427, 435)  # io_uring_*, clone3: the same on both machines
_MOUNTS: Final = (428, 429, 430, 431, 432, 433, 442, 443, 467, 469)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, quotactl_fd,
open_tree_attr, file_setattr."""

_MACHINES: Final = {
    "x86_64": _Machine(
        arch=0xC000003E,
        clone=56,
        unshare=272,
        socket=41,
        socketpair=53,
        connect=42,
        setsockopt=54,
        prlimit=302,
        setrlimit=160,
        ioctl=16,
        fcntl=72,
        # mount, umount2, pivot_root, setns, kexec_load, kexec_file_load, init_module, finit_module,
        # delete_module, bpf, perf_event_open, userfaultfd, open_by_handle_at, swapon, swapoff, reboot,
        # acct, quotactl, iopl, ioperm, syslog
        denied=(
            165,
            166,
            155,
            308,
            246,
            320,
            175,
            313,
            176,
            321,
            298,
            323,
            304,
            167,
            168,
            169,
            163,
            179,
            172,
            173,
            103,
        ),
        # add_key, request_key, keyctl, shm(get|at|ctl), sem(get|op|ctl|timedop), msg(get|snd|rcv|ctl),
        # mq_open, mq_unlink
        ipc=(248, 249, 250, 29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
        # chmod, fchmod, chown, fchown, lchown, fchownat, fchmodat, fchmodat2, (l|f)setxattr,
        # (l|f)removexattr, setxattrat, removexattrat, utime, utimes, futimesat, utimensat
        metadata=(
            90,
            91,
            92,
            93,
            94,
            260,
            268,
            452,
            188,
            189,
            190,
            197,
            198,
            199,
            463,
            466,
            132,
            235,
            261,
            280,
        ),
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2)),
        creating=((2, 1), (257, 2)),
        capset=126,
        seccomp=317,
        listening=(49, 50),
        sending=((44, 3), (46, 2), (307, 3)),
    ),
    "aarch64": _Machine(
        arch=0xC00000B7,
        clone=220,
        unshare=97,
        socket=198,
        socketpair=199,
        connect=203,
        setsockopt=208,
        prlimit=261,
        setrlimit=164,
        ioctl=29,
        fcntl=25,
        denied=(
            40,
            39,
            41,
            268,
            104,
            294,
            105,
            273,
            106,
            280,
            241,
            282,
            265,
            224,
            225,
            142,
            89,
            60,
            116,
        ),
        ipc=(217, 218, 219, 194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181),
        metadata=(52, 53, 54, 55, 452, 5, 6, 7, 14, 15, 16, 463, 466, 88),
        modes=((52, 1), (53, 2), (452, 2), (33, 2)),
        creating=((56, 2),),
        capset=91,
        seccomp=277,
        listening=(200, 201),
        sending=((206, 3), (211, 2), (269, 3)),
    ),
}


_OF_ROOT: Final = 1 << 0 | 1 << 1 | 1 << 3
"""CAP_CHOWN, DAC_OVERRIDE, FOWNER: root's rights on files, which Landlock narrows. Without FSETID a write
takes the mode's setuid bit away."""


@cache
def permitted_capabilities() -> int:
    """Return the bits of this process's permitted capabilities, which lack those that a container
    withholds; 0 if unknown."""
    status = read_status("thread-self")
    return 0 if status is None else status.number(b"CapPrm", 16)


class Confinement(NamedTuple):
    """Filter of a sandboxed process."""

    filter: bytes
    capabilities: int
    """Capabilities that stay."""
    numbers: tuple[int, int]
    """System call numbers of `capset` and `seccomp`."""
    is_supervised: bool = False
    """The filter asks a supervisor, which takes the questions' descriptor from the gate."""


@cache
def confinement(*, network: Network, metadata: bool, capabilities: int) -> Confinement | None:
    """Return this machine's confinement; None where system calls are unknown.

    `capabilities` are the daemon's permitted ones, an upper bound for any child.
    """
    machine = _MACHINES.get(architecture())
    if machine is None or sys.byteorder != "little":
        return None
    return Confinement(
        make_filter(network=network, metadata=metadata),
        _OF_ROOT & capabilities,
        (machine.capset, machine.seccomp),
        network == "proxy",
    )


@cache
def make_filter(*, network: Network, metadata: bool) -> bytes:
    """Return the filter's instructions, each a struct sock_filter; `metadata` allows changes of modes,
    owners and times."""
    machine = _MACHINES[architecture()]
    code = [
        _instruction(_LD, _ARCH),
        _instruction(_JEQ, machine.arch, 1, 0),
        _instruction(_RET, _KILL),
        _instruction(_LD, _NUMBER),
        _instruction(_JGE, _X32, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for number in _MISSING:
        code += _if_call(number, _refuse(errno.ENOSYS))
    for number in (*machine.denied, *_MOUNTS):
        code += _if_call(number, _refuse(errno.EPERM))
    for number in (*machine.ipc, *(() if metadata else machine.metadata)):
        code += _if_call(number, _refuse(errno.EACCES))
    for number, flags in (
        (machine.clone, _NEW_NAMESPACES),
        (machine.unshare, _NEW_NAMESPACES | _NEW_TIME),
    ):
        code += _if_call(
            number,
            _instruction(_LD, _argument(0)),
            _instruction(_JSET, flags, 0, 1),
            _refuse(errno.EPERM),
            _instruction(_RET, _ALLOW),
        )
    # Another process's limits (0 is the caller); and a new value of the tag, by a pointer that is
    # not NULL.
    code += _if_call(
        machine.prlimit,
        _instruction(_LD, _argument(0)),
        _instruction(_JEQ, 0, 0, 6),
        _instruction(_LD, _argument(1)),
        _instruction(_JEQ, rlimit_tag.RESOURCE, 0, 5),
        _instruction(_LD, _argument(2)),
        _instruction(_JEQ, 0, 0, 2),
        _instruction(_LD, _argument(2) + 4),
        _instruction(_JEQ, 0, 1, 0),
        _refuse(errno.EPERM),
        _instruction(_RET, _ALLOW),
    )
    code += _if_call(
        machine.setrlimit,
        _instruction(_LD, _argument(0)),
        _instruction(_JEQ, rlimit_tag.RESOURCE, 0, 1),
        _refuse(errno.EPERM),
        _instruction(_RET, _ALLOW),
    )
    code += _if_call(
        machine.fcntl,
        _instruction(_LD, _argument(1)),
        _instruction(_JEQ, _SETLEASE, 0, 1),
        _refuse(errno.EACCES),
        _instruction(_RET, _ALLOW),
    )
    if not metadata:
        code += _if_call(
            machine.ioctl,
            _instruction(_LD, _argument(1)),
            _instruction(_JEQ, _SETFLAGS, 1, 0),
            _instruction(_JEQ, _FSSETXATTR, 0, 1),
            _refuse(errno.EPERM),
            _instruction(_RET, _ALLOW),
        )
    else:
        code += _without_set_id(machine)
    # A datagram socket of a pair could send to any other.
    code += _if_call(
        machine.socketpair,
        _instruction(_LD, _argument(0)),
        _instruction(_JEQ, _AF_UNIX, 0, 4),
        _instruction(_LD, _argument(1)),
        _instruction(_AND, _TYPE),
        _instruction(_JEQ, _STREAM, 2, 0),
        _instruction(_JEQ, _SEQPACKET, 1, 0),
        _refuse(errno.EACCES),
        _instruction(_RET, _ALLOW),
    )
    if network == "proxy":
        code += _only_proxy(machine)
    elif network == "all":
        code += _if_call(
            machine.socket,
            _instruction(_LD, _argument(0)),
            _instruction(_JEQ, _AF_INET, 5, 0),
            _instruction(_JEQ, _AF_INET6, 4, 0),
            _instruction(_JEQ, _AF_NETLINK, 0, 2),
            _instruction(_LD, _argument(2)),
            _instruction(_JEQ, 0, 1, 0),  # routes only, for name resolution
            _refuse(errno.EACCES),
            _instruction(_RET, _ALLOW),
        )
    else:
        for number in (machine.socket, machine.connect):
            code += _if_call(number, _refuse(errno.EACCES))
    return b"".join((*code, _instruction(_RET, _ALLOW)))


def _without_set_id(machine: _Machine) -> list[bytes]:
    """Refuse modes with setuid or setgid, of files and of new ones."""
    code = _if_call(_OPENAT2, _refuse(errno.ENOSYS))
    for number, mode in machine.modes:
        code += _if_call(number, *_if_mode_is_safe(mode))
    for number, flags in machine.creating:
        code += _if_call(
            number,
            _instruction(_LD, _argument(flags)),
            _instruction(_JSET, _CREATES, 0, 3),
            *_if_mode_is_safe(flags + 1),
        )
    return code


def _if_mode_is_safe(position: int) -> list[bytes]:
    return [
        _instruction(_LD, _argument(position)),
        _instruction(_JSET, _SETS_ID, 0, 1),
        _refuse(errno.EPERM),
        _instruction(_RET, _ALLOW),
    ]


def _only_proxy(machine: _Machine) -> list[bytes]:
    """Leave sockets of TCP that the supervisor connects; data that opens a connection has a
    destination."""
    code = _if_call(
        machine.socket,
        _instruction(_LD, _argument(0)),
        _instruction(_JEQ, _AF_INET, 1, 0),
        _instruction(_JEQ, _AF_INET6, 0, 6),
        _instruction(_LD, _argument(1)),
        _instruction(_AND, _TYPE),
        _instruction(_JEQ, _STREAM, 0, 3),
        _instruction(_LD, _argument(2)),
        _instruction(_JEQ, 0, 2, 0),
        _instruction(_JEQ, _TCP, 1, 0),
        _refuse(errno.EACCES),
        _instruction(_RET, _ALLOW),
    )
    code += _if_call(machine.connect, _instruction(_RET, _ASK))
    code += _if_call(
        machine.seccomp,
        _instruction(_LD, _argument(1)),
        _instruction(_JSET, _NEW_LISTENER, 0, 1),
        _refuse(errno.EACCES),
        _instruction(_RET, _ALLOW),
    )
    code += _if_call(machine.setsockopt, *_without_routes())
    for number in machine.listening:
        code += _if_call(number, _refuse(errno.EACCES))
    for number, flags in machine.sending:
        code += _if_call(
            number,
            _instruction(_LD, _argument(flags)),
            _instruction(_JSET, _FASTOPEN, 0, 1),
            _refuse(errno.EACCES),
            _instruction(_RET, _ALLOW),
        )
    return code


def _without_routes() -> list[bytes]:
    code = []
    for level, options in _ROUTES:
        code += [
            _instruction(_LD, _argument(1)),
            _instruction(_JEQ, level, 0, len(options) + 3),
            _instruction(_LD, _argument(2)),
            *(
                _instruction(_JEQ, option, len(options) - at, 0)
                for at, option in enumerate(options)
            ),
            _instruction(_RET, _ALLOW),
            _refuse(errno.EACCES),
        ]
    return [*code, _instruction(_RET, _ALLOW)]


def _instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _refuse(code: int) -> bytes:
    return _instruction(_RET, _ERRNO | code)


def _if_call(number: int, *then: bytes) -> list[bytes]:
    return [_instruction(_JEQ, number, 0, len(then)), *then]


def _argument(index: int) -> int:
    return 16 + 8 * index
