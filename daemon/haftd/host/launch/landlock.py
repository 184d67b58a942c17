"""Landlock rulesets: rights on files for a process and all its descendants.

`Documentation/userspace-api/landlock.rst` is the reference. A ruleset is made and filled by the daemon;
the gate applies it to the child, which changes nothing for the daemon.

- A rule is tied to an inode that was open when the rule was made: later renames do not move it.
- Rights are added up along a path, never taken away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from functools import cache

from haftd.launch_spec import PROGRAM_FOLDERS, Grant, Sandbox

MIN_ABI = 3
"""Linux 6.2: before, nothing held back `truncate`."""

_CREATE_RULESET, _ADD_RULE, _OPENAT2 = 444, 445, 437  # the same numbers on every machine
_VERSION = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # DIR, REG, SOCK, FIFO, SYM
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_RIGHTS = {
    "read": READ_FILE | READ_DIR,
    "update": WRITE_FILE | TRUNCATE,
    # A move between two folders needs REFER at both ends, and never widens what may be done.
    "create": _MAKE | REFER,
    "delete": REMOVE_DIR | REMOVE_FILE | REFER,
    "execute": EXECUTE,
    "control": IOCTL_DEV,
}
_SCOPES = 1 | 2  # abstract sockets, signals

_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 2, 4, 8

_READ_EXECUTE = frozenset({"read", "execute"})
_READ_WRITE = frozenset({"read", "update"})
_ALWAYS = (
    *(Grant(path, _READ_EXECUTE) for path in PROGRAM_FOLDERS),
    Grant("/etc/ld.so.cache", frozenset({"read"})),
    Grant("/dev/null", _READ_WRITE),
    Grant("/dev/zero", _READ_WRITE),
    Grant("/dev/urandom", frozenset({"read"})),
    Grant("/dev/tty", _READ_WRITE | {"control"}),
)

_libc = ctypes.CDLL(None, use_errno=True)


class CannotEnforce(Exception):
    """A rule cannot be enforced here; the message names the rule and the reason."""


@cache
def abi() -> int:
    """Return the version of Landlock; 0 without."""
    found: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(found, 0)


def kernel() -> str:
    return f"Linux {os.uname().release}"


def require() -> None:
    """Raise `CannotEnforce` on a kernel without a Landlock that holds every right."""
    if abi() >= MIN_ABI:
        return
    has = f"has version {abi()} of Landlock" if abi() else "has no Landlock, or has it turned off"
    raise CannotEnforce(
        f"the rules `access.fs` need version {MIN_ABI} of Landlock (Linux 6.2); {kernel()} {has}"
    )


def _handled() -> int:
    last = {3: 14, 4: 14}.get(abi(), 15)
    return (1 << (last + 1)) - 1


def make_ruleset(sandbox: Sandbox, program: str, terminal: str = "") -> int:
    """Return the descriptor of a ruleset, close-on-exec, without the child's own /proc.

    `program` may be read and executed, `terminal` is the path of the child's terminal. Raises
    `CannotEnforce`.
    """
    require()
    attributes = struct.pack("=QQQ", _handled(), 0, _SCOPES)
    size = 24 if abi() >= 6 else 16 if abi() >= 4 else 8
    ruleset: int = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise CannotEnforce(f"{kernel()} makes no Landlock ruleset: {_last_error()}")
    try:
        if sandbox.grants is None:
            _add_path(ruleset, "/", _handled())
            return ruleset
        grants = sandbox.grants
        for grant in (*_ALWAYS, Grant(program, _READ_EXECUTE)):
            _add(ruleset, grant, sandbox, is_listed=False)
        if terminal:
            _add(ruleset, Grant(terminal, _READ_WRITE | {"control"}), sandbox, is_listed=False)
        for grant in grants:
            _add(ruleset, grant, sandbox, is_listed=True)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def add_own_proc(ruleset: int, pid: int) -> None:
    """Let the child read its own /proc: after the fork, as only then the pid is known."""
    _add_path(ruleset, f"/proc/{pid}", READ_FILE | READ_DIR)


def rights_of(names: Iterable[str]) -> int:
    rights = 0
    for name in names:
        rights |= _RIGHTS[name]
    return rights & _handled()


def _add(ruleset: int, grant: Grant, sandbox: Sandbox, *, is_listed: bool) -> None:
    try:
        fd = _open(grant.path, sandbox)
    except OSError as error:
        if error.errno == errno.ELOOP or (
            error.errno == errno.EXDEV and _changeable(grant.path, sandbox)
        ):
            raise CannotEnforce(
                f"the rule for {grant.path} goes through a link in a folder that the tool may change"
            ) from None
        if error.errno == errno.EXDEV:
            raise CannotEnforce(
                f"the rule for {grant.path} goes through a link that leads out of the root "
                f"{sandbox.root}; name the target by its absolute path"
            ) from None
        if is_listed and grant.rights & {"create", "update"}:
            raise CannotEnforce(
                f"the rule for {grant.path} grants writing, and Landlock needs the file or folder to "
                f"exist: {os.strerror(error.errno or 0).lower()}"
            ) from None
        return  # nothing there to be granted
    try:
        _add_fd(ruleset, fd, rights_of(grant.rights))
    finally:
        os.close(fd)


def _open(path: str, sandbox: Sandbox) -> int:
    """Open a path without following a link that the tool itself could have placed.

    Below a folder that the tool may change no link is followed; below the root, none that leads out.
    """
    if base := _changeable(path, sandbox):
        return _open_below(base, path, sandbox, _RESOLVE_NO_SYMLINKS)
    if _is_below(path, sandbox.root) and sandbox.root != "/":
        return _open_below(sandbox.root, path, sandbox, 0)
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _changeable(path: str, sandbox: Sandbox) -> str:
    """Return the outermost folder above the path that the tool may change; empty without one."""
    folders = [
        grant.path
        for grant in sandbox.grants or ()
        if grant.rights & {"create", "delete"} and _is_below(path, grant.path)
    ]
    return min(folders, key=len, default="")


def _open_below(base: str, path: str, sandbox: Sandbox, resolve: int) -> int:
    at_root = base == sandbox.root
    folder = os.open(base, os.O_PATH | os.O_CLOEXEC) if at_root else _open(base, sandbox)
    try:
        rest = path[len(base.rstrip("/")) + 1 :]
        how = struct.pack(
            "=QQQ",
            os.O_PATH | os.O_CLOEXEC,
            0,
            resolve | _RESOLVE_NO_MAGICLINKS | _RESOLVE_BENEATH,
        )
        fd: int = _libc.syscall(_OPENAT2, folder, os.fsencode(rest), how, ctypes.c_size_t(len(how)))
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
        return fd
    finally:
        os.close(folder)


def _is_below(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def _add_path(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _add_fd(ruleset, fd, rights)
    finally:
        os.close(fd)


def _add_fd(ruleset: int, fd: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _OF_FILES
    if not rights:
        return
    rule = struct.pack("=Qi", rights, fd)
    if _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) < 0:
        raise CannotEnforce(f"{kernel()} takes no Landlock rule: {_last_error()}")


def _last_error() -> str:
    return os.strerror(ctypes.get_errno()).lower()
