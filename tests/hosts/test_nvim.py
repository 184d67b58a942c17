"""Neovim shows the handles of another machine by `HAFT_HOST` and by its option."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.conftest import Box
from tests.nvim.conftest import programs
from tests.nvim.editor import Editor

pytestmark = pytest.mark.clients


@pytest.fixture(params=["variable", "option"])
def editor(request: pytest.FixtureRequest, box: Box, tmp_path: Path) -> Iterator[Editor]:
    installed = [*programs().values()]
    if not installed:
        pytest.skip("needs Neovim")
    env = {**box.env, "PATH": box.path}
    if request.param == "option":
        del env["HAFT_HOST"]
    opened = Editor(installed[-1], env, tmp_path / "editor", tmp_path)
    if request.param == "option":
        opened.lua(f"vim.g.haft = {{ host = '{box.address}' }}")
    yield opened
    opened.kill()


def test_a_shell_of_another_machine_is_a_buffer(editor: Editor, box: Box) -> None:
    editor.command("Haft shell sh")
    editor.wait("vim.api.nvim_buf_get_name(0) == 'haft://default/sh'")
    # The buffer can be typed into once the program has drawn anything, its prompt.
    editor.wait("table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false)):find('%S')")
    editor.keys("iecho $((40+2)) $PWD<CR>")
    editor.wait_for_text(f"42 {box.daemon.home}")
    listed = box.haft("ps").stdout.decode()
    assert "sh" in listed
    assert box.haft("abort", "sh").returncode == 0
