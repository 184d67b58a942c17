"""`haft setup`: have the systemd user manager run haftd; write completions, manual pages and the
Neovim plugin where their programs look (`shared_files`).

Nothing is written without a user manager, or before the person agrees to the end of live handles.
Harmless steps that may fail come first. Clients start no daemon meanwhile. A service that does not
answer is rolled back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from haft_protocol.methods import HandleInfo
from haft_protocol.paths import PathError, config_home, data_folder, state_folder

from ...autostart import is_in_handle, starts_barred
from ...client import Haft
from ...daemon_socket import find_socket
from ...errors import ConnectionLost, HaftError, Misplaced, NotRunning, SetupFailed
from ...installation import Environment, is_installed, unit_templates
from ...usermanager import ManagerFailed, UserManager
from .. import show
from ..confirmation import ask, can_ask, handle_names, live_handles
from ..options import UsageError, chosen_socket, connect, require_local, suggestion
from ..shared_files import PARTS, SharedFiles
from ..statuses import Status
from .stop import shut_down

USAGE = "haft setup PART… [--dry-run | --undo] [--yes]"
EPILOG = """\
PART is one or more of service, completions, man, nvim. completions are those of bash, zsh and fish, man the manual
pages, nvim the plugin for Neovim: files in your own data folder, which --undo removes.

With service, haftd starts when the first client connects, is restarted when it fails, and keeps each handle in a
cgroup of its own. A daemon that a command has started ends first, with its handles: they are listed,
and you are asked (without a terminal: --yes). From a source tree, the service runs from an
environment of its own in $XDG_DATA_HOME/haft; run this again after an update. --undo stops the service
and removes what this has written.

examples:
  haft setup service --dry-run                      only show what would be done
  haft setup service completions man
  haft setup nvim
  haft setup service --undo
"""

_PARTS = ("service", *PARTS)
_SOCKET, _SERVICE = UNITS = ("haftd.socket", "haftd.service")
_START_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="+", choices=_PARTS, metavar="PART", help="see below")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="show the steps, change nothing")
    how.add_argument("--undo", action="store_true", help="stop the service and remove it")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="end running handles without asking"
    )


def run(options: argparse.Namespace) -> int:
    unknown = [part for part in options.parts if part not in _PARTS]
    if unknown:
        meant = suggestion(unknown[0], _PARTS)
        raise UsageError(f"there is no part {unknown[0]!r}{meant}; they are {', '.join(_PARTS)}")
    if options.address:
        require_local(options, subject="setup writes files")
    if options.json and len(options.parts) > 1:
        raise UsageError("--json goes with one part")
    status: int = Status.DONE
    for part in dict.fromkeys(options.parts):
        status = _service(options) if part == "service" else _files(options, part)
        if status != Status.DONE:
            break
    return status


def _files(options: argparse.Namespace, part: str) -> int:
    """Write or remove the files of a part."""
    try:
        files = SharedFiles(part, os.environ)
    except PathError as fault:
        raise Misplaced(str(fault)) from fault
    undo = getattr(options, "undo", False)
    verb, past = ("remove", "removed") if undo else ("write", "written")
    steps = [f"{verb} {path}" for path in (files.present() if undo else files.missing())]
    done = not getattr(options, "dry_run", False)
    if done and undo:
        files.remove()
    elif done:
        files.write()
    _show(options, steps, part=part, done=done)
    if steps and done and not options.json:
        show.line(f"haft setup: {part}: {len(steps)} files {past}", "green")
        if files.remark and not undo:
            show.line(f"haft setup: {files.remark}")
    return Status.DONE


def _service(options: argparse.Namespace) -> int:
    if is_in_handle():
        raise UsageError(
            "a program that haftd runs cannot change what runs haftd; use a terminal of your own"
        )
    require_local(options, subject="the service is one")
    manager = UserManager.connect()
    path = _socket_path(manager, options)
    undo = getattr(options, "undo", False)
    change: _Change = _Undo(manager) if undo else _Setup(manager, path)
    with ExitStack() as stack:
        running = _Running.find(options, manager, stack)
        ends = running.is_the_service or running.is_unreachable or not undo
        steps: list[str] = []
        if change.is_needed(running):
            steps = [*change.steps(), *(running.steps() if ends else ())]
        if not steps or getattr(options, "dry_run", False):
            _show(options, steps, done=False)
            return 0
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
        raise UsageError(f"nothing was changed: it would {end}. To let it: --yes")
    return ask(f"This will {end}. Go on?")


def _show(
    options: argparse.Namespace, steps: list[str], *, done: bool, part: str = "service"
) -> None:
    if options.json:
        show.document(msgspec.json.encode({"steps": steps, "done": done or not steps}))
    elif not steps:
        undo = getattr(options, "undo", False)
        state = "there is nothing to remove" if undo else "everything is set up already"
        show.line(f"haft setup: {part}: {state}")
    elif not done:
        show.write(f"haft setup {part} would:\n" + "".join(f"  {step}\n" for step in steps))


def _socket_path(manager: UserManager, options: argparse.Namespace) -> str:
    path = f"{manager.environment.get('XDG_RUNTIME_DIR', '')}/haft/haftd.sock"
    looked_at = find_socket(chosen_socket(options))
    if looked_at != path:
        raise UsageError(
            f"the service listens at {path}, and the clients of this shell look at {looked_at}; "
            "unset HAFT_SOCKET, and set XDG_RUNTIME_DIR as a login does"
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
        main_pid = int(manager.properties(_SERVICE, "MainPID").get("MainPID", "0"))
        try:
            return cls(stack.enter_context(connect(options)), main_pid)
        except NotRunning:
            return cls(None, main_pid)

    @property
    def is_the_service(self) -> bool:
        return self._haft is not None and self.pid == self._main_pid

    @property
    def is_unreachable(self) -> bool:
        """True if the service runs behind a dead socket, with unknown handles."""
        return self._haft is None and self._main_pid != 0

    @property
    def ends_something(self) -> bool:
        """True if a person has to agree to the end."""
        return bool(self.handles) or self.is_unreachable

    def steps(self) -> Iterator[str]:
        if self.is_unreachable:
            yield (
                f"end the service's daemon (pid {self.pid}), whose socket file is gone, and whatever "
                "it holds: it cannot be asked"
            )
        elif self.handles:
            yield f"end the daemon (pid {self.pid}) and {handle_names(self.handles)}"
        elif self._haft is not None:
            yield f"end the daemon (pid {self.pid}), which holds no running handle"

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
    """Message at the end."""

    def is_needed(self, running: _Running) -> bool:
        pass

    def steps(self) -> Iterator[str]:
        """Describe the steps in order, except the end of the daemon."""

    def prepare(self) -> None:
        """Prepare without effect on running processes."""

    def make(self) -> None:
        """Make the change, after the daemon's end."""

    def clean(self) -> None:
        """Remove leftovers."""


class _Setup:
    done = "haftd starts when a client connects; `haft status` asks it, `haft setup service --undo` removes it"

    def __init__(self, manager: UserManager, path: str) -> None:
        self._manager = manager
        self._path = path
        self._folder = manager.unit_folder
        self._environment = None if is_installed() else Environment(_data_folder())
        self._units = {name: self._unit(name) for name in UNITS}
        self._before = {name: _read(self._folder / name) for name in UNITS}

    def is_needed(self, running: _Running) -> bool:
        """Return False if exactly this service is set up and works."""
        copied = self._environment is None or self._environment.is_complete
        listens = self._manager.properties(_SOCKET, "ActiveState")["ActiveState"] == "active"
        return not (
            copied
            and listens
            and self._units == self._before
            and Path(self._path).is_socket()
            and (running.is_the_service or running.pid == 0)
        )

    def steps(self) -> Iterator[str]:
        if self._environment is not None and not self._environment.is_complete:
            yield f"copy this installation to {self._environment.path}"
        yield f"write {' and '.join(UNITS)} to {self._folder}"
        yield f"have the user manager listen at {self._path}"

    def prepare(self) -> None:
        if self._environment is not None:
            self._environment.create()

    def make(self) -> None:
        """Write the units and check the service, or restore the previous units and raise."""
        try:
            self._install(self._units)
            self._check()
        except (HaftError, OSError) as fault:
            why = f"{fault}{self._result()}"
            self._put_back()
            result = (
                "the one before is back" if all(self._before.values()) else "it was removed again"
            )
            raise SetupFailed(f"the service does not work, and {result}: {why}") from fault
        except BaseException:
            self._put_back()
            raise

    def clean(self) -> None:
        if self._environment is not None:
            for old in self._environment.others():
                shutil.rmtree(old, ignore_errors=True)

    def _unit(self, name: str) -> str:
        """Return a unit's text: the template with the command, and this shell's folders where the
        manager's differ."""
        text = (unit_templates() / name).read_text(encoding="utf-8")
        lines = [f"ExecStart={self._command()}"]
        for variable, folder in (
            ("XDG_CONFIG_HOME", config_home),
            ("XDG_STATE_HOME", lambda env: state_folder(env).removesuffix("/haft")),
        ):
            if (ours := folder(os.environ)) != folder(self._manager.environment):
                lines.append(f"Environment={_quoted(f'{variable}={ours}')}")
        return "".join(
            "\n".join(lines) + "\n" if line.startswith("ExecStart=") else line
            for line in text.splitlines(keepends=True)
        )

    def _command(self) -> str:
        python = sys.executable if self._environment is None else str(self._environment.python)
        # -P: no module from the working folder.
        return f"{_quoted(python, exec_start=True)} -P -m haftd"

    def _install(self, units: dict[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, text in units.items():
            _write(self._folder / name, text)
        self._manager.call("daemon-reload")
        with suppress(ManagerFailed):  # Loaded only when failed or active.
            self._manager.call("reset-failed", *UNITS)
        self._manager.call("enable", _SOCKET)
        # The service requires its socket, so both restart.
        self._manager.call("restart", _SOCKET)

    def _check(self) -> None:
        self._manager.call("start", _SERVICE)
        with Haft.connect(self._path, name="haft setup", timeout=_START_S) as haft:
            pid = haft.server.pid
        main_pid = int(self._manager.properties(_SERVICE, "MainPID").get("MainPID", "0"))
        if pid != main_pid:
            raise SetupFailed(f"another daemon (pid {pid}) answers at {self._path}")

    def _result(self) -> str:
        properties = self._manager.properties(_SERVICE, "ActiveState", "Result", "ExecMainStatus")
        if properties.get("ActiveState") == "active":
            return ""
        status = properties.get("ExecMainStatus", "?")
        return (
            f" (service: {properties.get('Result')}, exit status {status}; "
            f"`journalctl --user -u {_SERVICE}` has its log)"
        )

    def _put_back(self) -> None:
        with suppress(ManagerFailed):
            if all(self._before.values()):
                self._install({name: str(text) for name, text in self._before.items()})
            else:
                _remove_units(self._manager)


class _Undo:
    done = "the service is removed; the first `haft spawn` starts a daemon itself"

    def __init__(self, manager: UserManager) -> None:
        self._manager = manager
        self._folder = manager.unit_folder
        self._data = Path(_data_folder())

    def is_needed(self, running: _Running) -> bool:
        return any((self._folder / name).exists() for name in UNITS) or bool(self._copies())

    def steps(self) -> Iterator[str]:
        yield f"stop and disable {' and '.join(UNITS)}, and remove them from {self._folder}"
        for copy in self._copies():
            yield f"remove {copy}"

    def prepare(self) -> None:
        pass

    def make(self) -> None:
        _remove_units(self._manager)

    def clean(self) -> None:
        for copy in self._copies():
            shutil.rmtree(copy, ignore_errors=True)
        with suppress(OSError):  # The folder may hold other files, or be missing.
            self._data.rmdir()

    def _copies(self) -> list[Path]:
        return sorted(self._data.glob("env-*"))


def _remove_units(manager: UserManager) -> None:
    """Stop, disable and remove the units; missing ones are no failure."""
    with suppress(ManagerFailed):
        manager.call("disable", "--now", *UNITS)
    with suppress(ManagerFailed):  # Loaded only when failed or active.
        manager.call("reset-failed", *UNITS)
    for name in UNITS:
        (manager.unit_folder / name).unlink(missing_ok=True)
    manager.call("daemon-reload")


def _data_folder() -> str:
    try:
        return data_folder(os.environ)
    except PathError as fault:
        raise Misplaced(str(fault)) from fault


def _quoted(text: str, *, exec_start: bool = False) -> str:
    """Quote a word for a unit; only a command line expands variables. See systemd.syntax(7)."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if exec_start else text}"'


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _write(file: Path, text: str) -> None:
    """Replace a file atomically."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
