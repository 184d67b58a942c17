"""The help file, the command's words and their completion agree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from haft.cli.shared_files import PARTS
from haft.installation import nvim_plugin
from tests.nvim.editor import PLUGIN, Editor

pytestmark = pytest.mark.clients


def test_each_subcommand_has_a_help_tag(editor: Editor) -> None:
    names = editor.lua("return require('haft.command').names()")
    text = (PLUGIN / "doc" / "haft.txt").read_text()
    assert set(re.findall(r"\*:Haft-(\w+)\*", text)) | {"list"} == set(names)
    assert max(len(line) for line in text.splitlines()) <= 79


def test_words_complete_without_a_daemon_being_started(editor: Editor) -> None:
    assert editor.lua("return vim.fn.getcompletion('Haft at', 'cmdline')") == ["attach"]
    assert editor.lua("return require('haft.client').state") == "closed"


def test_an_unknown_word_names_those_that_are_known(editor: Editor) -> None:
    editor.lua("vim.notify = function(text) vim.g.shown = text end")
    editor.command("Haft frob")
    shown = editor.lua("return vim.g.shown")
    assert shown.startswith('haft: ":Haft frob" is unknown; it is one of: abort, ')


def test_setup_writes_the_tags_that_neovim_writes(nvim: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tags,) = [path for path in PARTS["nvim"](env) if path.name == "tags"]
    shutil.copytree(nvim_plugin() / "doc", tmp_path / "doc", ignore=shutil.ignore_patterns("tags"))
    command = [nvim, "--headless", "-u", "NONE", "-c", f"helptags {tmp_path}/doc", "-c", "q"]
    subprocess.run(command, env=env, check=True, capture_output=True)
    assert (tmp_path / "doc" / "tags").read_bytes() == PARTS["nvim"](env)[tags]
