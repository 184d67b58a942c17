"""Supervisor of `connect` (seccomp_unotify(2)): sockets of a sandbox reach haft's proxy only.

The supervisor connects a copy of the caller's socket (pidfd_getfd(2)) itself: a continued call
could have another address. A thread takes the steps, which the caller can draw out, one question of
a sandbox at a time. Needs Linux 5.14 and the right to trace the child; otherwise (Yama, a
container) the tool is refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct

import trio

from haftd.host.launch import landlock
from haftd.host.process.status import read_status
from haftd.named_tuple import NamedTuple

_PIDFD_GETFD = 438  # the same on every machine
_PIDFD_THREAD = os.O_EXCL  # linux/pidfd.h
_RECV, _SEND, _ID_VALID = (
    0xC0502100,
    0xC0182101,
    0x40082102,
)  # SECCOMP_IOCTL_NOTIF_… of linux/seccomp.h
_MAX_ADDRESS = 128  # bytes of struct sockaddr_storage
_LISTENER = "anon_inode:seccomp notify"
_LOOPBACK = "127.0.0.1"

_libc = ctypes.CDLL(None, use_errno=True)


class _Question(NamedTuple):
    id: int
    tid: int
    fd: int
    address: int
    size: int


class _Connected(NamedTuple):
    """A connection's error, and the copy of a socket, which blocks or does not."""

    code: int
    is_blocking: bool
    sock: socket.socket | None


def take_listener(pid: int, pidfd: int) -> int:
    """Return a copy of the descriptor at which the gate's filter asks. Raises `CannotEnforce`."""
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            if os.readlink(f"/proc/{pid}/fd/{name}") == _LISTENER:  # noqa: PTH115
                return _copy(pidfd, int(name))
        why = "the process has no notification descriptor"
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
    raise landlock.CannotEnforce(
        "the rules `access.net` for single hosts need to supervise `connect` (seccomp user notification and "
        f"pidfd_getfd, with the right to trace a child); {landlock.kernel()} refuses: {why}"
    )


async def supervise(listener: int, port: int) -> None:
    """Answer until no process of the sandbox is left; `port` is the proxy's."""
    one_at_a_time = trio.CapacityLimiter(1)
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            events = _events(listener)
            # Without a question the request would wait: before Linux 6.11 for ever, with no process
            # left.
            question = _receive(listener) if events & select.POLLIN else None
            if question is not None:
                await _answer(listener, question, port, nursery, one_at_a_time)
            elif events & select.POLLHUP:
                break


def _receive(listener: int) -> _Question | None:
    """Take the next question, a struct seccomp_notif; None if its caller has been killed meanwhile."""
    buffer = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECV, buffer)
    except OSError:
        return None  # the caller was killed
    id_, tid, _, _, _, _, fd, address, size = struct.unpack_from("=QIIiIQQQQ", buffer)
    return _Question(id_, tid, fd & 0xFFFFFFFF, address, size & 0xFFFFFFFF)


async def _answer(
    listener: int,
    question: _Question,
    port: int,
    nursery: trio.Nursery,
    limiter: trio.CapacityLimiter,
) -> None:
    own = os.dup(listener)  # an abandoned thread outlives the supervision

    def connect() -> _Connected:
        try:
            return _connected(own, question, port)
        finally:
            os.close(own)

    connected = await trio.to_thread.run_sync(connect, abandon_on_cancel=True, limiter=limiter)
    if connected.sock is not None and connected.code == errno.EINPROGRESS and connected.is_blocking:
        nursery.start_soon(_finish, listener, question.id, connected.sock)
        return
    if connected.sock is not None:
        connected.sock.close()
    _reply(listener, question.id, connected.code)


def _connected(listener: int, question: _Question, port: int) -> _Connected:
    """Connect a copy of the caller's socket, if it may; blocks while the caller's memory is slow."""
    sock: socket.socket | None = None
    try:
        if not is_proxy(_wanted_address(question), port):
            raise OSError(errno.EACCES, "")
        sock = _copied_socket(question)
        # No later step depends on the caller's identity.
        fcntl.ioctl(listener, _ID_VALID, struct.pack("=Q", question.id))
        code, is_blocking = _connect(sock, port)
    except OSError as error:
        code, is_blocking = error.errno or errno.EACCES, False
    return _Connected(code, is_blocking, sock)


async def _finish(listener: int, id_: int, sock: socket.socket) -> None:
    with sock:
        await trio.lowlevel.wait_writable(sock)
        _reply(listener, id_, sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def _reply(listener: int, id_: int, code: int) -> None:
    with contextlib.suppress(OSError):  # the caller may be gone
        fcntl.ioctl(listener, _SEND, bytearray(struct.pack("=QqiI", id_, 0, -code, 0)))


def is_proxy(address: bytes, port: int) -> bool:
    """True for the proxy's `sockaddr`, of IPv4 or mapped into IPv6."""
    (family,) = struct.unpack_from("=H", address) if len(address) >= 2 else (0,)
    if family == socket.AF_INET and len(address) >= 8:
        return address[2:8] == struct.pack(">H4s", port, socket.inet_aton(_LOOPBACK))
    if family == socket.AF_INET6 and len(address) >= 24:
        mapped = socket.inet_pton(socket.AF_INET6, f"::ffff:{_LOOPBACK}")
        return address[2:4] == struct.pack(">H", port) and address[8:24] == mapped
    return False


def _wanted_address(question: _Question) -> bytes:
    """Read the `sockaddr` from the caller's memory. Raises OSError with the errno for the caller."""
    if not 0 < question.size <= _MAX_ADDRESS:
        raise OSError(errno.EINVAL, "")
    memory = os.open(f"/proc/{question.tid}/mem", os.O_RDONLY)
    try:
        return os.pread(memory, question.size, question.address)
    except (OSError, OverflowError):
        raise OSError(errno.EFAULT, "") from None
    finally:
        os.close(memory)


def _copied_socket(question: _Question) -> socket.socket:
    pidfd = _pidfd_of(question.tid)
    try:
        fd = _copy(pidfd, question.fd)
    finally:
        os.close(pidfd)
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        raise
    if sock.type != socket.SOCK_STREAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
        sock.close()
        raise OSError(errno.EACCES, "")
    return sock


def _pidfd_of(tid: int) -> int:
    """Open a thread (Linux 6.9), or its process, which usually shares the descriptors."""
    try:
        return os.pidfd_open(tid, _PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    status = read_status(tid)
    if status is None:
        raise OSError(errno.ESRCH, "")
    return os.pidfd_open(status.number(b"Tgid"))


def _connect(sock: socket.socket, port: int) -> tuple[int, bool]:
    """Return the connection's error without waiting, and True if the caller's socket blocks."""
    host = _LOOPBACK if sock.family == socket.AF_INET else f"::ffff:{_LOOPBACK}"
    flags = fcntl.fcntl(sock, fcntl.F_GETFL)
    is_blocking = not flags & os.O_NONBLOCK
    # The flag is also the caller's, and is restored immediately.
    fcntl.fcntl(sock, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        return sock.connect_ex((host, port)), is_blocking
    finally:
        fcntl.fcntl(sock, fcntl.F_SETFL, flags)


def _events(listener: int) -> int:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return sum(events for _, events in poll.poll(0))


def _copy(pidfd: int, fd: int) -> int:
    copied: int = _libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
    if copied < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return copied
