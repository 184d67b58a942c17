"""`haft __complete`, and the completions of bash, zsh and fish that ask it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from haft.__main__ import main
from haft.cli import COMMANDS
from haft.cli import completion as completion_module
from haft.cli.completion import complete
from haft.cli.parsers import command_parser
from haft.installation import completion
from haftd.runtimes.keys import read_key
from tests.client.conftest import Serve
from tests.client.fake import Refuse, running, stopped
from tests.client.person import Place
from tests.patience import PATIENCE_S

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the daemon as long as it takes: a busy one has no 0.2 s."""
    monkeypatch.setattr(completion_module, "_ANSWER_S", PATIENCE_S)


def values(line: str) -> list[str]:
    """Return the candidates for the last word of a line behind `haft`."""
    return [value for value, _ in complete(shlex.split(line.replace("|", "''")))]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lo", ["logs"]),
        ("--js", ["--json"]),
        ("--session s lo", ["logs"]),
        ("help lo", ["logs"]),
        ("hel", ["help"]),
        ("help hel", []),
        ("help logs |", []),
        ("help logs --", []),
        ("spawn --wait inp", ["input"]),
        ("spawn --wait=inp", ["--wait=input"]),
        ("spawn run --wai", ["--wait"]),
        ("spawn run --wait input --wai", []),
        ("spawn run --arg a=b --ar", ["--arg", "--args"]),
        ("mcp inst", ["install"]),
        ("mcp install vs", ["vscode"]),
        ("apply a --signal KI", ["KILL"]),
        ("apply a --keys Up Do", ["Down"]),
        ("apply a --keys Up --ey", []),
        ("completion f", ["fish"]),
        ("nothing |", []),
        ("init |", []),
        ("run --id |", []),
        ("ps |", []),
    ],
)
def test_words_of_the_parsers_are_completed(line: str, offered: list[str]) -> None:
    assert values(line) == offered


def test_every_line_has_a_value_and_a_description(capsys: Capture) -> None:
    assert main(["__complete", "lo", "haft", "lo"]) == 0
    assert capsys.readouterr().out == "logs\tshow all output of a handle, or follow it\n"


def test_files_and_programs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    program = tmp_path / "prog"
    program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert values("--root f") == ["folder/"]
    assert sorted(values("--socket f")) == ["file", "folder/"]
    assert values("spawn run -- pr") == ["prog"]
    assert values("spawn run -- prog fi") == ["file"]


def _info(state: dict[str, object], command: str) -> dict[str, object]:
    extra = {"command": command, "root": "/", "started_at": 1.0, "age_s": 1.0, "bytes": 0}
    return {**state, **extra}


def test_handles_are_completed_with_state_and_command(serve: Serve, capsys: Capture) -> None:
    handles = [_info(running("build"), "make -j4"), _info(stopped("bench"), "make bench")]
    daemon = serve(lambda request, peer: {"handles": handles})
    assert main(["__complete", "b", "haft", "--session", "s", "logs", "b"]) == 0
    assert capsys.readouterr().out == (
        "build\trunning, run: make -j4\nbench\tstopped, run: make bench\n"
    )
    assert daemon.calls("handles/list")[0]["session"] == "s"
    assert values("abort |") == ["build"]
    assert values("await build |") == []
    assert values("spawn run --id |") == []
    assert values("spawn run --stdin-from |") == ["build", "bench"]


def test_handles_that_wait_for_a_person_are_completed_first_and_stopped_ones_last(
    serve: Serve,
) -> None:
    question = {"id": "q", "text": "?", "answer_type": {"type": "text"}}
    asking = {**running("c"), "state": "waiting", "question": question, "needs": "answer"}
    states = [stopped("a"), running("b"), asking]
    serve(lambda request, peer: {"handles": [_info(state, "x") for state in states]})
    assert values("logs |") == ["c", "b", "a"]


def test_an_answer_is_completed_from_the_open_question(serve: Serve) -> None:
    question = {
        "id": "q",
        "text": "which?",
        "answer_type": {"type": "select", "options": ["left", "right"]},
    }
    asking = {**running("a"), "state": "waiting", "question": question}
    serve(lambda request, peer: {"handles": [_info(asking, "x")]})
    assert values("apply a |") == ["left", "right"]


def test_open_approvals_are_completed_by_their_ids(serve: Serve, capsys: Capture) -> None:
    approval = {
        "approval_id": "7",
        "session": "s",
        "tool": "run",
        "action": "spawn",
        "id": "build",
        "arguments": {},
        "rendered": "",
        "mode": "ask",
    }
    daemon = serve(lambda request, peer: {"approvals": [approval]})
    assert main(["__complete", "b", "haft", "approve", ""]) == 0
    assert "7\tbuild: run\n" in capsys.readouterr().out
    assert main(["__complete", "b", "haft", "--session", "s", "approve", ""]) == 0
    assert [call["session"] for call in daemon.calls("approvals/list")] == ["*", "s"]


def test_arguments_of_a_tool_are_completed_from_its_schema(serve: Serve) -> None:
    properties = {
        "path": {"type": "string", "description": "the file"},
        "lines": {"type": "integer"},
        "files": {"type": "array"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
    }
    tool = {
        "name": "edit",
        "tool": "edit",
        "description": "Edit a file.\nMore.",
        "parameters": {"type": "object", "properties": properties},
        "stateful": True,
        "actions": [],
        "source": "user",
        "runtime": "raw",
    }
    serve(lambda request, peer: {"tools": [tool]})
    assert list(complete(["spawn", "e"])) == [("edit", "Edit a file.")]
    assert values("spawn edit --arg |") == ["path=", "lines=", "files:=", "mode=fast", "mode=slow"]
    assert values("spawn edit --arg mode=fast --arg l") == ["lines="]
    assert values("spawn edit --arg=mo") == ["--arg=mode=fast", "--arg=mode=slow"]


def test_a_tools_own_parameter_with_a_name_of_the_call_is_completed(serve: Serve) -> None:
    reading = {name: {"type": "string", "description": name} for name in ("wait", "view")}
    own = {"wait": {"type": "integer"}, "path": {"type": "string"}}
    variants = [
        {
            "properties": {"action": {"const": "spawn"}, "id": {}, **reading, **own},
            "required": ["path"],
        },
        {"properties": {"action": {"const": "fetch"}, "id": {"type": "string"}, **reading}},
    ]
    tool = {
        "name": "edit",
        "tool": "edit",
        "description": "",
        "parameters": {"type": "object", "oneOf": variants},
        "stateful": True,
        "actions": ["spawn", "fetch"],
        "source": "user",
        "runtime": "raw",
    }
    serve(lambda request, peer: {"tools": [tool]})
    assert values("spawn edit --arg |") == ["path=", "wait="]


def test_the_daemons_own_lists_are_completed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option and argument of each command, with the replies of a real daemon."""
    for name, value in place.daemon.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HAFT_SOCKET", raising=False)
    monkeypatch.delenv("HAFT_HOST", raising=False)
    assert values("spawn ru") == ["run"]
    assert values("spawn run --arg t") == ["terminal=true", "terminal=false", "timeout_s="]
    assert "cwd=" in values("spawn git_stage --arg |")
    assert "default" in values("--session |")
    assert values("man fet") == ["fetch"]
    for command in COMMANDS:
        parser = command_parser(command)
        assert values(f"{command} |") is not None
        for option in parser.options():
            if option.nargs != 0:
                assert values(f"{command} {option.option_strings[-1]} |") is not None


def test_a_failure_completes_nothing_and_starts_no_daemon(
    serve: Serve, short_tmp: Path, capsys: Capture
) -> None:
    arguments = ["__complete", "", "haft", "logs", ""]
    assert main(arguments) == 0
    assert not (short_tmp / "state").exists()

    def refuse(request: object, peer: object) -> object:
        raise Refuse(-32603, "internal", "no")

    serve(refuse)
    assert main(arguments) == 0
    assert main(["__complete"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def shell_env(tmp_path: Path) -> dict[str, str]:
    """An environment in which `haft` is this source tree's, and no daemon answers."""
    script = tmp_path / "bin" / "haft"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m haft "$@"\n')
    script.chmod(0o755)
    home = str(tmp_path)
    return {
        **os.environ,
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "HOME": home,
        "XDG_CONFIG_HOME": home,
        "HAFT_SOCKET": f"{home}/none",
        "TERM": "dumb",
    }


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        (["haft", "spawn", "--wait", "=", "inp"], ["input "]),
        (["haft", "play", "'a"], ["a b.cast"]),
        (["haft", "play", '"a'], ["a b.cast"]),
        (["haft", "play", r"a\ b"], [r"a\ b.cast "]),
        (["haft", "mcp", "install", ""], ["claude-code ", "claude-desktop ", "codex "]),
    ],
)
def test_bash_completes(
    shell_env: dict[str, str], tmp_path: Path, words: list[str], replies: list[str]
) -> None:
    (tmp_path / "a b.cast").touch()
    line = " ".join(words).replace(" = ", "=")
    code = (
        'source "$1"; COMP_LINE="$2"; COMP_POINT=${#COMP_LINE}; shift 2; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _haft; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    script = str(completion("bash"))
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", script, line, *words],
        env=shell_env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[: len(replies)] == replies
    assert done.stderr == ""


def test_each_completed_key_is_a_key_of_the_daemon() -> None:
    keys = values("apply a --keys |")
    assert len(keys) > 30
    assert all(read_key(key) for key in keys)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_with_descriptions(shell_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a b.cast").touch()
    lines = ["haft lo", "haft setup s", "haft play 'a", r"haft play a\ b"]
    asked = "; ".join(f"complete -C{shlex.quote(line)}" for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {completion('fish')}; {asked}"],
        env=shell_env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "logs\tshow all output of a handle, or follow it", "service", "a b.cast", "a b.cast",
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes(shell_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a b.cast").touch()
    shell = pexpect.spawn(
        "zsh",
        ["-f"],
        env=shell_env,
        cwd=str(tmp_path),
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(24, 120),
    )
    shell.sendline(
        f"PS1=; unsetopt beep; autoload -Uz compinit; compinit -D -u; source {completion('zsh')}; echo rea''dy"
    )
    shell.expect_exact("ready")
    shell.send("echo a; haft lo\t")
    shell.expect_exact("haft logs ")
    shell.send("\x15haft a\t")
    shell.expect("abort +-- end handles and all their processes")
    shell.send("\x15haft play 'a\t")
    shell.expect_exact("haft play 'a b.cast'")
    shell.close(force=True)
