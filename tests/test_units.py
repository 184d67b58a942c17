"""The systemd units, checked by systemd."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[1] / "systemd"


def read(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser


def test_systemd_accepts_the_units(short_tmp: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    units = short_tmp / "units"
    units.mkdir()
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("%h/.local/bin/haftd", "/bin/true")
        (units / unit.name).write_text(text)
    done = subprocess.run(
        [analyze, "--user", "verify", *map(str, units.iterdir())],
        env={**os.environ, "XDG_RUNTIME_DIR": str(short_tmp), "HOME": str(short_tmp)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_L09_the_start_limit_is_in_the_effective_section() -> None:
    unit = read("haftd.service")
    assert "StartLimitIntervalSec" in unit["Unit"]
    assert "StartLimitIntervalSec" not in unit["Service"]


def test_the_daemon_is_signalled_first_and_nothing_stays() -> None:
    service = read("haftd.service")["Service"]
    assert service["KillMode"] == "mixed"
    assert service["Type"] == "notify"
    assert service["Delegate"] == "yes"
    assert service["OOMPolicy"] == "continue"
    assert int(service["WatchdogSec"]) >= 10
    assert set(service["RestartPreventExitStatus"].split()) == {"75", "78"}


def test_no_variable_that_a_tool_would_inherit_is_set() -> None:
    service = read("haftd.service")["Service"]
    for key in service:
        assert not key.startswith(("Limit", "Private", "Protect", "Restrict")), key
        assert key not in ("UMask", "NoNewPrivileges", "RuntimeDirectory", "SystemCallFilter")


def test_U02_and_U03_the_socket_is_private_to_the_user() -> None:
    sock = read("haftd.socket")["Socket"]
    assert sock["ListenStream"] == "%t/haft/haftd.sock"
    assert sock["SocketMode"] == "0600"
    assert sock["DirectoryMode"] == "0700"
    assert sock["FileDescriptorName"] == "rpc"
