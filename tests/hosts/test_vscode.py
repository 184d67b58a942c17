"""The core of the extension for VS Code shows the handles of another machine, by `HAFT_HOST` and by its setting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import until
from tests.hosts.conftest import Box
from tests.pairs.drivers import VSCode
from tests.vscode.core import core_command

pytestmark = pytest.mark.clients


class Editor(VSCode):
    """The core on this machine, for a daemon of `box`."""

    def __init__(self, box: Box, folder: Path, host: str | None, **env: str) -> None:
        super().__init__(box.daemon, folder)
        self._env = {**box.env, "PATH": box.path, **env}
        self._host = host
        if host is not None:
            del self._env["HAFT_HOST"]

    def _command(self) -> list[str]:
        return [*super()._command(), *([] if self._host is None else [self._host])]

    def _environment(self) -> dict[str, str]:
        return self._env

    def failure(self, action: str) -> str:
        """Return the error of an action."""
        self._start("sh")
        answer = self.reply(action, "sh")
        assert isinstance(answer, dict), answer
        error: str = answer["error"]
        return error


@pytest.fixture(autouse=True)
def built() -> None:
    if core_command() is None:
        pytest.skip("needs the built core of the extension for VS Code")


@pytest.fixture(params=["variable", "setting"])
def editor(request: pytest.FixtureRequest, box: Box, tmp_path: Path) -> Iterator[Editor]:
    opened = Editor(box, tmp_path / "editor", box.address if request.param == "setting" else None)
    yield opened
    if opened.is_running:
        opened.kill()


def test_a_shell_of_another_machine_is_a_terminal_and_is_found_again(
    editor: Editor, box: Box
) -> None:
    editor.shell("vsc")
    editor.type("echo $((40+2)) $PWD\r")
    editor.wait(f"42 {box.daemon.home}")
    box.cut()  # both connections of the editor
    until(lambda: "vsc [not connected]" in str(editor.reply("names", "vsc")), "the loss is shown")
    until(lambda: isinstance(editor.reply("connect", "vsc"), str), "a new connection")
    editor.type("echo $((40+3))\r")
    editor.wait("43")
    assert editor.shown().count(f"42 {box.daemon.home}") == 1
    editor.kill()
    editor.show("vsc")
    editor.wait("43")
    assert box.haft("abort", "vsc").returncode == 0


def test_a_refusal_is_one_sentence_with_the_remedy(box: Box, tmp_path: Path) -> None:
    (box.folder / "nothing").touch()
    editor = Editor(box, tmp_path / "editor", None, HAFT_SSH=box.ssh(known="nothing"))
    failure = editor.failure("shell")
    editor.kill()
    assert failure.startswith("ssh does not know the host key of ") and os.linesep not in failure
