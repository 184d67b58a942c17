"""Resolve a command to a program, and explain failed executions.

The kernel decides on a file's format: an earlier check would refuse formats of binfmt_misc and race
with changes. Empty, `.` and relative entries of PATH are skipped: the daemon's folder never
decides.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from haftd.host.files.regular import open_regular

Reason = Literal[
    "program",
    "folder",
    "interpreter",
    "size",
    "permission",
    "resources",
    "record",
    "format",
    "sandbox",
]

MAX_WORD = 131_071
"""Bytes of the longest argument or NAME=value: 32 pages less the NUL (execve(2))."""


class LaunchFailed(Exception):
    """Program not started; `message` has no value of the environment."""

    def __init__(
        self, message: str, reason: Reason, *, descriptors_exhausted: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason: Reason = reason
        self.descriptors_exhausted = descriptors_exhausted
        """None left, in the daemon or the system."""


class Missing(LaunchFailed):
    """No runnable program, detected before the start."""


def check_words(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise `Missing` for arguments or variables that execve(2) does not take."""
    if not argv or not argv[0]:
        raise Missing("The command is empty: name a program to run.", "program")
    if _are_plain(argv, env):
        return
    for number, word in enumerate(argv):
        size = _size(word, f"Argument {number}")
        if size > MAX_WORD:
            raise Missing(
                f"Argument {number} has {size:,} bytes; Linux allows {MAX_WORD:,} at most: "
                "pass it through a file or the standard input.",
                "size",
            )
    for name, value in env.items():
        if not name or "=" in name:
            raise Missing(f"{name!r} cannot be the name of an environment variable.", "program")
        size = _size(name, "The name of an environment variable") + 1
        size += _size(value, f"The environment variable {name}")
        if size > MAX_WORD:
            raise Missing(
                f"The environment variable {name} has {size:,} bytes with its name; "
                f"Linux allows {MAX_WORD:,} at most.",
                "size",
            )


def _are_plain(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    text = "\0".join((*argv, *env, *env.values()))
    return (
        len(text) < MAX_WORD
        and text.isascii()
        and text.count("\0") == len(argv) + 2 * len(env) - 1
        and "" not in env
        and "=" not in "".join(env)
    )


def _size(word: str, subject: str) -> int:
    """Return the bytes of a word. Raises `Missing` for a word that execve(2) cannot take."""
    if "\0" in word:
        raise Missing(
            f"{subject} has a NUL character, which cannot be passed to a program.", "program"
        )
    if word.isascii():
        return len(word)
    try:
        return len(os.fsencode(word))
    except UnicodeEncodeError:
        raise Missing(f"{subject} holds half a character (a lone surrogate).", "program") from None


def resolve(argv0: str, env_path: str | None, cwd: str) -> str:
    """Return the absolute path of `argv0` for a child in `cwd`; `env_path` is the child's PATH.

    Raises `Missing` with the reason `folder`, `program` or `permission`.
    """
    check_folder(cwd)
    _size(argv0, "The name of the program")
    if "/" in argv0:
        # Not normalised: the kernel follows `link/..`.
        path = os.path.join(cwd, argv0.removeprefix("./"))  # noqa: PTH118 - text in, text out
        problem = _unfit(path)
        if problem is not None and "~" in argv0.split("/"):
            raise Missing(
                f"{problem} No shell expands `~` in a command: write the path of the home folder.",
                problem.reason,
            )
        if problem is not None:
            raise problem
        return path
    searched = [folder + argv0 for folder in _folders(os.defpath if env_path is None else env_path)]
    for path in searched:
        if os.access(path, os.X_OK) and _unfit(path, is_executable=True) is None:
            return path
    for path in searched:
        problem = _unfit(path)
        if problem is None:
            return path
        if problem.reason == "permission":
            raise problem
    place = (
        f"the {len(searched)} folders of its PATH"
        if searched
        else "its PATH, which has no absolute folder"
    )
    raise Missing(
        f"There is no program {argv0!r} in {place}. "
        "Install it, name it by its full path, or give another PATH in `env`.",
        "program",
    )


@lru_cache(maxsize=8)
def _folders(env_path: str) -> tuple[str, ...]:
    """Return the absolute folders of a PATH, each with a slash at its end."""
    folders = env_path.split(os.pathsep)
    return tuple(f"{folder.rstrip('/')}/" for folder in folders if folder.startswith("/"))


def check_folder(cwd: str) -> None:
    """Raise `Missing` with the reason `folder` unless a child can start in this folder."""
    if "\0" in cwd:
        raise Missing("The folder's name has a NUL character.", "folder")
    if not cwd.startswith("/"):
        raise Missing(f"The folder {cwd!r} to start in is not an absolute path.", "folder")
    try:
        mode = os.stat(cwd).st_mode  # noqa: PTH116 - half the time of Path.stat
    except OSError as error:
        raise Missing(
            f"Cannot start in the folder {cwd}: {_words(error.errno)}.", "folder"
        ) from None
    if not stat.S_ISDIR(mode):
        raise Missing(f"Cannot start in {cwd}: it is not a folder.", "folder")
    if not os.access(cwd, os.X_OK):
        raise Missing(
            f"Cannot start in the folder {cwd}: there is no permission to enter it.", "folder"
        )


def _unfit(path: str, *, is_executable: bool = False) -> Missing | None:
    """Return the error of a file that cannot be executed; None for a regular, executable file."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - half the time of Path.stat
    except PermissionError:
        return Missing(
            f"There is no permission to enter a folder on the way to {path}.", "permission"
        )
    except OSError as error:
        return Missing(f"There is no program {path}: {_words(error.errno)}.", "program")
    if stat.S_ISDIR(mode):
        return Missing(f"{path} is a folder, not a program.", "program")
    if not stat.S_ISREG(mode):
        return Missing(f"{path} is not a file that can be run.", "permission")
    if not is_executable and not os.access(path, os.X_OK):
        return Missing(f"{path} is not executable; `chmod +x` makes it so.", "permission")
    return None


def explain(code: int, path: str, cwd: str) -> LaunchFailed:
    """Return the error for the errno of an execve(2) of `path` in `cwd`, with the cause that the files
    show now."""
    if code in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG):
        return _explain_path(code, path, cwd)
    if code == errno.ENOEXEC or code == errno.ELIBBAD:
        return LaunchFailed(
            f"{path} has no format that this machine can run: it is neither a program built for it, "
            "nor a script that begins with #!.",
            "format",
        )
    if code == errno.E2BIG:
        return LaunchFailed(
            "The arguments and the environment together are larger than Linux allows: "
            "pass the bulk through a file or the standard input.",
            "size",
        )
    if code == errno.ETXTBSY:
        return LaunchFailed(f"{path} is open for writing; try again.", "program")
    if code in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC):
        return LaunchFailed(f"The system cannot start {path} now: {_words(code)}.", "resources")
    if code == errno.EPERM:
        return LaunchFailed(f"The system does not permit {path} to be run.", "permission")
    return LaunchFailed(f"{path} cannot be run: {_words(code)}.", "program")


def explain_start(error: OSError, path: str) -> LaunchFailed:
    """Translate an error before the execution, mostly a shortage: of processes, memory or descriptors."""
    if error.errno == errno.E2BIG:  # of posix_spawn, as of execve
        return explain(error.errno, path, "")
    place = f" ({error.filename})" if error.filename else ""
    return LaunchFailed(
        f"The system cannot start {path} now: {_words(error.errno)}{place}.",
        "resources",
        descriptors_exhausted=error.errno in (errno.EMFILE, errno.ENFILE),
    )


def explain_sandbox(why: str) -> LaunchFailed:
    """Return the error of a sandbox that the system cannot enforce."""
    return LaunchFailed(
        f"The tool's sandbox cannot be enforced, so nothing was run: {why}.", "sandbox"
    )


def _explain_path(code: int, path: str, cwd: str) -> LaunchFailed:
    problem = _unfit(path)
    if problem is not None:
        return LaunchFailed(problem.message, problem.reason)
    interpreter = interpreter_of(path)
    if interpreter is not None:
        full = os.path.join(cwd, interpreter)  # noqa: PTH118 - text in, text out
        problem = _unfit(full)
        if problem is not None and code != errno.EACCES:
            hint = " Its lines end in CR LF." if interpreter.endswith("\r") else ""
            return LaunchFailed(
                f"{path} needs the interpreter {interpreter!r}, which does not exist.{hint}",
                "interpreter",
            )
        if problem is not None:
            return LaunchFailed(
                f"{path} needs the interpreter {interpreter!r}, which is not executable.",
                "permission",
            )
    try:
        if os.statvfs(path).f_flag & os.ST_NOEXEC:
            return LaunchFailed(
                f"{path} is on a file system that is mounted noexec: nothing on it can be run.",
                "permission",
            )
    except OSError:
        pass
    reason: Reason = "permission" if code == errno.EACCES else "program"
    return LaunchFailed(f"{path} cannot be run: {_words(code)}.", reason)


def interpreter_of(path: str) -> str | None:
    """Return the interpreter of `path`: after #!, or an ELF file's loader; None without one, and for an
    unreadable file."""
    try:
        # A tool may put a FIFO there at any moment.
        with open_regular(path) as file:
            head = file.read(4096)
            if head.startswith(b"#!"):
                return os.fsdecode(_first_word(head)) or None
            if head.startswith(b"\x7fELF") and len(head) >= 64:
                return _loader(head)
    except OSError:
        pass
    return None


def _first_word(head: bytes) -> bytes:
    # Only space and tab end the kernel's word: a CR is part of the name.
    line = head[2:].split(b"\n", 1)[0].lstrip(b" \t")
    return line.split(b"\0")[0].replace(b"\t", b" ").split(b" ", 1)[0]


def _loader(head: bytes) -> str | None:
    """Return the loader (PT_INTERP of elf(5)) that the first bytes of an ELF file name, as they do in
    practice; None without one."""
    wide = head[4] == 2
    order = "<" if head[5] == 1 else ">"
    try:
        if wide:
            (offset,) = struct.unpack_from(order + "Q", head, 32)
            size, count = struct.unpack_from(order + "HH", head, 54)
        else:
            (offset,) = struct.unpack_from(order + "I", head, 28)
            size, count = struct.unpack_from(order + "HH", head, 42)
        for number in range(min(count, 64)):
            at = offset + number * size
            if struct.unpack_from(order + "I", head, at)[0] != 3:
                continue
            if wide:
                (begin,) = struct.unpack_from(order + "Q", head, at + 8)
                (length,) = struct.unpack_from(order + "Q", head, at + 32)
            else:
                begin, _, _, length = struct.unpack_from(order + "IIII", head, at + 4)
            return os.fsdecode(head[begin : begin + length].split(b"\0")[0]) or None
    except (struct.error, OverflowError):
        pass  # not a valid ELF file
    return None


def _words(code: int | None) -> str:
    text = os.strerror(code) if code else "unknown error"
    return text[0].lower() + text[1:]
