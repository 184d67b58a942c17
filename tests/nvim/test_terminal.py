"""Handles in Neovim's buffers: drawn live, typed into, and found again after each loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness import until
from tests.nvim.conftest import OpenEditor
from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon

pytestmark = pytest.mark.clients


def test_a_shell_is_shown_and_typed_into(editor: Editor) -> None:
    editor.command("Haft shell work")
    editor.wait_for_text("$")
    assert editor.call("nvim_buf_get_name", 0) == "haft://default/work"
    editor.keys("iecho $((6*7))<CR>")
    editor.wait_for_text("\n42")


def test_keys_before_the_terminal_is_there_do_not_change_the_buffer(editor: Editor) -> None:
    marks = (
        "vim.cmd('edit haft://default/none') vim.cmd('silent! normal! itext')"
        " local space = vim.api.nvim_get_namespaces().haft"
        " return vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {details = true})"
    )
    assert editor.lua(marks)[0][3]["virt_text"] == [["[opening]", "Comment"]]
    assert editor.text() == "" and not editor.lua("return vim.bo.modified")


def test_a_handle_that_is_not_there_is_an_error(editor: Editor) -> None:
    """Without a user interface the message is all that shows it."""
    editor.command("Haft attach none")
    until(
        lambda: "There is no handle 'none'" in editor.lua("return vim.fn.execute('messages')"),
        "a message",
    )


def test_a_handle_outlives_its_editor_and_is_there_with_all_its_output(
    open_editor: OpenEditor,
) -> None:
    first = open_editor()
    first.command("Haft shell work")
    first.wait_for_text("$")
    first.lua("require('haft').send('work', 'seq 300 399')")
    first.wait_for_text("\n399")
    first.kill()
    second = open_editor()
    second.command("edit haft://default/work")
    text = second.wait_for_text("\n399")
    assert [str(number) for number in range(300, 400)] == text.splitlines()[1:101]


def test_a_restarted_connection_goes_on_at_its_cursor(
    editor: Editor, daemon: RunningDaemon
) -> None:
    editor.command("Haft shell work")
    editor.wait_for_text("$")
    editor.lua("require('haft').send('work', 'echo before')")
    editor.wait_for_text("\nbefore")
    editor.lua(
        "vim.g.lost = 0; vim.cmd [[autocmd User HaftDisconnected let g:lost += 1]]"
        " require('haft.client').drop()"
    )
    with daemon.connect() as wire:
        wire.call("apply", id="work", input={"line": "echo mean''while"})
    editor.wait("vim.g.lost == 1")
    text = editor.wait_for_text("meanwhile")
    assert text.count("before") == 2 and text.count("meanwhile") == 1


def test_a_terminals_query_is_answered_once(editor: Editor) -> None:
    script = r"printf '\033[6n'; IFS= read -rs -t 1 -d R a; read -rs -t 1 b; printf '<%q|%q>' $a $b"
    editor.command(f"Haft run stty -echo -icanon; {script}; cat")
    text = editor.wait_for_text(">")
    assert "|''>" in text, text


def copy_by_command(editor: Editor, file: Path) -> None:
    """Have the editor write the clipboard to a file."""
    command = ["sh", "-c", f"cat > {file}"]
    editor.lua(
        "local copy = ...; vim.g.clipboard = {name = 'file', copy = {['+'] = copy, ['*'] = copy},"
        " paste = {['+'] = {'true'}, ['*'] = {'true'}}}",
        command,
    )


def test_what_a_program_writes_to_the_clipboard_is_left_out(editor: Editor, tmp_path: Path) -> None:
    copy_by_command(editor, tmp_path / "copied")
    editor.command(r"Haft run printf '\033]52;c;aGVsbG8=\007done'; cat")
    editor.wait_for_text("done")
    assert not (tmp_path / "copied").exists()


def test_a_program_may_write_the_clipboard_where_the_person_lets_it(
    editor: Editor, tmp_path: Path
) -> None:
    if not editor.lua("return vim.fn.has('nvim-0.11') == 1"):
        pytest.skip("this Neovim lets no program write the clipboard")
    copy_by_command(editor, tmp_path / "copied")
    editor.lua("require('haft').setup({clipboard = true})")
    editor.command(r"Haft run printf '\033]52;c;aGVsbG8=\007done'; cat")
    editor.wait_for_text("done")
    until(
        lambda: (tmp_path / "copied").exists() and (tmp_path / "copied").read_text() == "hello",
        "copied",
    )


def test_the_end_of_a_handle_is_told_in_words(editor: Editor) -> None:
    editor.command("Haft run exit 3")
    assert editor.wait("vim.b.haft_note") == "exited with status 3"


def test_lines_are_sent_to_a_pipe(editor: Editor, daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="pipe", args={"argv": ["cat"]}, wait="none")
    editor.command("Haft attach pipe")
    editor.wait("vim.b.haft_id == 'pipe'")
    editor.lua("vim.ui.input = function(options, done) done('first') end;")
    editor.wait("vim.fn.maparg('i', 'n') ~= ''")
    editor.keys("i")
    editor.wait_for_text("first")
