"""Files below a folder, by openat2(2) and renameat2(2), which Python lacks.

No `..`, link or mount of /proc leads out. `pin` never blocks or acts on a device.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276}
_OPENAT2 = 437  # the same on every machine
_NO_REPLACE = 1  # RENAME_NOREPLACE of linux/fs.h
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 2, 4, 8  # RESOLVE_… of linux/openat2.h
_MAX_TRIES = 128
"""Calls until one succeeds: a rename during resolution makes the kernel give up (EAGAIN)."""
_OF_KERNEL = frozenset(
    [
        *(0x9FA0, 0x62656572, 0x64626720, 0x73636673, 0x74726163, 0x6165676C, 0x27E0EB),
        *(0x63677270, 0xCAFE4A11, 0x1CD1, 0x62656570, 0xDE5E81E4, 0xF97CFF8C),
    ]
)
"""Magic numbers (statfs(2)) of proc, sysfs, debugfs, securityfs, tracefs, pstore, cgroup, cgroup2,
bpf, devpts, configfs, efivarfs, selinuxfs."""

_libc = ctypes.CDLL(None, use_errno=True)


def pin(folder: int, path: str, *, follow: bool = True, is_folder: bool = False) -> int:
    """Return an `O_PATH` descriptor of `path` below `folder`; raise OSError, EXDEV for a way out.

    Without `follow`, no link is followed, and a final link opened itself.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    flags |= os.O_DIRECTORY if is_folder else 0
    flags |= 0 if follow else os.O_NOFOLLOW
    resolve = _NO_MAGICLINKS | _BENEATH | (0 if follow else _NO_SYMLINKS)
    how = struct.pack("=QQQ", flags, 0, resolve)
    name = os.fsencode(path or ".")
    for _ in range(_MAX_TRIES):
        fd: int = _libc.syscall(_OPENAT2, folder, name, how, ctypes.c_size_t(len(how)))
        if fd >= 0:
            return fd
        if (code := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def reopen(pinned: int, flags: int) -> int:
    """Open a pinned file with these flags, never as controlling terminal, and without waiting for the
    other end of a FIFO. Raises OSError."""
    more = os.O_NONBLOCK | os.O_NOCTTY
    return os.open(f"/proc/self/fd/{pinned}", flags | more)


def real_path(fd: int) -> str:
    """Return an open file's path without links; raise FileNotFoundError for a deleted file."""
    path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    if path.endswith(" (deleted)") and not os.fstat(fd).st_nlink:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return path


def is_of_kernel(fd: int) -> bool:
    """True for a file on a file system of kernel state. Raises OSError."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    (magic,) = struct.unpack_from("=q", buffer)
    return magic & 0xFFFFFFFF in _OF_KERNEL


def rename(
    old_folder: int, old_name: str, new_folder: int, new_name: str, *, replace: bool
) -> None:
    """Rename between two open folders. Raises OSError: without `replace`, EEXIST for an existing target,
    and ENOSYS on a machine whose number of renameat2(2) is not listed."""
    if replace:
        os.rename(old_name, new_name, src_dir_fd=old_folder, dst_dir_fd=new_folder)
        return
    number = _RENAMEAT2.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result: int = _libc.syscall(
        number,
        old_folder,
        os.fsencode(old_name),
        new_folder,
        os.fsencode(new_name),
        _NO_REPLACE,
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), old_name)
