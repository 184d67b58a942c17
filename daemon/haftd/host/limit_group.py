"""Limits that the kernel counts: controllers `pids` and `memory` of a handle's cgroup.

Version 2: the daemon moves into a child, as a cgroup with controllers below holds no process.
Version 1: `pids` only, and only without a service manager, as in a container. Events of the limit
are in files; the counts of version 1 wake no reader, and are polled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from haftd.host.cgroup import PREFIX, Cgroup, find_own_cgroup
from haftd.named_tuple import NamedTuple

_LEAF = "haftd"
_PAUSE_S = (0.02, 2.0)
"""First and longest pause between looks at the events of version 1; each is twice the last."""
_SYSTEMD = Path("/run/systemd/system")  # as sd_booted(3)
_LIMITS: Final = {"processes": "pids", "memory": "memory"}
_EVENTS: Final = {"pids.events": ("processes", "max"), "memory.events": ("memory", "oom_kill")}


class Controllers(NamedTuple):
    """Folder for limited handles' cgroups, and its controllers."""

    base: Path
    names: frozenset[str]
    is_version_1: bool = False

    def make_group(
        self, mark: str, limits: Mapping[str, float], own: Cgroup | None
    ) -> LimitGroup | None:
        """Return the group that counts for these limits, with the limits set; None if the kernel counts
        none of them here.

        `own` is the handle's cgroup of version 2; in version 1 a cgroup is made. Raises OSError.
        """
        counted = {
            limit: int(limits[limit])
            for limit, name in _LIMITS.items()
            if limit in limits and name in self.names
        }
        if not counted or (own is None and not self.is_version_1):
            return None
        group = Cgroup.create(self.base, mark) if own is None or self.is_version_1 else own
        try:
            return LimitGroup(group, counted, is_separate=group is not own).set_limits()
        except OSError:
            if group is not own:
                group.remove()
            raise


class Containment(NamedTuple):
    """Cgroups of a daemon's handles."""

    base: Path | None = None
    """Parent in version 2."""
    controllers: Controllers | None = None

    @property
    def parents(self) -> tuple[Path, ...]:
        """Return the folders where a previous daemon may have left cgroups."""
        bases = (self.base, None if self.controllers is None else self.controllers.base)
        return tuple(dict.fromkeys(folder for folder in bases if folder is not None))


class LimitGroup:
    """Cgroup that counts for a handle; `is_separate`: it is not the cgroup of the handle's processes."""

    def __init__(self, cgroup: Cgroup, limits: Mapping[str, int], *, is_separate: bool) -> None:
        self.cgroup = cgroup
        self.limits = limits
        self.is_separate = is_separate
        self._earlier: dict[str, int] = {}
        """Events of earlier runs, by file."""

    def set_limits(self) -> LimitGroup:
        """Set the limits; raise OSError."""
        for limit, most in self.limits.items():
            self._write(f"{_LIMITS[limit]}.max", b"%d" % most)
        if "memory" in self.limits:
            # Swapped memory would escape the limit, and one killed process of several leave an
            # unknown state.
            for file, value in (("memory.swap.max", b"0"), ("memory.oom.group", b"1")):
                with contextlib.suppress(OSError):
                    self._write(file, value)
        return self

    def add(self, pid: int) -> None:
        """Move a run's leader into the group and permit forks again; raise OSError."""
        self.set_limits()
        self._earlier.update(
            (file, self._count(file, event)) for file, (_, event) in _EVENTS.items()
        )
        if self.is_separate:
            self.cgroup.add(pid)

    def stop_forks(self) -> None:
        """Forbid forks in the group until the next run."""
        if "processes" in self.limits:
            with contextlib.suppress(OSError):
                self._write("pids.max", b"0")

    def find_passed(self) -> str | None:
        """Return a limit that the kernel has enforced since the last `add`; None if there is none."""
        for file, (limit, event) in _EVENTS.items():
            if limit in self.limits and self._count(file, event) > self._earlier.get(file, 0):
                return limit
        return None

    async def wait_passed(self) -> str:
        """Wait until the kernel has enforced a limit; return the limit."""
        pause, longest = _PAUSE_S
        while self.is_separate:
            if (limit := self.find_passed()) is not None:
                return limit
            await trio.sleep(pause)
            pause = min(pause * 2, longest)
        with contextlib.ExitStack() as stack:
            # The files are always readable; only a priority event reports a change.
            events = stack.enter_context(contextlib.closing(select.epoll()))
            for file, (counted, _) in _EVENTS.items():
                if counted in self.limits:
                    fd = os.open(self.cgroup.path / file, os.O_RDONLY)
                    stack.callback(os.close, fd)
                    os.read(fd, 4096)  # changes after this are reported
                    events.register(fd, select.EPOLLPRI | select.EPOLLET)
            while (limit := self.find_passed()) is None:
                await trio.lowlevel.wait_readable(events.fileno())
                events.poll(0)  # else the event would stay ready
            return limit

    def remove(self) -> None:
        if self.is_separate:
            self.cgroup.remove()

    def _write(self, file: str, value: bytes) -> None:
        with open(self.cgroup.path / file, "wb", buffering=0) as opened:
            opened.write(value)

    def _count(self, file: str, event: str) -> int:
        try:
            text = (self.cgroup.path / file).read_text()
        except OSError:
            return 0
        match = re.search(rf"^{event} (\d+)$", text, re.MULTILINE)
        return int(match[1]) if match else 0


def enable_controllers(setting: str, base: Path | None) -> Controllers | None:
    """Enable the controllers for limited handles in `base`, and return them; None if there are none.

    The daemon moves itself into a child cgroup if `base` could not pass them on otherwise. `setting` is `daemon.cgroup`, `base` the parent of the handles' cgroups of version 2.
    """
    if setting == "off":
        return None
    if base is not None and (names := _enable_all(base)):
        return Controllers(base, names)
    if _SYSTEMD.is_dir():
        return None
    folder = find_own_cgroup("pids")
    if folder is None or not os.access(folder, os.W_OK):
        return None
    return Controllers(folder, frozenset({"pids"}), is_version_1=True)


def _enable_all(base: Path) -> frozenset[str]:
    """Enable each controller in `base`; return those that it passes on."""
    wanted = frozenset(_LIMITS.values())
    control = base / "cgroup.subtree_control"
    try:
        for name in sorted(wanted.intersection((base / "cgroup.controllers").read_text().split())):
            _enable(base, control, name)
        return wanted.intersection(control.read_text().split())
    except OSError:
        return frozenset()


def _enable(base: Path, control: Path, name: str) -> None:
    def enable() -> int:
        try:
            with open(control, "wb", buffering=0) as file:
                file.write(b"+" + name.encode())
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    if enable() == errno.EBUSY and find_own_cgroup() == base:
        leaf = base / (PREFIX + _LEAF)
        with contextlib.suppress(OSError):
            leaf.mkdir(mode=0o755, exist_ok=True)
            Cgroup(leaf).add(os.getpid())
            enable()
