"""The strategy for overseer.nvim: its tasks are handles, which outlive the editor."""

from __future__ import annotations

import pytest

from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon

pytestmark = pytest.mark.clients

# A task as overseer.nvim gives it to a strategy.
TASK = """
local command = ...
vim.g.lines, vim.g.status = "", -1
local task = {cmd = command, name = "a task!", cwd = vim.fn.getcwd(), env = {GREETING = "hi"}}
function task:dispatch(name, lines)
  if name == "on_output_lines" then
    vim.g.lines = vim.g.lines .. table.concat(lines, "|") .. "|"
  end
end
function task:on_exit(status) vim.g.status = status end
Strategy = require("overseer.strategy.haft").new()
Strategy:start(task)
"""


def test_output_and_status_reach_the_task(editor: Editor) -> None:
    editor.lua(TASK, ["sh", "-c", "echo $GREETING; echo two; printf rest; exit 4"])
    assert editor.wait("vim.g.status >= 0 and vim.g.status") == 4
    assert editor.lua("return vim.g.lines") == "hi|two|rest|"
    name = editor.lua("return vim.api.nvim_buf_get_name(Strategy:get_bufnr())")
    assert name.startswith("haft://default/a-task-.")


def test_a_stopped_task_has_the_status_of_its_signal(editor: Editor, daemon: RunningDaemon) -> None:
    editor.lua(TASK, ["cat"])
    editor.wait("Strategy.id")
    editor.lua("Strategy:stop()")
    assert editor.wait("vim.g.status >= 0 and vim.g.status") in (128 + 1, 128 + 15)


def test_a_command_that_cannot_start_ends_its_task(editor: Editor) -> None:
    editor.lua(TASK, ["/no/such/program"])
    assert editor.wait("vim.g.status >= 0 and vim.g.status") != 0
