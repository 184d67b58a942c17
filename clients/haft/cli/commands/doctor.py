"""`haft doctor`: look for problems and suggest remedies; change nothing.

A finding is `ok`, `note` (works, could be better) or `problem` (exit status 1; without a daemon 3).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UnsetType

from haft_protocol.methods import StatusResult
from haft_protocol.paths import (
    MAX_SOCKET_PATH,
    PathError,
    config_file,
    state_folder,
    tools_folder,
    with_login_folder,
)
from haft_protocol.runtime_paths import runtime_paths

from ... import __version__
from ...autostart import log_file
from ...client import Haft
from ...daemon_socket import announced_pid, find_socket
from ...errors import HaftError, InvalidAddress, NotRunning, SetupFailed
from ...installation import CACHE_REMEDY
from ...usermanager import UserManager
from .. import show
from ..finding import Finding, Level
from ..options import chosen_socket, connect, require_local
from ..setup_findings import check_setup_files, check_units
from ..statuses import Status
from .status import problem_line

EPILOG = """\
examples:
  haft doctor
  haft doctor --json | jq '.findings[] | select(.level == "problem")'
"""


_PATIENCE_S = 5.0
"""Time of each answer of the daemon: one that takes longer is a finding."""
_EDITORS = ("vim", "vi", "nvim", "nano")
"""Editors of git_rebase's definition, in order."""


def run(options: argparse.Namespace) -> int:
    require_local(options, subject="doctor looks at local files and services")
    findings = [*_places(options), *_editor(), *_setup()]
    answers = True
    try:
        with connect(options, start=False) as haft:
            haft.patience, haft.silence = _PATIENCE_S, None
            findings += _daemon(haft)
            findings += _service(haft.server.pid)
    except NotRunning as fault:
        answers = False
        service = [*_service(None)]
        broken = any(finding.level == "problem" for finding in service)
        findings.append(Finding("daemon", "note", str(fault), "" if broken else fault.remedy))
        findings += service
        findings += _files()
    except InvalidAddress:
        # The checks of folders have reported the fault.
        pass
    except HaftError as fault:
        findings.append(_unresponsive(options, fault))
    if options.json:
        show.document(msgspec.json.encode({"findings": findings}))
    else:
        for finding in findings:
            _show(finding)
    if not answers:
        return Status.NO_DAEMON
    wrong = any(finding.level == "problem" for finding in findings)
    return Status.FAILED if wrong else Status.DONE


def _unresponsive(options: argparse.Namespace, fault: HaftError) -> Finding:
    """Return the finding about a daemon that listens, but has not answered as it should."""
    pid = announced_pid(find_socket(chosen_socket(options)))
    if pid is None:
        return Finding("daemon", "problem", str(fault), "run `haft stop`, or end its process")
    if _is_suspended(pid):
        message = (
            f"haftd (pid {pid}) is suspended: its process was stopped by a signal such as STOP"
        )
        return Finding("daemon", "problem", message, f"`kill -CONT {pid}` continues it")
    advice = f"`haft stop`, or `kill {pid}`, ends it with all handles; its log is {log_file()}"
    return Finding("daemon", "problem", f"haftd (pid {pid}): {fault}", advice)


def _is_suspended(pid: int) -> bool:
    """True if a signal has stopped the process (proc_pid_stat(5): the state is T)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b")")[2].split()[:1] == [b"T"]


def _show(finding: Finding) -> None:
    show.write(show.folded(f"{finding.level:9}{finding.check}: {finding.message}", 9))
    if finding.advice:
        show.write(show.folded(f"{'':9}→ {finding.advice}", 11))


def _places(options: argparse.Namespace) -> Iterator[Finding]:
    try:
        env = with_login_folder(os.environ, os.getuid(), os.lstat)
        places = runtime_paths(env, os.getuid(), socket=chosen_socket(options))
    except PathError as fault:
        yield Finding("socket", "problem", str(fault), "set HAFT_SOCKET to a short absolute path")
    else:
        length = len(os.fsencode(places.socket))
        yield Finding(
            "socket", "ok", f"{places.socket}, {length} of at most {MAX_SOCKET_PATH} bytes"
        )
        yield from _folder("runtime folder", places.folder, "XDG_RUNTIME_DIR or HAFT_SOCKET")
    try:
        state = state_folder(os.environ)
        # A link to a place with more room is allowed.
        yield from _folder("state folder", state, "XDG_STATE_HOME", follow=True)
        config = config_file(os.environ)
    except PathError as fault:
        yield Finding("home", "problem", str(fault), "set HOME")
    else:
        suffix = "" if Path(config).exists() else " (none: defaults apply)"
        yield Finding("configuration", "ok", f"{config}{suffix}")


def _files() -> Iterator[Finding]:
    try:
        config = config_file(os.environ)
    except PathError:
        return  # Reported by the checks of folders.
    for file in (Path(config), *sorted(Path(tools_folder(config)).rglob("*.toml"))):
        if not file.is_file():
            continue
        try:
            tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as fault:
            message = f"{file}: {os.strerror(fault.errno or 0)}"
        except (ValueError, RecursionError) as fault:
            message = f"{file}: it is not valid TOML: {fault}"
        else:
            continue
        yield Finding("definitions", "problem", message, "fix it: haftd ignores it")


def _folder(label: str, path: str, named_by: str, *, follow: bool = False) -> Iterator[Finding]:
    """Require that only the user can write: anyone else could put a socket there."""
    try:
        info = Path(path).stat(follow_symlinks=follow)
    except FileNotFoundError:
        yield Finding(label, "ok", f"{path} will be made")
        return
    except OSError as fault:
        yield Finding(label, "problem", f"{path}: {os.strerror(fault.errno or 0)}")
        return
    mode = stat.S_IMODE(info.st_mode)
    if not stat.S_ISDIR(info.st_mode):
        yield Finding(
            label, "problem", f"{path} is not a folder", "remove it; haftd makes the folder"
        )
    elif info.st_uid != os.getuid():
        yield Finding(
            label,
            "problem",
            f"{path} belongs to user {info.st_uid}",
            f"set {named_by}",
        )
    elif mode & stat.S_ISVTX:
        yield Finding(
            label,
            "problem",
            f"{path} can be changed by everybody (mode {mode:04o})",
            f"use a folder of your own: {named_by}",
        )
    elif mode & 0o022:
        yield Finding(
            label, "problem", f"{path} has mode {mode:04o}", f"chmod go-w {shlex.quote(path)}"
        )
    else:
        yield Finding(label, "ok", f"{path}, mode {mode:04o}")


def _setup() -> Iterator[Finding]:
    try:
        yield from check_setup_files(os.environ)
    except PathError:
        return  # Reported by the checks of folders.
    except SetupFailed as fault:
        yield Finding("setup", "problem", str(fault))


def _daemon(haft: Haft) -> Iterator[Finding]:
    status = haft.status()
    yield Finding("daemon", "ok", f"answers, pid {status.pid}, up {show.duration(status.uptime_s)}")
    if status.version == __version__:
        yield Finding("version", "ok", f"{__version__}, client and daemon")
    else:
        yield Finding(
            "version",
            "problem",
            f"the client is {__version__}, the daemon {status.version}",
            "`haft stop`; the next command starts the new one",
        )
    if not isinstance(status.cache, UnsetType):
        yield Finding(
            "installation",
            "note",
            f"the daemon runs from the cache {status.cache}, which can be emptied while it runs",
            f"{CACHE_REMEDY}, then `haft stop`",
        )
    if status.containment == "cgroup":
        yield Finding("containment", "ok", "each handle has its own cgroup")
    else:
        yield Finding(
            "containment",
            "note",
            "handles are tracked by process records and process tags: a process that clears its "
            "environment and leaves its session can outlive a crash of the daemon",
            "run haftd as a systemd user service (`haft setup service`), which delegates a cgroup",
        )
    for pid in status.unconfirmed:
        yield Finding(
            "processes", "problem", f"process {pid} could not be ended", "look at it with ps"
        )
    for problem in status.problems:
        advice = problem.advice or "fix it, then run `haft reload`"
        level: Level = "problem" if isinstance(problem.level, UnsetType) else problem.level
        yield Finding("definitions", level, problem_line(problem), advice)
    yield from _path(status)


def _service(pid: int | None) -> Iterator[Finding]:
    try:
        manager = UserManager.connect()
        socket = manager.properties("haftd.socket", "LoadState", "ActiveState", "Listen", "Result")
        service = manager.properties("haftd.service", "ActiveState", "MainPID", "Result")
    except SetupFailed:
        return  # Without a user manager there is no service.
    if socket.get("LoadState") != "loaded":
        return
    yield from check_units(manager)
    path = socket.get("Listen", "").removesuffix(" (Stream)")
    if socket["ActiveState"] != "active":
        failed = f" ({socket['Result']})" if socket["ActiveState"] == "failed" else ""
        yield Finding(
            "service",
            "problem",
            f"haftd.socket is installed, and {socket['ActiveState']}{failed}: systemd does not listen",
            "`systemctl --user reset-failed haftd.service; systemctl --user start haftd.socket`",
        )
    elif not Path(path).is_socket():
        yield Finding(
            "service",
            "problem",
            f"haftd.socket is active, and its file {path} is gone: no client can connect",
            "`systemctl --user restart haftd.socket`",
        )
    elif pid is not None and str(pid) != service["MainPID"]:
        yield Finding(
            "service",
            "problem",
            f"the daemon that answers (pid {pid}) is not the daemon of haftd.service",
            "`haft setup service` lists the handles that would end",
        )
    elif service["ActiveState"] == "failed":
        yield Finding(
            "service",
            "problem",
            f"haftd.service has failed ({service['Result']})",
            "`journalctl --user -u haftd.service` has its log; fix the cause, then run `haft setup service`",
        )
    else:
        yield Finding("service", "ok", f"haftd.socket listens at {path}")


def _path(status: StatusResult) -> Iterator[Finding]:
    """Check for programs that the shell finds and the daemon does not."""
    if not status.path:
        return
    folders = set(status.path.split(":"))
    missing = [p for p in os.environ.get("PATH", "").split(":") if p and p not in folders]
    if not missing:
        yield Finding("PATH", "ok", "the daemon looks in every folder of this shell's PATH")
        return
    again = "`systemctl --user import-environment PATH; haft stop`"
    yield Finding(
        "PATH",
        "note",
        f"the daemon does not look in these folders of this shell's PATH: {':'.join(missing)}",
        "`haft spawn` sends this shell's PATH along; for other clients, "
        + (again if status.managed else "`haft stop` and start it here"),
    )


def _editor() -> Iterator[Finding]:
    if shutil.which("git") is None:
        yield Finding(
            "git",
            "note",
            "there is no git in PATH; git_stage and git_rebase need it",
            "install git",
        )
    editor = next((name for name in _EDITORS if shutil.which(name)), None)
    if editor is None:
        names = ", ".join(_EDITORS)
        yield Finding(
            "editor", "note", f"none of {names} is in PATH; git_rebase needs one", "install one"
        )
    else:
        yield Finding("editor", "ok", f"git_rebase uses {editor}")
