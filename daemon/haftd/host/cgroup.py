"""One child cgroup (version 2) per handle, where permitted.

`cgroup.kill` is repeated until the cgroup is empty, for children that join after a write.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from haftd.named_tuple import NamedTuple

PREFIX = "haft-"


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _list_mounts(controller: str = "") -> Iterator[tuple[str, str]]:
    """Yield (root, mount point) of each hierarchy of version 2, or of a controller's of version 1."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = os.fsdecode(line.rstrip(b"\n")).split(" ")
            kind = fields[fields.index("-") + 1 :] if "-" in fields else []
            is_wanted = kind[:1] == ["cgroup2"]
            if controller:
                is_wanted = kind[:1] == ["cgroup"] and controller in kind[-1].split(",")
            if is_wanted:
                yield _unescape(fields[3]), _unescape(fields[4])


def _read_own_path(controller: str = "") -> str | None:
    try:
        with open("/proc/self/cgroup", "rb") as file:
            for line in file:
                _, controllers, path = os.fsdecode(line.rstrip(b"\n")).split(":", 2)
                if controller in controllers.split(","):
                    return path
    except OSError:
        pass
    return None


def find_own_cgroup(controller: str = "") -> Path | None:
    """Return the folder of this process's cgroup of version 2, or of version 1 in a controller's
    hierarchy; None where there is none, or none that is visible here."""
    own = _read_own_path(controller)
    if own is None or own.startswith("/.."):
        return None
    for root, point in _list_mounts(controller):
        if root == "/" or own == root or own.startswith(root + "/"):
            inner = own if root == "/" else own[len(root) :]
            folder = Path(point + inner) if inner not in ("", "/") else Path(point)
            if (folder / "cgroup.procs").exists():
                return folder
    return None


def _is_root(folder: Path) -> bool:
    # Both files exist in every cgroup but the root.
    return not (folder / "cgroup.events").exists()


def _is_delegated(folder: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def find_base(setting: str, *, declared: bool = False) -> Path | None:
    """Return the parent cgroup for handles, None if there is none. `setting`: `auto` for the daemon's own
    cgroup, if that is delegated and writable, `off`, or a path.

    `declared`: by the service manager, as older systemd set no attribute for a user's units. Raises
    OSError if a path is not a writable cgroup of version 2.
    """
    if setting == "off":
        return None
    if setting == "auto":
        own = find_own_cgroup()
        usable = own is not None and not _is_root(own) and (declared or _is_delegated(own))
        return own if usable and own is not None and os.access(own, os.W_OK) else None
    base = Path(setting)
    if not base.is_absolute() or not (base / "cgroup.procs").exists():
        raise FileNotFoundError(f"{setting} is not a cgroup of version 2")
    if not any(base.is_relative_to(point) for _, point in _list_mounts()):
        raise FileNotFoundError(f"{setting} is not in a cgroup hierarchy of version 2")
    if not os.access(base, os.W_OK):
        raise PermissionError(f"{setting} is not writable")
    return base


class Cgroup(NamedTuple):
    path: Path

    @classmethod
    def create(cls, base: Path, name: str) -> Cgroup:
        path = base / (PREFIX + name)
        path.mkdir(mode=0o755)
        return cls(path)

    @property
    def name(self) -> str:
        return self.path.name.removeprefix(PREFIX)

    def add(self, pid: int) -> None:
        """Move a process into the cgroup; raise ProcessLookupError, OSError."""
        with open(self.path / "cgroup.procs", "wb", buffering=0) as file:
            file.write(b"%d" % pid)

    def procs(self) -> list[int]:
        """Return the pids here and below, without processes of other pid namespaces."""
        pids: list[int] = []
        for folder in self._walk_tree():
            with contextlib.suppress(OSError):
                text = (folder / "cgroup.procs").read_bytes()
                pids += [int(line) for line in text.split() if line != b"0"]
        return pids

    def is_populated(self) -> bool:
        """True if a living process is here or below, also one of another pid namespace."""
        events = self._read_events()
        # Version 1 has no events.
        return b"populated 1" in events if events else bool(self.procs())

    def is_frozen(self) -> bool:
        """True once all processes have stopped; False in version 1."""
        return b"frozen 1" in self._read_events()

    def _read_events(self) -> bytes:
        try:
            return (self.path / "cgroup.events").read_bytes()
        except OSError:
            return b""

    def holds_self(self) -> bool:
        """True if this very process is in the cgroup or below."""
        own = find_own_cgroup()
        return own is not None and own.is_relative_to(self.path)

    def kill(self) -> None:
        """Kill every process once, without waiting."""
        if self.holds_self():
            raise AssertionError("the cgroup to kill has this process in it")
        try:
            (self.path / "cgroup.kill").write_bytes(b"1")
        except FileNotFoundError:
            self._kill_each()  # no cgroup.kill before Linux 5.14
        except OSError:
            self._kill_each()  # refused by a threaded cgroup

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the cgroup during the context (Linux 5.2); signals stay pending."""
        self._freeze(b"1")
        try:
            yield
        finally:
            self._freeze(b"0")

    def _freeze(self, state: bytes) -> None:
        with contextlib.suppress(OSError):
            (self.path / "cgroup.freeze").write_bytes(state)

    def empty(self, timeout_s: float) -> bool:
        """Kill until no process is left, and block for at most `timeout_s`; return True if none is."""
        deadline = time.monotonic() + timeout_s
        while True:
            events = self._open_events()
            try:
                if not self.is_populated():
                    return True
                self.kill()
                left_s = deadline - time.monotonic()
                if self.is_populated():
                    if left_s <= 0:
                        return False
                    poll = select.poll()
                    if events is not None:
                        poll.register(events, select.POLLPRI)
                    # Bounded for a child that joined unseen.
                    poll.poll(min(left_s, 0.02) * 1000)
            finally:
                if events is not None:
                    os.close(events)

    def remove(self) -> bool:
        """Remove the cgroup and those below; return False if one has a process left."""
        for folder in reversed(list(self._walk_tree())):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not self.path.exists()

    def _open_events(self) -> int | None:
        """Open `cgroup.events`, of which POLLPRI reports each later change; None without the file."""
        try:
            fd = os.open(self.path / "cgroup.events", os.O_RDONLY)
        except OSError:
            return None
        os.read(fd, 4096)  # POLLPRI reports changes after this read
        return fd

    def _walk_tree(self) -> Iterator[Path]:
        for folder, below, _files in os.walk(self.path):
            below.sort()
            yield Path(folder)

    def _kill_each(self) -> None:
        for pid in self.procs():
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                # Listed with the pidfd open: the process is a member, and its pid not reused.
                if pid in self.procs():
                    with contextlib.suppress(OSError):
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)


def is_ours(path: Path, home: str) -> bool:
    """True if an instance of `home` made this cgroup."""
    named = path.is_absolute() and path.name.startswith(f"{PREFIX}{home}.")
    if not named or ".." in path.parts or not (path / "cgroup.events").exists():
        return False
    return any(path.is_relative_to(point) for _, point in _list_mounts())


def leftovers(base: Path, home: str) -> list[Cgroup]:
    """Return the cgroups below `base` that a daemon of `home` has made."""
    prefix = f"{PREFIX}{home}."
    try:
        return [Cgroup(path) for path in sorted(base.iterdir()) if path.name.startswith(prefix)]
    except OSError:
        return []
