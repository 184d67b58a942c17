"""The wheel, installed from nothing by each installer, starts a daemon that holds a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.e2e.usermanager import UserManager, needs_user_manager
from tests.install.builds import ROOT, build, unpacked_sdist

pytestmark = pytest.mark.install

BIN = Path(sys.executable).parent
_TIMEOUT_S = 300


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as an index's users would build it."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build(ROOT, folder / "sdist", "sdist")
    return build(unpacked_sdist(sdist, folder / "tree"), folder / "wheel", "wheel")


class Machine:
    """A home without anything in it; the caches of the installers are shared between homes."""

    def __init__(self, home: Path, cache: Path) -> None:
        self.home = home
        runtime = home / "run"
        runtime.mkdir(mode=0o700)
        kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_", "SSL_"))}
        self.env = {
            **kept,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "PATH": f"{home}/.local/bin:{BIN}:/usr/bin:/bin",
            "UV_CACHE_DIR": str(cache / "uv"),
            "PIP_CACHE_DIR": str(cache / "pip"),
        }

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, words)),
            env=self.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    def out(self, *words: str | Path) -> str:
        """Run a command that has to succeed; return its standard output."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def machine(short_tmp: Path, cache: Path) -> Iterator[Machine]:
    machine = Machine(short_tmp, cache)
    yield machine
    programs = (*short_tmp.glob("venv/bin/haft"), *short_tmp.glob(".local/bin/haft"))
    in_cache = (*cache.glob("uv/archive-v0/*/bin/haft"), *short_tmp.glob(".cache/pipx/*/bin/haft"))
    for program in programs or in_cache[:1]:
        machine.run(program, "stop", "--yes")


def install(machine: Machine, installer: str, wheel: Path) -> Path:
    """Install the wheel; return the program `haft`."""
    program = machine.home / ".local" / "bin" / "haft"
    if installer == "venv":
        machine.out(sys.executable, "-m", "venv", machine.home / "venv")
        machine.out(machine.home / "venv" / "bin" / "python", "-m", "pip", "install", "-q", wheel)
        return machine.home / "venv" / "bin" / "haft"
    if installer == "uv":
        machine.out(BIN / "uv", "tool", "install", wheel)
    else:
        machine.out(BIN / "pipx", "install", wheel)
    return program


@pytest.mark.parametrize("installer", ["venv", "uv", "pipx"])
def test_an_installation_holds_a_shell_in_two_commands(
    machine: Machine, wheel: Path, installer: str
) -> None:
    haft = install(machine, installer, wheel)
    assert machine.out(haft, "version").startswith("haft 0.")
    machine.out(haft, "spawn", "shell", "--id", "work")
    machine.out(haft, "apply", "work", "--line", "x=41")
    assert "42\n" in machine.out(haft, "apply", "work", "--line", "echo $((x + 1))")
    steps = machine.out(haft, "setup", "completions", "man", "nvim", "--dry-run")
    assert "nvim/site/pack/haft/start/haft/plugin/haft.lua" in steps
    status = json.loads(machine.out(haft, "status", "--json"))
    assert status["problems"] == []
    python = haft.resolve().with_name("python")
    assert f"to run {python}" in machine.out(haft, "setup", "service", "--dry-run")
    machine.out(haft, "stop", "--yes")


@pytest.mark.parametrize("runner", ["uv", "pipx"])
def test_a_daemon_from_a_cache_reports_it_and_gets_no_service(
    machine: Machine, wheel: Path, runner: str
) -> None:
    uvx: list[str | Path] = [BIN / "uvx", "--from", wheel, "haft"]
    haft = uvx if runner == "uv" else [BIN / "pipx", "run", "--spec", wheel, "haft"]
    machine.out(*haft, "spawn", "shell", "--id", "work")
    status = json.loads(machine.out(*haft, "status", "--json"))
    assert runner in Path(status["cache"]).name
    log = (machine.home / ".local" / "state" / "haft" / "haftd.log").read_text()
    assert "in a cache" in log and status["cache"] in log
    doctor = machine.run(*haft, "doctor").stdout
    assert f"runs from the cache {status['cache']}" in doctor and "uv tool install haftd" in doctor
    refusal = machine.run(*haft, "setup", "service", "--dry-run").stderr
    assert f"would be refused: this haft runs from the cache {status['cache']}" in refusal
    machine.out(*haft, "stop", "--yes")


@pytest.fixture
def manager(short_tmp: Path) -> Iterator[UserManager]:
    manager = UserManager(short_tmp, short_tmp / ".local" / "share")
    yield manager
    manager.close()


class TestService:
    pytestmark: ClassVar = [*needs_user_manager]

    def test_one_command_finishes_an_installation_and_another_takes_it_back(
        self, manager: UserManager, wheel: Path, cache: Path
    ) -> None:
        env = {"UV_CACHE_DIR": str(cache / "uv")}
        installed = manager.run(str(BIN / "uv"), "tool", "install", str(wheel), env=env)
        assert installed.returncode == 0, installed.stderr
        before = _files(manager.home)
        haft = manager.home / ".local" / "bin" / "haft"
        setup = (str(haft), "setup", "service", "completions", "man")
        done = manager.run(*setup)
        assert done.returncode == 0, done.stderr
        unit = manager.home / ".config" / "systemd" / "user" / "haftd.service"
        assert f'ExecStart="{haft.resolve().with_name("python")}" -P -m haftd' in unit.read_text()
        status = json.loads(manager.run(str(haft), "status", "--json").stdout)
        assert str(status["pid"]) == manager.properties("haftd.service")["MainPID"]
        again = manager.run(*setup)
        assert (again.returncode, again.stderr.count("is set up already")) == (0, 3)
        assert manager.run(*setup, "--undo").returncode == 0
        assert _files(manager.home) == before


def _files(home: Path) -> set[Path]:
    """The files that are not the daemon's own, nor bytecode."""
    own = home / ".local" / "state"
    files = (path for path in home.rglob("*") if path.is_file() or path.is_symlink())
    return {path for path in files if path.suffix != ".pyc" and not path.is_relative_to(own)}
