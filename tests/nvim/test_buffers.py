"""The list, logs, searches, and what is sent from other buffers."""

from __future__ import annotations

import pytest

from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon

pytestmark = pytest.mark.clients


@pytest.fixture
def cat(daemon: RunningDaemon) -> str:
    """A handle that prints each line that it is given."""
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="cat", args={"argv": ["cat"]}, wait="none")
    return "cat"


def printed(daemon: RunningDaemon, end: str) -> str:
    with daemon.connect() as wire:
        state = wire.call("fetch", id="cat", cursor=0, wait="pattern", pattern=end)
    content: str = state["content"]
    return content


def test_the_list_shows_what_runs_and_follows_it(
    editor: Editor, daemon: RunningDaemon, cat: str
) -> None:
    editor.command("Haft")
    editor.wait_for_text("default/cat")
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="two", args={"argv": ["cat"]}, session="other")
        editor.wait_for_text("other/two")
        wire.call("abort", id="two", session="other")
    editor.wait_for_text("killed by SIGTERM")


def test_a_forgotten_handle_leaves_the_list(
    editor: Editor, daemon: RunningDaemon, cat: str
) -> None:
    editor.command("Haft")
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="two", args={"argv": ["cat"]}, session="other")
        editor.wait_for_text("other/two")
        wire.call("session/close", session="other")
    editor.wait("not table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false)):find('other/two')")
    assert "default/cat" in editor.text()


def test_return_in_the_list_shows_the_handle(editor: Editor, cat: str) -> None:
    editor.command("Haft")
    editor.wait_for_text("default/cat")
    editor.lua("vim.fn.search('default/cat')")
    editor.keys("<CR>")
    editor.wait("vim.api.nvim_buf_get_name(0) == 'haft://default/cat'")


def test_a_search_leads_to_the_line(editor: Editor, daemon: RunningDaemon, cat: str) -> None:
    with daemon.connect() as wire:
        wire.call("apply", id="cat", input={"text": "one\ntwo [x]\nthree\n"})
    printed(daemon, "three")
    editor.command("Haft search tw.")
    editor.wait("vim.bo.buftype == 'quickfix'")
    editor.command("cc 1")
    assert editor.call("nvim_buf_get_name", 0) == "haft-log://default/cat"
    assert editor.call("nvim_get_current_line") == "two [x]"
    assert editor.text() == "one\ntwo [x]\nthree"


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ("ggghh", "öne two\n"),
        ("gg2ghh", "öne two\nthree föur\n"),
        ("ggghiw", "öne\n"),
        ("ggwghe", "two\n"),
        ("ggvegh", "öne\n"),
        ("ggVjgh", "öne two\nthree föur\n"),
        ("ggjwghe", "föur\n"),
    ],
)
def test_lines_motions_and_selections_are_sent(
    editor: Editor, daemon: RunningDaemon, cat: str, keys: str, sent: str
) -> None:
    editor.lua(
        "vim.keymap.set('n', 'gh', '<Plug>(haft-send)', {remap = true})"
        "vim.keymap.set('n', 'ghh', '<Plug>(haft-send-line)', {remap = true})"
        "vim.keymap.set('x', 'gh', '<Plug>(haft-send)', {remap = true})"
        "vim.b.haft_target = 'cat'"
    )
    editor.call("nvim_buf_set_lines", 0, 0, -1, False, ["öne two", "three föur", "five"])
    editor.keys(keys)
    editor.lua("vim.wait(200)")
    editor.command("Haft send cat end")
    assert printed(daemon, "end") == sent + "end\n"


def test_a_range_is_sent_as_one_input(editor: Editor, daemon: RunningDaemon, cat: str) -> None:
    editor.call("nvim_buf_set_lines", 0, 0, -1, False, ["a", "b", "end"])
    editor.command("1,3Haft send cat")
    assert printed(daemon, "end") == "a\nb\nend\n"


def test_health_reports_the_daemon(editor: Editor, daemon: RunningDaemon, cat: str) -> None:
    editor.command("checkhealth haft")
    text = editor.text()
    assert f"(pid {daemon.pid}, protocol 1" in text and "1 live handles of 1" in text
    assert "ERROR" not in text


def test_no_daemon_is_an_error_that_names_the_socket(editor: Editor, daemon: RunningDaemon) -> None:
    daemon.stop()
    editor.lua("vim.notify = function(text) vim.g.shown = text end")
    editor.lua("require('haft').watch() vim.wait(2000, function() return vim.g.shown end)")
    editor.lua("vim.g.haft = {connect = {'no-such-program'}}")
    editor.command("Haft attach x")
    shown = editor.wait("vim.b.haft_note")
    assert "`no-such-program` is not found" in shown
