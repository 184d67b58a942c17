"""Landlock rulesets: rights on files for a process and all descendants
(`Documentation/userspace-api/landlock.rst`).

The daemon fills a ruleset; the gate applies it. A rule is tied to the inode: later renames do not
move it. Rights are added up along a path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from functools import cache

from haftd.host.launch.python_installation import python_grants
from haftd.host.launch.rule_path import UntrustedLink, open_path
from haftd.launch_spec import (
    NETWORK_FILES,
    PROGRAM_FOLDERS,
    SYSTEM_FILES,
    Grant,
    Sandbox,
    is_within,
)

MIN_ABI = 3
"""Linux 6.2: before, nothing held back `truncate`."""

_EXCHANGED = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a path whose folder became a link, or whose link became a folder, between two looks."""

_CREATE_RULESET, _ADD_RULE = 444, 445  # the same on every machine
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION of linux/landlock.h
_PATH_BENEATH = 1
# LANDLOCK_ACCESS_FS_… of linux/landlock.h.

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # DIR, REG, SOCK, FIFO, SYM
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_RIGHTS = {
    "read": READ_FILE | READ_DIR,
    "update": WRITE_FILE | TRUNCATE,
    # A move between folders needs REFER at both ends, and never widens rights.
    "create": _MAKE | REFER,
    "delete": REMOVE_DIR | REMOVE_FILE | REFER,
    "execute": EXECUTE,
    "control": IOCTL_DEV,
}
_SCOPES = 1 | 2  # abstract sockets, signals
_PORTS = 1 | 2  # bind and connect sockets of TCP, on top of the filter

_READ_EXECUTE = frozenset({"read", "execute"})
_READ_WRITE = frozenset({"read", "update"})
_READ = frozenset({"read"})
ALWAYS = (
    *(Grant(path, _READ_EXECUTE) for path in PROGRAM_FOLDERS),
    *(Grant(path, _READ) for path in SYSTEM_FILES),
    *(Grant(path, _READ) for path in ("/dev/urandom", "/dev/random")),
    *(Grant(path, _READ_WRITE) for path in ("/dev/null", "/dev/zero", "/dev/full")),
    Grant("/dev/tty", _READ_WRITE | {"control"}),
)
_OF_NETWORK = tuple(Grant(path, _READ) for path in NETWORK_FILES)
_VIRTUAL = (".venv/bin/python", "venv/bin/python")
"""Interpreters of virtual environments, from the root."""

_libc = ctypes.CDLL(None, use_errno=True)


class CannotEnforce(Exception):
    """Rule not enforceable here; the message names rule and reason."""


@cache
def abi() -> int:
    """Return Landlock's version; 0 without Landlock."""
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(version, 0)


def kernel() -> str:
    return f"Linux {os.uname().release}"


def require() -> None:
    """Raise `CannotEnforce` unless Landlock holds every right."""
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
    """Return a close-on-exec ruleset, which lacks the child's /proc (`add_own_proc`).

    `program` may be read and executed, `terminal` is the path of the child's terminal. Raises
    `CannotEnforce`.
    """
    require()
    ports = 0 if sandbox.network else _PORTS
    attributes = struct.pack("=QQQ", _handled(), ports, _SCOPES)
    size = 24 if abi() >= 6 else 16 if abi() >= 4 else 8
    ruleset: int = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise CannotEnforce(f"{kernel()} cannot make a Landlock ruleset: {_last_error()}")
    try:
        if sandbox.grants is None:
            _add_path(ruleset, "/", _handled())
        else:
            _fill(ruleset, sandbox, sandbox.grants, program, terminal)
    except OSError as error:
        os.close(ruleset)
        if error.errno not in _EXCHANGED:
            raise
        raise CannotEnforce(
            f"{error.filename or 'a path of its rules'} was exchanged while the rules were made: "
            f"{os.strerror(error.errno or 0).lower()}; start the tool again"
        ) from None
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _fill(
    ruleset: int, sandbox: Sandbox, grants: tuple[Grant, ...], program: str, terminal: str
) -> None:
    for grant in (*ALWAYS, *(_OF_NETWORK if sandbox.network or sandbox.is_proxied else ())):
        _add_always(ruleset, grant)
    if terminal:
        _add_always(ruleset, Grant(terminal, _READ_WRITE | {"control"}))
    granted = [(_add_listed(ruleset, grant, sandbox), grant) for grant in grants]
    _refuse_denied(sandbox, granted)
    folders = [path for path, grant in granted if path and grant.rights & {"create", "delete"}]
    _add_program(ruleset, program, folders)
    readable = [grant.path for grant in grants if "read" in grant.rights]
    programs = [
        path
        for path in (f"{sandbox.root.rstrip('/')}/{name}" for name in _VIRTUAL)
        if any(is_within(path, folder) for folder in readable)
    ]
    at = os.path.realpath(os.path.dirname(program))  # noqa: PTH120
    is_own_work = any(is_within(at, folder) for folder in folders)
    for grant in python_grants(program, programs, is_own_work=is_own_work):
        _add_unlinked(ruleset, grant)


def add_own_proc(ruleset: int, pid: int) -> None:
    """Let the child read its own /proc, once the pid is known."""
    _add_path(ruleset, f"/proc/{pid}", READ_FILE | READ_DIR)


def rights_of(names: Iterable[str]) -> int:
    """Return the bits of these rights, as far as this kernel knows them."""
    rights = 0
    for name in names:
        rights |= _RIGHTS[name]
    return rights & _handled()


def _add_listed(ruleset: int, grant: Grant, sandbox: Sandbox) -> str:
    """Add a rule's grant; return the path without links, empty if nothing is there."""
    is_in_root = is_within(grant.path, sandbox.root)
    try:
        fd, path = open_path(grant.path, start=sandbox.root if is_in_root else "/")
    except UntrustedLink as link:
        raise CannotEnforce(
            f"the rule for {grant.path} goes through the link {link}, which a tool of this user could have "
            "placed: name the target by its own path"
        ) from None
    except OSError as error:
        if grant.rights & {"create", "update"}:
            raise CannotEnforce(
                f"the rule for {grant.path} grants writing, and Landlock needs the file or folder to "
                f"exist: {os.strerror(error.errno or 0).lower()}"
            ) from None
        return ""
    try:
        if is_within(path, f"/proc/{os.getpid()}"):
            raise CannotEnforce(
                f"the rule for {grant.path} names files that differ for each process: a tool reads the /proc "
                "entries of its first process without a rule, and the entries of others with a rule for /proc"
            )
        if is_in_root and not is_within(path, os.path.realpath(sandbox.root)):
            raise CannotEnforce(
                f"the rule for {grant.path} goes through a link that leads out of the root "
                f"{sandbox.root}: name the target by its own path"
            )
        _add_fd(ruleset, fd, rights_of(grant.rights))
    finally:
        os.close(fd)
    return path


def _refuse_denied(sandbox: Sandbox, granted: list[tuple[str, Grant]]) -> None:
    for denial in sandbox.denials:
        path = os.path.realpath(denial.path)
        for folder, grant in (*((always.path, always) for always in ALWAYS), *granted):
            if folder and is_within(path, folder) and (lost := grant.rights & denial.rights):
                raise CannotEnforce(
                    f"the rule for {denial.path} denies {', '.join(sorted(lost))}, which is granted in "
                    f"{grant.path}; Landlock can only add rights: grant the folders separately instead"
                )


def _add_program(ruleset: int, program: str, folders: list[str]) -> None:
    """Let the tool read and execute its program, but no file behind a link that the tool could have made."""

    def follows(folder: str) -> bool:
        return not any(is_within(folder, changeable) for changeable in folders)

    try:
        fd, _ = open_path(program, follows=follows)
    except (OSError, UntrustedLink):
        return  # the execution reports the reason
    try:
        _add_fd(ruleset, fd, rights_of(_READ_EXECUTE))
    finally:
        os.close(fd)


def _add_unlinked(ruleset: int, grant: Grant) -> None:
    """Add a grant, unless a link that a tool could have placed leads to the path."""
    try:
        fd, _ = open_path(grant.path)
    except (OSError, UntrustedLink):
        return
    try:
        _add_fd(ruleset, fd, rights_of(grant.rights))
    finally:
        os.close(fd)


def _add_always(ruleset: int, grant: Grant) -> None:
    try:
        _add_path(ruleset, grant.path, rights_of(grant.rights))
    except OSError:
        pass  # not on this system


def _add_path(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH)
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
        raise CannotEnforce(f"{kernel()} refuses a Landlock rule: {_last_error()}")


def _last_error() -> str:
    return os.strerror(ctypes.get_errno()).lower()
