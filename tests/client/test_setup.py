from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from haft import Haft
from haft.__main__ import main
from haft.cli.commands import setup
from haft.cli.commands.setup import _Running
from haft.cli.service_units import quoted
from haft.errors import SetupFailed
from haft.usermanager import AbsentManager, UserManager
from tests.running_daemon import RunningDaemon

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no user manager runs."""
    monkeypatch.setenv("HOME", str(short_tmp))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_tmp / "run"))
    for name in ("HAFT_SOCKET", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return short_tmp


@pytest.mark.parametrize("words", [[], ["--yes"]])
def test_nothing_is_left_without_a_user_manager(
    home: Path, capsys: Capture, words: list[str]
) -> None:
    assert main(["setup", "service", *words]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "systemd" in err and err.count("\n") == 1
    assert "without a service the first `haft spawn` starts the daemon" in err
    assert list(home.iterdir()) == []


def test_without_a_user_manager_the_other_parts_are_written_and_undone(
    home: Path, capsys: Capture
) -> None:
    page = home / ".local/share/man/man1/haft.1"
    assert main(["setup", "service", "man"]) == 1
    assert "haft setup: service: no systemd user manager" in capsys.readouterr().err
    assert page.exists()
    assert main(["setup", "service", "man", "--undo"]) == 0, "no service was set up"
    assert not page.exists()


def test_a_service_is_not_undone_without_a_user_manager(home: Path, capsys: Capture) -> None:
    units = home / ".config/systemd/user"
    units.mkdir(parents=True)
    for name in ("haftd.service", "haftd.socket"):
        (units / name).write_text("[Unit]\n")
    assert main(["setup", "service", "--undo", "--replace"]) == 1
    assert "nothing was changed: no systemd user manager" in capsys.readouterr().err
    assert len(list(units.iterdir())) == 2


def test_a_dry_run_needs_no_user_manager(home: Path, capsys: Capture) -> None:
    assert main(["setup", "service", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert f"write haftd.socket and haftd.service to {home}/.config/systemd/user, to run " in out
    assert "would be refused: no systemd user manager can be reached" in err
    assert main(["setup", "service", "--dry-run", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert len(reply["steps"]) >= 2 and len(reply["obstacles"]) == 1 and not reply["done"]
    assert main(["setup", "service", "--undo", "--dry-run"]) == 0
    assert "there is nothing to remove" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_a_dry_run_names_each_reason_of_a_refusal(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "is_in_handle", lambda: True)
    assert main(["setup", "service", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "would:" in out
    assert "would be refused: a program that haftd runs cannot change how haftd is run" in err
    assert "would be refused: no systemd user manager" in err
    assert main(["setup", "service"]) == 2


@pytest.mark.parametrize("words", [["man"], ["service"], ["service", "--dry-run"]])
def test_setup_is_of_this_machine_also_by_the_environment(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("HAFT_HOST", "ssh://me@box")
    assert main(["setup", *words]) == 2
    err = capsys.readouterr().err
    assert "run `ssh me@box haft setup` for that one, or unset HAFT_HOST" in err
    assert list(home.iterdir()) == []


def test_a_service_of_a_program_in_a_cache_is_refused(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "cache_folder", lambda: "/home/me/.cache/uv")
    monkeypatch.setattr(
        UserManager,
        "connect",
        lambda: AbsentManager.of({"XDG_RUNTIME_DIR": "/run/x", "HOME": str(home)}),
    )
    monkeypatch.setattr(setup, "find_socket", lambda chosen: "/run/x/haft/haftd.sock")
    assert main(["setup", "service", "--yes"]) == 1
    error = capsys.readouterr().err
    assert "/home/me/.cache/uv" in error and "uv tool install haftd" in error
    assert main(["setup", "service", "--dry-run"]) == 0
    assert "would be refused" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_missing_systemctl_is_reported(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert main(["setup", "service", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "setup" and "`systemctl` is not in PATH" in error["message"]


def test_setup_under_haftd_is_refused(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_HANDLE", "x")
    assert main(["setup", "service", "--yes"]) == 2
    assert "your own terminal" in capsys.readouterr().err


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_handle_started_after_the_confirmation_is_not_ended_unasked(
    make_daemon: Callable[..., RunningDaemon], is_agreed: bool
) -> None:
    daemon = make_daemon().start()
    with Haft.connect(str(daemon.socket)) as haft, daemon.connect() as wire:
        running = _Running(haft, 0)
        wire.call("spawn", tool="run", id="late", args={"argv": ["sleep", "300"]}, wait="none")
        if is_agreed:
            running.stop(is_agreed=True)
            assert daemon.process is not None and daemon.process.wait(20) == 0
            return
        with pytest.raises(SetupFailed, match=r"1 handle: late \(run\)"):
            running.stop(is_agreed=False)
        assert wire.call("fetch", id="late")["state"] == "running"


def test_a_word_in_a_unit_is_quoted() -> None:
    """See systemd.syntax(7): `%` is a specifier everywhere, `$` a variable in a command line."""
    assert quoted('/a b/"c"\\d%h$e') == '"/a b/\\"c\\"\\\\d%%h$e"'
    assert quoted("/a$b", exec_start=True) == '"/a$$b"'
