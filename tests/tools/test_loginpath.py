"""The PATH of the login shell, asked once, within a time, leaving nothing behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from haftd.tools.calls import loginpath
from tests.patience import PATIENCE_S

from .definition_kit import program

SHELLS = [path for name in ("sh", "bash", "zsh", "fish") if (path := shutil.which(name))]
POSIX = [path for path in SHELLS if path.endswith("sh") and not path.endswith(("zsh", "fish"))]


def home(folder: Path, profile: str) -> dict[str, str]:
    (folder / ".profile").write_text(profile)
    return {"HOME": str(folder), "PATH": "/usr/bin:/bin:/only/ours"}


@pytest.mark.parametrize("shell", POSIX)
def test_RB_078_the_profiles_additions_are_found(tmp_path: Path, shell: str) -> None:
    profile = 'echo hello; echo "warning" >&2; PATH="$HOME/bin:.:$PATH"; export PATH\n'
    learnt = loginpath.learn(home(tmp_path, profile), shell, PATIENCE_S)
    assert learnt is not None
    folders = learnt.split(":")
    assert folders[0] == f"{tmp_path}/bin"
    assert "." not in folders
    assert "/only/ours" in folders
    assert len(folders) == len(set(folders))


def test_a_hanging_profile_is_abandoned_and_ended(tmp_path: Path) -> None:
    (tmp_path / "pid").touch()
    env = home(tmp_path, 'echo $$ > "$HOME/pid"; sleep 600\n')
    assert loginpath.learn(env, "/bin/sh", 0.3) is None
    pid = (tmp_path / "pid").read_text().strip()
    assert not pid or not Path("/proc", pid).exists()  # ended even before its first command


def test_processes_left_by_a_profile_are_not_waited_for(tmp_path: Path) -> None:
    # One that was waited for would give nothing.
    assert loginpath.learn(home(tmp_path, "sleep 600 &\n"), "/bin/sh", PATIENCE_S) is not None


@pytest.mark.parametrize("profile", ["exit 3\n", "exec /nowhere\n", "exec >/dev/null\n"])
def test_a_failing_profile_gives_nothing(tmp_path: Path, profile: str) -> None:
    assert loginpath.learn(home(tmp_path, profile), "/bin/sh", 5) is None


def test_endless_output_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, sizes = os.read, list[int]()

    def counted(fd: int, size: int) -> bytes:
        data = read(fd, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "read", counted)
    assert loginpath.learn(home(tmp_path, "yes\n"), "/bin/sh", PATIENCE_S) is None
    assert 0 < sum(sizes) < 512 * 1024


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false", "/no/such/shell", "bash", ""])
def test_a_non_shell_is_not_asked(tmp_path: Path, shell: str) -> None:
    assert loginpath.learn(home(tmp_path, ""), shell) is None


def test_an_unusual_shell_is_read_the_same_way(tmp_path: Path) -> None:
    """Only the question goes through the shell; sh prints the answer."""
    odd = program(tmp_path, "oddsh", '#!/bin/sh\nPATH=/odd:/usr/bin:/bin; export PATH\neval "$3"\n')
    learnt = loginpath.learn({"PATH": "/x"}, str(odd), PATIENCE_S)
    assert learnt == "/odd:/usr/bin:/bin:/x"


@pytest.mark.parametrize(
    ("path", "bare"),
    [
        ("/usr/bin:/bin", True),
        ("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin", True),
        ("", True),
        (None, True),
        ("/home/a/.local/bin:/usr/bin", False),
        ("/opt/x/bin:/usr/bin", False),
    ],
)
def test_a_bare_path_is_the_systems_default(path: str | None, bare: bool) -> None:
    assert loginpath.is_bare(path) == bare


def test_the_login_shell_is_the_users() -> None:
    assert loginpath.find_login_shell({"SHELL": "/bin/x"}, 0) == "/bin/x"
    assert loginpath.find_login_shell({"SHELL": "x"}, 0).startswith("/")
    assert loginpath.find_login_shell({}, 4_000_000_000) == "/bin/sh"
