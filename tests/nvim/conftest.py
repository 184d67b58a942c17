"""Two Neovims (the distribution's and a current one), and a daemon for each test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon

OpenEditor = Callable[[], Editor]


def programs() -> dict[str, str]:
    """Return the Neovims that are installed, by version."""
    candidates = [shutil.which("nvim", path="/usr/local/bin:/usr/bin")]
    candidates.append(shutil.which("nvim", path=str(Path(sys.executable).parent)))
    found = {}
    for program in candidates:
        if program is not None:
            text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            found[text.split()[1]] = program
    return found


@pytest.fixture(params=[*programs().items()] or [("none", "")], ids=lambda item: item[0])
def nvim(request: pytest.FixtureRequest) -> str:
    program: str = request.param[1]
    if not program:
        pytest.skip("needs Neovim")
    return program


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    running = RunningDaemon(tmp_path / "daemon").start()
    yield running
    running.close()


@pytest.fixture
def open_editor(nvim: str, daemon: RunningDaemon, tmp_path: Path) -> Iterator[OpenEditor]:
    opened: list[Editor] = []
    folder = tmp_path / "project"
    folder.mkdir()

    def open_one() -> Editor:
        editor = Editor(nvim, daemon.env, tmp_path / "editor", folder)
        opened.append(editor)
        return editor

    yield open_one
    for editor in opened:
        editor.kill()


@pytest.fixture
def editor(open_editor: OpenEditor) -> Editor:
    return open_editor()
