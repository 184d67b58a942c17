"""The packed tools, each run with its program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from haft_protocol.errors import RpcError

from .definition_kit import PATH, OnTerminal, called, packed, program, refused, run

pytestmark = pytest.mark.skipif(shutil.which("setsid") is None, reason="needs util-linux's setsid")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
UNTOUCHED = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "PATH": PATH,
    "HOME": "/nowhere",
}


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *args],
        cwd=folder,
        env=UNTOUCHED,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_no_tool_is_known_to_the_code_by_its_name() -> None:
    """They are definitions like any other; a single line lists them."""
    folder = Path(__file__).parents[2] / "daemon" / "haftd"
    naming = [
        line
        for file in folder.rglob("*.py")
        for line in file.read_text().splitlines()
        if "git_stage" in line or "git_rebase" in line
    ]
    assert [line.partition(":")[0] for line in naming] == ["TOOLPACK"]


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    ("command", "stdout", "code"),
    [
        ("echo a && echo b", b"a\nb\n", 0),
        ("echo out > f; cat f", b"out\n", 0),
        ("cd /usr && pwd", b"/usr\n", 0),
        ("X='1 2'; printf '[%s]' \"$X\" $X | cat", b"[1 2][1][2]", 0),
        ("false || exit 3", b"", 3),
        ("-x; echo $?", b"127\n", 0),
        ("+x; echo $?", b"127\n", 0),
    ],
)
def test_a_command_of_run_is_a_shell_line(
    tmp_path: Path, shell: str, command: str, stdout: bytes, code: int
) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / shell).symlink_to(f"/bin/{shell}")
    root = tmp_path / "root"
    root.mkdir()
    done = run(called(packed("run"), {"command": command}, str(root), f"{bin}:/nowhere"))
    assert (done.stdout, done.returncode) == (stdout, code)


def test_argv_of_run_is_passed_unchanged(tmp_path: Path) -> None:
    own = packed("run")
    done = run(called(own, {"argv": ["printf", "[%s]", "a b", "$X", "&&", ">f"]}, str(tmp_path)))
    assert done.stdout == b"[a b][$X][&&][>f]"
    assert list(tmp_path.iterdir()) == []


def test_run_takes_a_program_or_a_command_only() -> None:
    for args in ({}, {"argv": ["a"], "command": "b"}):
        assert "exactly one of `argv`, `command`" in refused(packed("run"), args).message
    assert "shell: it is unknown" in refused(packed("run"), {"command": "a", "shell": True}).message


@needs_bash
def test_a_shell_has_a_plain_prompt_and_keeps_its_state(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("echo from-bashrc; PS1='odd> '\n")
    (tmp_path / ".bash_profile").write_text("echo from-profile; export LOGGED=in\n")
    base = {"PATH": PATH, "HOME": str(tmp_path), "PROMPT_COMMAND": "echo surprise", "TMOUT": "1"}
    with OnTerminal(
        called(packed("shell"), {"rows": 33, "cols": 99}, str(tmp_path)), base
    ) as shell:
        assert shell.until("$ ") == ""
        shell.line("mkdir sub; cd sub; x='it!works'")
        shell.until("\r\n")
        assert shell.until("$ ") == ""
        shell.line('echo "$x!" "${PWD##*/}" "$TERM" "$PAGER" "[$TMOUT$PROMPT_COMMAND$LOGGED]"')
        shell.until("\r\n")
        assert shell.until("$ ") == "it!works! sub xterm-256color cat []\r\n"
        shell.line("exit 3")
        assert shell.end() == 3
    assert not (tmp_path / ".bash_history").exists()


@needs_bash
def test_a_login_shell_reads_the_login_files(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("export LOGGED=in\n")
    base = {"PATH": PATH, "HOME": str(tmp_path)}
    with OnTerminal(called(packed("shell"), {"login": True}, str(tmp_path)), base) as shell:
        shell.line("echo [$LOGGED]")
        shell.until("[in]\r\n")


@needs_bash
def test_a_long_line_arrives_whole_with_editing(tmp_path: Path) -> None:
    """In canonical mode a terminal cuts a line silently at 4,095 bytes."""
    call = called(packed("shell"), {"editing": True}, str(tmp_path))
    with OnTerminal(call) as shell:
        shell.until("$ ")
        os.write(shell.master, f"x={'y' * 6000}\r".encode())
        shell.until("$ ")
        shell.line("echo length ${#x}")
        shell.until("length 6000")


@needs_git
def test_git_stage_stages_hunk_by_hunk(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    lines = [f"{n}\n" for n in range(40)]
    for name in ("a.txt", "--b.txt"):
        (tmp_path / name).write_text("".join(lines))
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "-qm", "one")
    lines[2], lines[30] = "first\n", "second\n"
    for name in ("a.txt", "--b.txt"):
        (tmp_path / name).write_text("".join(lines))
    config = tmp_path / "config"
    config.write_text("[interactive]\nsingleKey = true\ndiffFilter = false\n[color]\nui = always\n")
    base = {**UNTOUCHED, "GIT_CONFIG_GLOBAL": str(config)}
    call = called(packed("git_stage"), {"paths": ["--b.txt"]}, str(tmp_path))
    with OnTerminal(call, base) as stage:
        assert "\x1b[" not in stage.until("(1/2) Stage this hunk")
        stage.line("n")
        stage.until("(2/2) Stage this hunk")
        stage.line("y")
        assert stage.end() == 0
    staged = git(tmp_path, "diff", "--cached")
    assert "+second" in staged
    assert "+first" not in staged
    assert "a.txt" not in staged


@needs_git
def test_git_rebase_opens_an_editor_in_the_same_terminal(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("one", "two", "three"):
        git(tmp_path, "commit", "-qm", name, "--allow-empty")
    tools = tmp_path / "bin"
    tools.mkdir()
    program(
        tools,
        "vim",
        '#!/bin/sh\nprintf \'editing %s: \' "${1##*/}"; read x <&1; printf \'%s\\n\' "$x" >"$1"\n',
    )
    path = f"{tools}:{PATH}"
    call = called(packed("git_rebase"), {"onto": "HEAD~2"}, str(tmp_path), path)
    base = {**UNTOUCHED, "EDITOR": "false", "VISUAL": "false", "GIT_SEQUENCE_EDITOR": "false"}
    with OnTerminal(call, base) as rebase:
        rebase.until("editing git-rebase-todo: ")
        rebase.line(f"reword {git(tmp_path, 'rev-parse', 'HEAD').strip()}")
        rebase.until("editing COMMIT_EDITMSG: ")
        rebase.line("another")
        assert rebase.end() == 0
    assert git(tmp_path, "log", "--format=%s").split() == ["another", "one"]


@needs_git
def test_git_rebase_without_an_editor_reports_it(tmp_path: Path) -> None:
    with pytest.raises(RpcError) as caught:
        called(packed("git_rebase"), {"onto": "HEAD~1"}, str(tmp_path), str(tmp_path))
    assert "none of these programs is installed: vim, vi, nvim, nano" in caught.value.message
