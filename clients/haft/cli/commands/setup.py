"""`haft setup`: have the systemd user manager run haftd; write completions, manual pages and the
Neovim plugin where their programs look (`shared_files`).

A failed part holds up no other. No unit is written without a user manager, or before the person
agrees to the end of live handles. A file that the person has changed is never overwritten unasked;
`--undo` restores the files from before. Harmless steps that may fail come first. Clients start no
daemon meanwhile. A service that does not answer is rolled back.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from haft_protocol.methods import HandleInfo
from haft_protocol.paths import PathError

from ...autostart import is_in_handle, starts_barred
from ...client import Haft
from ...daemon_socket import find_socket
from ...errors import ConnectionLost, HaftError, InvalidAddress, NotRunning, SetupFailed
from ...installation import CACHE_REMEDY, cache_folder
from ...usermanager import AbsentManager, ManagerFailed, NoUserManager, UserManager
from .. import show
from ..confirmation import ask, can_ask, handle_names, live_handles
from ..options import UsageError, chosen_socket, connect, require_local, suggestion
from ..service_units import (
    SERVICE,
    SOCKET,
    UNITS,
    service_copy,
    service_folder,
    service_python,
    unit_contents,
)
from ..setup_record import SetupRecord, read
from ..shared_files import PARTS, SharedFiles
from ..statuses import Status
from .stop import shut_down

USAGE = "haft setup PART… [--dry-run] [--undo] [--replace] [--yes]"
EPILOG = """\
PART is one or more of service, completions, man, nvim. completions are for bash, zsh and fish, man is the manual
pages, nvim the plugin for Neovim: files in your data folder. A file that you have changed is kept and reported,
unless you add --replace. --undo restores what was there before. `haft doctor` reports files of another version.

With service, haftd starts when the first client connects, is restarted when it fails, and keeps each handle in its own
cgroup. A daemon that a command has started ends first, with its handles: they are listed,
and you are asked (without a terminal: --yes). From a source tree, the service runs from a separate
environment in $XDG_DATA_HOME/haft; run this again after an update. --undo stops the service
and removes what this has written. --dry-run needs no service manager.

examples:
  haft setup service --dry-run                      only show what would be done
  haft setup service completions man
  haft setup nvim
  haft setup service --undo
"""

_PARTS = ("service", *PARTS)
_START_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="+", choices=_PARTS, metavar="PART", help="see below")
    parser.add_argument("--dry-run", action="store_true", help="show the steps and change nothing")
    parser.add_argument("--undo", action="store_true", help="restore the previous files")
    parser.add_argument(
        "--replace", action="store_true", help="also write, or undo, files that you have changed"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="end running handles without asking"
    )


def run(options: argparse.Namespace) -> int:
    unknown = [part for part in options.parts if part not in _PARTS]
    if unknown:
        meant = suggestion(unknown[0], _PARTS)
        raise UsageError(
            f"there is no part {unknown[0]!r}{meant}; the parts are {', '.join(_PARTS)}"
        )
    require_local(options, subject="setup writes files")
    if options.json and len(options.parts) > 1:
        raise UsageError("--json needs the name of one part")
    parts = tuple(dict.fromkeys(options.parts))
    is_done = True
    for part in parts:
        try:
            status = _service(options) if part == "service" else _files(options, part)
        except SetupFailed as fault:
            if len(parts) == 1:
                raise
            show.line(f"haft setup: {part}: {fault}", "red")
            status = Status.FAILED
        is_done &= status == Status.DONE
    return Status.DONE if is_done else Status.FAILED


def _files(options: argparse.Namespace, part: str) -> int:
    record = _record()
    files = SharedFiles(part, os.environ, record)
    undo, replace = getattr(options, "undo", False), getattr(options, "replace", False)
    changes = files.plan_undo(replace=replace) if undo else files.plan_update(replace=replace)
    steps = changes.steps(record)
    count = len(changes.to_write) + len(changes.to_restore)
    done = not getattr(options, "dry_run", False)
    if done:
        files.apply(changes)
    _show(options, steps, part=part, done=done)
    if not done:
        return Status.DONE
    if not options.json:
        if count:
            past = "restored or removed" if undo else "written"
            show.line(f"haft setup: {part}: {show.counted(count, 'file')} {past}", "green")
        for path, why in changes.kept.items():
            show.line(f"haft setup: {path} is kept: it {why}", "yellow")
        if count and files.remark and not undo:
            show.line(f"haft setup: {files.remark}")
    return Status.FAILED if changes.kept else Status.DONE


def _record() -> SetupRecord:
    try:
        return SetupRecord(os.environ)
    except PathError as fault:
        raise InvalidAddress(str(fault)) from fault


def _service(options: argparse.Namespace) -> int:
    undo, dry_run = getattr(options, "undo", False), getattr(options, "dry_run", False)
    obstacles: list[str] = []
    if is_in_handle():
        obstacles.append(
            "a program that haftd runs cannot change how haftd is run; use your own terminal"
        )
        if not dry_run:
            raise UsageError(obstacles[0])
    try:
        manager = UserManager.connect()
        path = _socket_path(manager, options)
    except (NoUserManager, UsageError) as fault:
        if not dry_run and not (undo and isinstance(fault, NoUserManager)):
            raise
        manager = AbsentManager.of(os.environ)
        path = f"{manager.environment['XDG_RUNTIME_DIR']}/haft/haftd.sock"
        obstacles.append(str(fault))
    if not undo and (cache := cache_folder()) is not None:
        obstacles.append(
            f"this haft runs from the cache {cache}, which can be emptied while the service runs; {CACHE_REMEDY}"
        )
        if not dry_run:
            raise SetupFailed(f"nothing was changed: {obstacles[0]}")
    record = _record()
    change: _Change = _Undo(manager, record) if undo else _Setup(manager, record, path)
    with ExitStack() as stack:
        running = _Running.find(options, manager, stack)
        ends = running.is_the_service or running.is_unreachable or not undo
        steps: list[str] = []
        if change.is_needed(running):
            steps = [*change.steps(), *(running.steps() if ends else ())]
        if steps and not getattr(options, "replace", False):
            obstacles += change.conflicts()
        if not steps or dry_run:
            _show(options, steps, done=False, obstacles=obstacles if steps else [])
            return 0
        if obstacles:
            raise SetupFailed(f"nothing was changed: {obstacles[0]}")
        if ends and running.ends_something and not _agreed(options, running):
            show.line("haft setup: nothing was changed")
            return Status.FAILED
        change.prepare()
        with starts_barred():
            if ends:
                running.stop(is_agreed=getattr(options, "yes", False))
            change.make()
        change.clean()
    _show(options, steps, done=True)
    if not options.json:
        show.line(f"haft setup: {change.done}", "green")
    return 0


def _agreed(options: argparse.Namespace, running: _Running) -> bool:
    if getattr(options, "yes", False):
        return True
    end = "; ".join(running.steps())
    if options.json or not can_ask():
        raise UsageError(f"nothing was changed: it would {end}. To allow that: --yes")
    return ask(f"This will {end}. Continue?")


def _show(
    options: argparse.Namespace,
    steps: list[str],
    *,
    done: bool,
    part: str = "service",
    obstacles: Sequence[str] = (),
) -> None:
    if options.json:
        reply = {"steps": steps, "done": done or not steps}
        if obstacles:
            reply["obstacles"] = list(obstacles)
        show.document(msgspec.json.encode(reply))
    elif not steps:
        undo = getattr(options, "undo", False)
        state = "there is nothing to remove" if undo else "everything is set up already"
        show.line(f"haft setup: {part}: {state}")
    elif not done:
        words = f"{part} --undo" if getattr(options, "undo", False) else part
        show.write(f"haft setup {words} would:\n" + "".join(f"  {step}\n" for step in steps))
        for obstacle in obstacles:
            show.line(f"haft setup: {part} would be refused: {obstacle}", "yellow")


def _socket_path(manager: UserManager, options: argparse.Namespace) -> str:
    path = f"{manager.environment.get('XDG_RUNTIME_DIR', '')}/haft/haftd.sock"
    looked_at = find_socket(chosen_socket(options))
    if looked_at != path:
        raise UsageError(
            f"the service listens at {path}, and the clients of this shell look at {looked_at}; "
            "unset HAFTSOCKET, and set XDG_RUNTIME_DIR as a login does"
        )
    return path


class _Running:
    """The daemon that answers, or the service's unreachable one."""

    def __init__(self, haft: Haft | None, main_pid: int) -> None:
        self._haft = haft
        self._main_pid = main_pid
        self.pid = main_pid if haft is None else haft.server.pid
        self.handles: list[HandleInfo] = [] if haft is None else live_handles(haft)

    @classmethod
    def find(cls, options: argparse.Namespace, manager: UserManager, stack: ExitStack) -> _Running:
        main_pid = int(manager.properties(SERVICE, "MainPID").get("MainPID", "0"))
        try:
            return cls(stack.enter_context(connect(options)), main_pid)
        except NotRunning:
            return cls(None, main_pid)

    @property
    def is_the_service(self) -> bool:
        return self._haft is not None and self.pid == self._main_pid

    @property
    def is_unreachable(self) -> bool:
        """True if the service runs but its socket is dead, so that its handles are unknown."""
        return self._haft is None and self._main_pid != 0

    @property
    def ends_something(self) -> bool:
        """True if a person must agree to the end."""
        return bool(self.handles) or self.is_unreachable

    def steps(self) -> Iterator[str]:
        if self.is_unreachable:
            yield (
                f"end the service's daemon (pid {self.pid}), whose socket file is gone, and all "
                "its handles, which cannot be listed"
            )
        elif self.handles:
            yield f"end the daemon (pid {self.pid}) and {handle_names(self.handles)}"
        elif self._haft is not None:
            yield f"end the daemon (pid {self.pid}), which has no running handle"

    def stop(self, *, is_agreed: bool) -> None:
        """End the daemon that answers; an unreachable one ends with its unit.

        Raises `SetupFailed` for an unnamed handle, unless the end of every handle `is_agreed`.
        """
        if self._haft is None:
            return
        if not is_agreed and (unnamed := self._unnamed(self._haft)):
            raise SetupFailed(
                f"nothing was changed: it would also end {handle_names(unnamed)}, started meanwhile"
            )
        shut_down(self._haft, "abort" if self.handles or is_agreed else "refuse")

    def _unnamed(self, haft: Haft) -> list[HandleInfo]:
        named = {_name(info) for info in self.handles}
        try:
            return [info for info in live_handles(haft) if _name(info) not in named]
        except ConnectionLost:
            return []  # The daemon has ended by itself.


def _name(info: HandleInfo) -> tuple[str, str, int]:
    return info.state.session, info.state.id, info.state.generation


class _Change(Protocol):
    done: str

    def is_needed(self, running: _Running) -> bool:
        pass

    def steps(self) -> Iterator[str]:
        """Describe the steps in order, except the end of the daemon."""

    def conflicts(self) -> Iterator[str]:
        """Name the units that the person has changed."""

    def prepare(self) -> None:
        """Prepare without effect on running processes."""

    def make(self) -> None:
        """Make the change, after the daemon's end."""

    def clean(self) -> None:
        """Remove leftovers."""


class _Setup:
    done = "haftd starts when a client connects; `haft status` shows its status, `haft setup service --undo` removes it"

    def __init__(self, manager: UserManager, record: SetupRecord, path: str) -> None:
        self._manager = manager
        self._record = record
        self._path = path
        self._copy = service_copy()
        self._units = unit_contents(manager, self._copy)
        self._before = {unit: read(unit) for unit in self._units}

    def is_needed(self, running: _Running) -> bool:
        """Return False if exactly this service is set up and works."""
        copied = self._copy is None or self._copy.is_complete
        listens = self._manager.properties(SOCKET, "ActiveState").get("ActiveState") == "active"
        return not (
            copied
            and listens
            and self._units == self._before
            and Path(self._path).is_socket()
            and (running.is_the_service or running.pid == 0)
        )

    def conflicts(self) -> Iterator[str]:
        for unit, content in self._units.items():
            if self._before[unit] not in (None, content) and not self._record.is_untouched(unit):
                yield _conflict(unit, self._record)

    def steps(self) -> Iterator[str]:
        if self._copy is not None and not self._copy.is_complete:
            yield f"copy this installation to {self._copy.path}"
        program = service_python(self._copy)
        yield f"write {' and '.join(UNITS)} to {self._manager.unit_folder}, to run {program}"
        yield f"have the user manager listen at {self._path}"

    def prepare(self) -> None:
        if self._copy is not None:
            self._record.make_folder(Path(service_folder(os.environ)))
            self._copy.create()

    def make(self) -> None:
        """Write the units and check the service, or restore the previous units and raise."""
        try:
            self._install(self._units)
            self._check()
        except (HaftError, OSError) as fault:
            why = f"{fault}{self._result()}"
            self._put_back()
            result = (
                "the previous one was restored"
                if all(self._before.values())
                else "it was removed again"
            )
            raise SetupFailed(f"the service does not work, and {result}: {why}") from fault
        except BaseException:
            self._put_back()
            raise

    def clean(self) -> None:
        if self._copy is not None:
            for old in self._copy.others():
                shutil.rmtree(old, ignore_errors=True)

    def _install(self, units: dict[Path, bytes]) -> None:
        self._record.write("service", units)
        self._manager.call("daemon-reload")
        with suppress(ManagerFailed):  # Loaded only when failed or active.
            self._manager.call("reset-failed", *UNITS)
        self._manager.call("enable", SOCKET)
        # The service requires its socket, so both restart.
        self._manager.call("restart", SOCKET)

    def _check(self) -> None:
        self._manager.call("start", SERVICE)
        with Haft.connect(self._path, name="haft setup", timeout=_START_S) as haft:
            pid = haft.server.pid
        main_pid = int(self._manager.properties(SERVICE, "MainPID").get("MainPID", "0"))
        if pid != main_pid:
            raise SetupFailed(f"another daemon (pid {pid}) answers at {self._path}")

    def _result(self) -> str:
        properties = self._manager.properties(SERVICE, "ActiveState", "Result", "ExecMainStatus")
        if properties.get("ActiveState") == "active":
            return ""
        status = properties.get("ExecMainStatus", "?")
        return (
            f" (service: {properties.get('Result')}, exit status {status}; "
            f"`journalctl --user -u {SERVICE}` has its log)"
        )

    def _put_back(self) -> None:
        before = {unit: content for unit, content in self._before.items() if content is not None}
        with suppress(ManagerFailed):
            if len(before) == len(UNITS):
                self._install(before)
            else:
                _remove_units(self._manager, self._record)


class _Undo:
    done = "the service is removed; the first `haft spawn` starts a daemon itself"

    def __init__(self, manager: UserManager, record: SetupRecord) -> None:
        self._manager = manager
        self._record = record
        self._units = [manager.unit_folder / name for name in UNITS]
        self._data = Path(service_folder(os.environ))

    def is_needed(self, running: _Running) -> bool:
        return any(unit.exists() for unit in self._units) or bool(self._copies())

    def steps(self) -> Iterator[str]:
        folder = self._manager.unit_folder
        yield f"stop and disable {' and '.join(UNITS)}, and remove them from {folder}"
        for unit, file in self._record.of_part("service").items():
            if file.before is not None:
                yield f"restore the previous {unit}"
        for copy in self._copies():
            yield f"remove {copy}"

    def conflicts(self) -> Iterator[str]:
        for unit in self._units:
            if unit.exists() and not self._record.is_untouched(unit):
                yield _conflict(unit, self._record)

    def prepare(self) -> None:
        pass

    def make(self) -> None:
        _remove_units(self._manager, self._record)

    def clean(self) -> None:
        for copy in self._copies():
            shutil.rmtree(copy, ignore_errors=True)
        self._record.restore([])
        with suppress(OSError):  # The folder may hold other files, or be missing.
            self._data.rmdir()

    def _copies(self) -> list[Path]:
        return sorted(self._data.glob("env-*"))


def _conflict(unit: Path, record: SetupRecord) -> str:
    how = (
        "was not written by `haft setup`"
        if record.find(unit) is None
        else "was changed since haft wrote it"
    )
    return (
        f"{unit} {how}; keep your lines with `systemctl --user edit {unit.name}`, which haft leaves alone, "
        "and add --replace"
    )


def _remove_units(manager: UserManager, record: SetupRecord) -> None:
    """Stop, disable and restore the units; a missing unit is not a failure."""
    with suppress(ManagerFailed):
        manager.call("disable", "--now", *UNITS)
    with suppress(ManagerFailed):  # Loaded only when failed or active.
        manager.call("reset-failed", *UNITS)
    recorded = list(record.of_part("service"))
    for name in UNITS:
        if (unit := manager.unit_folder / name) not in recorded:
            unit.unlink(missing_ok=True)
    record.restore(recorded)
    manager.call("daemon-reload")
