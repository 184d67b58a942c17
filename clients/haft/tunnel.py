"""Connections to other machines: a process's standard streams in place of the daemon's socket.

The process is ssh, or the relay to a WebSocket. One line announces the daemon; a login shell's
output before it is dropped. Exit status and errors give the reason when the connection is lost.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping

import msgspec

from haft_protocol.constants import PROTOCOL
from haft_protocol.paths import PathError, with_login_folder
from haft_protocol.runtime_paths import runtime_paths

from .addresses import Remote, Ssh, relay_command
from .errors import ConnectionLost, InvalidAddress, NotRunning, ProtocolFault, Unreachable
from .ssh import CONNECT_S, explain, ssh_command, ssh_program

ANNOUNCE_S = 30.0
"""Time for the login and the start of a daemon there."""

_MAX_NOISE = 1 << 16
"""Bytes that a login shell may print before the announcement."""
_MAX_ERRORS = 1 << 16
_MAX_CONTROL = 90
"""Bytes of the shared connection's path: ssh first binds one that is 17 longer."""
_EXIT_S = 2.0
"""Time for a process to exit once its output has ended."""
_NO_DAEMON = 3

_unreaped: set[int] = set()
"""Processes of closed connections, which end by themselves."""


class Announcement(msgspec.Struct, frozen=True):
    """The versions of the `haft` there, announced before the daemon's first byte."""

    haft: str
    protocol: int


def announcement(version: str) -> bytes:
    return msgspec.json.encode(Announcement(version, PROTOCOL)) + b"\n"


class Tunnel(socket.socket):
    """The end of a socket pair whose other end is a process's standard input and output."""

    def __init__(
        self, end: socket.socket, pid: int, errors: int, explain: Callable[[int, str], str]
    ) -> None:
        super().__init__(fileno=end.detach())
        self._pid: int | None = pid
        self._errors = errors
        self._explain = explain

    def close(self) -> None:
        super().close()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        if self._pid is not None:
            _unreaped.add(self._pid)
            self._pid = None
        _reap()

    def kill(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)

    def reason(self) -> tuple[int | None, str]:
        """Return the process's exit status and an explanation, once its output has ended; blocks
        for two seconds at most."""
        if self._pid is None:
            return None, "it was closed by the client itself"
        ending = os.pidfd_open(self._pid)
        try:
            has_ended = bool(select.select([ending], [], [], _EXIT_S)[0])
        finally:
            os.close(ending)
        if not has_ended:
            return None, "the program that carries it closed its output"
        _, encoded = os.waitpid(self._pid, 0)
        self._pid = None
        status = os.waitstatus_to_exitcode(encoded)
        errors = os.pread(
            self._errors, _MAX_ERRORS, max(0, os.fstat(self._errors).st_size - _MAX_ERRORS)
        )
        return status, self._explain(status, errors.decode(errors="replace"))


def open_tunnel(
    address: Remote, env: Mapping[str, str], *, may_start: bool, timeout: float | None = None
) -> Tunnel:
    """Connect to the daemon at an address; `may_start` one there by ssh.

    Raises `NotRunning` where none answers, `Unreachable` where the machine does not, after
    `timeout` seconds at most (by default 30).
    """
    bound = ANNOUNCE_S if timeout is None else timeout
    tunnel = _start(address, env, may_start=may_start, timeout=bound)
    try:
        _take_announcement(tunnel, address, bound)
    except BaseException:
        tunnel.kill()
        tunnel.close()
        raise
    return tunnel


def loss(connected: Tunnel) -> ConnectionLost:
    """Return the error for an ended connection; blocks for two seconds at most."""
    status, words = connected.reason()
    if status == _NO_DAEMON:
        return ConnectionLost(f"the daemon closed the connection; {words}")
    return ConnectionLost(f"the connection was lost: {words}")


def _start(address: Remote, env: Mapping[str, str], *, may_start: bool, timeout: float) -> Tunnel:
    if isinstance(address, Ssh):
        try:
            program = ssh_program(env)
        except ValueError:
            raise InvalidAddress("HAFT_SSH has a quote that is not closed") from None
        command = ssh_command(
            address,
            program,
            control=_control(address, env),
            may_start=may_start,
            connect_s=max(1, min(CONNECT_S, int(timeout))),
        )
        return _spawn(command, lambda status, errors: explain(address, status, errors))
    return _spawn(relay_command(address), lambda status, errors: _last(address, status, errors))


def _spawn(command: list[str], words: Callable[[int, str], str]) -> Tunnel:
    _reap()
    ours, theirs = socket.socketpair()
    errors = os.memfd_create("haft-errors")
    # Above the standard descriptors, which may be closed here and are set there.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (theirs.fileno(), errors)]
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, copies[0], 0),
                (os.POSIX_SPAWN_DUP2, copies[0], 1),
                (os.POSIX_SPAWN_DUP2, copies[1], 2),
            ],
            # Without the terminal's Ctrl-C, and without questions on it.
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT],
        )
    except OSError as fault:
        ours.close()
        os.close(errors)
        remedy = "; install the OpenSSH client, or name it in HAFT_SSH" if fault.errno == 2 else ""
        raise Unreachable(
            f"the program {command[0]!r} cannot be run: {os.strerror(fault.errno or 0)}{remedy}"
        ) from None
    finally:
        theirs.close()
        for fd in copies:
            os.close(fd)
    return Tunnel(ours, pid, errors, words)


def _take_announcement(tunnel: Tunnel, address: Remote, timeout: float) -> None:
    """Read up to the end of the announcement: the daemon sends nothing before a request."""
    deadline = time.monotonic() + timeout
    received = bytearray()
    while (announced := _announced(received)) is None:
        tunnel.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            data = tunnel.recv(4096) if time.monotonic() < deadline else None
        except TimeoutError:
            data = None
        except OSError:
            data = b""
        if data is None:
            raise Unreachable(f"{address.name} did not answer within {timeout:.0f} s")
        if not data:
            raise _refusal(*tunnel.reason())
        received += data
        if len(received) > _MAX_NOISE:
            raise ProtocolFault(
                f"{address.name} answers with {_MAX_NOISE >> 10} KiB of other text instead of haft's line; "
                "its login shell must print nothing when it has no terminal"
            )
    tunnel.settimeout(None)
    if announced.protocol != PROTOCOL:
        raise ProtocolFault(
            f"haft {announced.haft} on {address.name} speaks version {announced.protocol} of the protocol, and this haft "
            f"version {PROTOCOL}; install the same version on both machines"
        )


def _announced(received: bytearray) -> Announcement | None:
    if not received.endswith(b"\n"):
        return None
    line = received[:-1].rpartition(b"\n")[2]
    # Also after an unfinished line of the shell.
    begin = line.rfind(b'{"haft":')
    try:
        return msgspec.json.decode(line[begin:], type=Announcement) if begin >= 0 else None
    except msgspec.MsgspecError:
        return None


def _refusal(status: int | None, words: str) -> NotRunning | Unreachable:
    return NotRunning(words) if status == _NO_DAEMON else Unreachable(words)


def _last(address: Remote, status: int, errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    if lines and status in (1, _NO_DAEMON):
        return "".join(c if c.isprintable() else " " for c in lines[-1])[:600]
    return f"the relay to {address.name} ended with status {status}"


def _control(address: Ssh, env: Mapping[str, str]) -> str | None:
    from hashlib import sha256

    try:
        own = {key: value for key, value in env.items() if key != "HAFT_SOCKET"}
        login_env = with_login_folder(own, os.getuid(), os.lstat)
        folder = runtime_paths(login_env, os.getuid()).folder
    except PathError:
        return None
    identity = f"{env.get('HAFT_SSH', '')}\0{address.name}"
    path = f"{folder}/ssh-{sha256(identity.encode(errors='surrogateescape')).hexdigest()[:16]}"
    if len(os.fsencode(path)) > _MAX_CONTROL or not _is_private(folder):
        return None
    return path


def _is_private(folder: str) -> bool:
    """Make a missing folder; return True if it is this user's alone."""
    try:
        try:
            os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib costs 5 ms of every command
        except FileExistsError:
            pass
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170077 == 0o040000


def _reap() -> None:
    for pid in tuple(_unreaped):
        try:
            _unreaped.remove(pid)  # first: of several threads one takes it
        except KeyError:
            continue
        try:
            has_ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            has_ended = True
        if not has_ended:
            _unreaped.add(pid)
