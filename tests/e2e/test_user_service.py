"""`haft setup service` under a real user manager."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from haft.cli.setup_record import SetupRecord
from tests.e2e.usermanager import UserManager, needs_user_manager

pytestmark = [*needs_user_manager]

_SPAWN = ("haft", "spawn", "run", "--id", "server", "--wait", "none", "--", "sleep", "1000")


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A data folder for all: the copy of the installation is made once."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_data(short_tmp: Path, data: Path) -> dict[str, str]:
    """The variable of a data folder that the test may remove, with the copy of the installation."""
    folder = short_tmp / "data"
    shutil.copytree(data, folder, symlinks=True, copy_function=os.link)
    return {"XDG_DATA_HOME": str(folder)}


@pytest.fixture
def manager(short_tmp: Path, data: Path) -> Iterator[UserManager]:
    manager = UserManager(short_tmp, data)
    yield manager
    manager.close()


@pytest.fixture(scope="module")
def service(data: Path) -> Iterator[UserManager]:
    """A manager that runs the service, for tests that leave the service as it is."""
    home = Path(tempfile.mkdtemp(prefix="haft-"))
    manager = UserManager(home, data)
    done = manager.run("haft", "setup", "service")
    assert done.returncode == 0, done.stderr
    yield manager
    manager.close()
    shutil.rmtree(home, ignore_errors=True)


def units(manager: UserManager) -> list[str]:
    return sorted(p.name for p in (manager.home / ".config" / "systemd" / "user").glob("haftd*"))


def answering(manager: UserManager) -> int:
    """The pid of the daemon that answers."""
    done = manager.run("haft", "status", "--json")
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["pid"])


def test_handles_of_a_running_daemon_are_named_and_kept_without_a_yes(
    manager: UserManager,
) -> None:
    assert manager.run(*_SPAWN).returncode == 0
    pid = answering(manager)
    refused = manager.run("haft", "setup", "service")
    assert refused.returncode == 2
    assert "1 handle: server (run)" in refused.stderr and "--yes" in refused.stderr
    shown = manager.run("haft", "setup", "service", "--dry-run")
    assert (shown.returncode, "server (run)" in shown.stdout) == (0, True)
    elsewhere = manager.run("haft", "setup", "service", "--yes", env={"HAFT_SOCKET": "/tmp/s"})
    assert (elsewhere.returncode, "/tmp/s" in elsewhere.stderr) == (2, True)
    assert units(manager) == []
    assert answering(manager) == pid
    assert "running" in manager.run("haft", "ps").stdout


def test_the_service_replaces_a_daemon_started_by_a_command(manager: UserManager) -> None:
    assert manager.run(*_SPAWN).returncode == 0
    done = manager.run("haft", "setup", "service", "--yes")
    assert done.returncode == 0, done.stderr
    assert str(answering(manager)) == manager.properties("haftd.service")["MainPID"]
    assert manager.properties("haftd.socket")["ActiveState"] == "active"
    started = manager.run(*_SPAWN)
    assert started.returncode == 0, started.stderr
    again = manager.run("haft", "setup", "service")
    assert (again.returncode, "set up already" in again.stderr) == (0, True)
    assert "server" in manager.run("haft", "ps").stdout


def test_removing_the_service_names_ended_handles_and_leaves_nothing(
    manager: UserManager, short_tmp: Path, own_data: dict[str, str]
) -> None:
    own = {**own_data, "XDG_STATE_HOME": str(short_tmp / "XDG_STATE_HOME")}
    assert manager.run("haft", "setup", "service", env=own).returncode == 0
    assert (short_tmp / "XDG_STATE_HOME" / "haft" / "spool").is_dir(), "this shell's, not its own"
    assert manager.run(*_SPAWN).returncode == 0
    refused = manager.run("haft", "setup", "service", "--undo", env=own)
    assert (refused.returncode, "server (run)" in refused.stderr) == (2, True)
    assert manager.run("haft", "setup", "service", "--undo", "--yes", env=own).returncode == 0
    assert units(manager) == [] and not (short_tmp / "data" / "haft").exists()
    assert manager.properties("haftd.socket")["LoadState"] == "not-found"
    assert manager.run("haft", "ps").returncode == 3


def findings(manager: UserManager, env: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    printed = manager.run("haft", "doctor", "--json", env=env).stdout
    document = json.loads(printed)["findings"]
    return [finding for finding in document if finding["check"] == "service"]


def test_a_unit_changed_by_the_user_is_not_overwritten(
    manager: UserManager, own_data: dict[str, str]
) -> None:
    unit = manager.home / ".config" / "systemd" / "user" / "haftd.service"
    mine = b"[Service]\nExecStart=/bin/true\n"
    unit.write_bytes(mine)
    refused = manager.run("haft", "setup", "service", env=own_data)
    assert refused.returncode == 1 and f"{unit} was not written by" in refused.stderr
    assert "systemctl --user edit haftd.service" in refused.stderr and unit.read_bytes() == mine
    shown = manager.run("haft", "setup", "service", "--dry-run", env=own_data)
    assert (shown.returncode, "would be refused" in shown.stderr) == (0, True)
    assert manager.run("haft", "setup", "service", "--replace", env=own_data).returncode == 0
    assert str(answering(manager)) == manager.properties("haftd.service")["MainPID"]

    # As of an older version: the unit differs, and is the one that haft wrote.
    written = unit.read_bytes()
    SetupRecord(own_data).write("service", {unit: written + b"# older\n"})
    (stale, _) = findings(manager, own_data)
    assert stale["level"] == "note" and "haftd.service" in stale["message"]
    assert manager.run("haft", "setup", "service", env=own_data).returncode == 0
    assert unit.read_bytes() == written

    assert manager.run("haft", "setup", "service", "--undo", env=own_data).returncode == 0
    assert unit.read_bytes() == mine and units(manager) == ["haftd.service"]


def test_the_doctor_reports_a_unit_whose_program_is_missing(service: UserManager) -> None:
    assert [finding["level"] for finding in findings(service)] == ["ok"]
    unit = service.home / ".config" / "systemd" / "user" / "haftd.service"
    text = unit.read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    try:
        unit.write_text(text.replace(line, "ExecStart=/gone/bin/python -P -m haftd"))
        assert service.run("systemctl", "--user", "daemon-reload").returncode == 0
        (missing, *_) = findings(service)
    finally:
        unit.write_text(text)
        service.run("systemctl", "--user", "daemon-reload")
    assert (
        missing["level"] == "problem" and "/gone/bin/python, which is missing" in missing["message"]
    )


def test_the_service_runs_from_its_own_environment(service: UserManager, data: Path) -> None:
    """The environment of the source tree may be removed, as by `make clean`."""
    (copy,) = (data / "haft").glob("env-*")
    command = Path(f"/proc/{outer_pid(copy)}/cmdline").read_bytes().split(b"\0")
    assert command[0] == os.fsencode(copy / "bin" / "python")
    here = Path(__file__).parents[2]
    modules = Path(f"/proc/{outer_pid(copy)}/maps").read_text()
    assert str(copy) in modules and str(here) not in modules
    state = service.run("haft", "spawn", "run", "--id", "x", "--wait", "stopped", "--", "echo", "1")
    assert (state.returncode, state.stdout) == (0, "1\n")


def outer_pid(copy: Path) -> int:
    """The daemon's number outside of the manager's namespace."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(os.fsencode(copy)) and b"haftd" in command:
                return int(folder.name)
    raise AssertionError(f"no daemon runs from {copy}")


def test_the_doctor_reports_a_socket_unit_without_its_file_and_the_remedy(
    service: UserManager,
) -> None:
    # A daemon that runs makes the file again.
    assert service.run("systemctl", "--user", "stop", "haftd.service").returncode == 0
    socket = f"{service.env['XDG_RUNTIME_DIR']}/haft/haftd.sock"
    assert service.run("rm", socket).returncode == 0
    document = json.loads(service.run("haft", "doctor", "--json").stdout)["findings"]
    (finding,) = [finding for finding in document if finding["check"] == "service"]
    assert finding["level"] == "problem" and socket in finding["message"]
    assert finding["advice"] == "`systemctl --user restart haftd.socket`"
    assert service.run("systemctl", "--user", "restart", "haftd.socket").returncode == 0
    assert str(answering(service)) == service.properties("haftd.service")["MainPID"]
    document = json.loads(service.run("haft", "doctor", "--json").stdout)["findings"]
    (finding,) = [finding for finding in document if finding["check"] == "service"]
    assert finding["level"] == "ok"


def test_a_service_that_does_not_start_is_removed(manager: UserManager) -> None:
    state = manager.home / ".local" / "state" / "haft"
    state.mkdir(parents=True)
    os.chown(state, 1, 1)
    failed = manager.run("haft", "setup", "service")
    assert failed.returncode == 1
    assert "removed again" in failed.stderr and "journalctl" in failed.stderr
    assert units(manager) == []
    assert manager.properties("haftd.socket")["LoadState"] == "not-found"
    os.chown(state, 0, 0)
    assert manager.run(*_SPAWN).returncode == 0


def test_a_service_without_its_socket_file_is_repaired(manager: UserManager) -> None:
    assert manager.run("haft", "setup", "service").returncode == 0
    assert manager.run(*_SPAWN).returncode == 0
    # A stopped daemon neither recreates the file nor answers.
    stop = ("systemctl", "--user", "kill", "--kill-whom=main", "--signal=STOP", "haftd.service")
    assert manager.run(*stop).returncode == 0
    assert manager.run("rm", f"{manager.env['XDG_RUNTIME_DIR']}/haft/haftd.sock").returncode == 0
    refused = manager.run("haft", "setup", "service")
    assert (refused.returncode, "cannot be listed" in refused.stderr) == (2, True)
    assert manager.run("haft", "setup", "service", "--yes").returncode == 0
    assert str(answering(manager)) == manager.properties("haftd.service")["MainPID"]
