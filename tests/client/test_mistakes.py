from __future__ import annotations

import inspect
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from haft.__main__ import main
from haft.cli import COMMANDS, STARTERS
from haft.cli.parsers import command_module
from haft.cli.words import in_our_words
from tests.client.conftest import Serve
from tests.client.fake import Peer, Refuse, running, stopped

Capture = pytest.CaptureFixture[str]
SECRET = {"id": "q", "text": "Password:", "answer_type": {"type": "secret"}}
ENDED = stopped("gone", exit={"code": 0}, elapsed_ms=1200)


def _type(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (
            "apply s1 echo hi",
            "haft apply: apply takes one ANSWER; to type a line, use --line 'echo hi'",
        ),
        (
            "apply s1 ls -la",
            "haft apply: apply takes one ANSWER; to type a line, use --line 'ls -la'",
        ),
        (
            "apply s1 --line -x",
            "haft apply: --line needs a value; for one that begins with a dash write --line=-x",
        ),
        ("apply s1 --line --eof", "haft apply: --line needs a value"),
        ("fetch s1 more", "haft fetch: unrecognized arguments: more"),
        ("fetch s1 --fast", "haft fetch: unrecognized arguments: --fast"),
        ("spawn run --id x ls -la", "haft spawn: write the command after --, as in: -- ls -la"),
        (
            "spawn server --id x port=80 --bind a --x=",
            "haft spawn: an argument of the tool is given by --arg, as in: --arg port=80 --arg bind=a --arg x=",
        ),
        (
            "spawn run --id x CC=gcc make",
            "haft spawn: write the command after --, as in: -- CC=gcc make",
        ),
        ("spawn run --id x --fast", "haft spawn: write the command after --, as in: -- --fast"),
        (
            "spawn shell work2",
            "haft spawn: the handle's id is given by --id, as in: haft spawn shell --id work2",
        ),
        (
            "spawn sh -c x",
            "haft spawn: a command is run by: haft run -- sh -c x",
        ),
        (
            "spawn sh work",
            "haft spawn: a command is run by: haft run -- sh work; the handle's id is given by --id, as in: haft spawn sh --id work",
        ),
        (
            "spawn nosuch-tool a b",
            "haft spawn: only the tool `run` takes a command, after --, as in: haft run -- a b",
        ),
        (
            "logs a -n x",
            "haft logs: argument -n/--tail/--last: it must be a whole number from 0 to 2,000,000,000, not 'x'",
        ),
        (
            "await a --timeout-secs nan",
            "haft await: argument --timeout-secs: it must be a number of seconds such as 90 or 0.5, not 'nan'",
        ),
        (
            "stop web db",
            "haft stop: stop ends the daemon and all handles; to end single handles: haft abort web db",
        ),
        (
            "status web",
            "haft status: status shows the daemon's; for the status of a handle: haft fetch web",
        ),
        (
            "play a --speed fast",
            "haft play: argument --speed: it must be a number such as 2 or 0.5, not 'fast'",
        ),
        (
            "shell --id mine",
            "haft shell: give the handle's name without an option, as in: haft shell mine",
        ),
        (
            "shell --id=mine",
            "haft shell: give the handle's name without an option, as in: haft shell mine",
        ),
        (
            "mcp install zed --dry-run",
            "haft mcp: to show an entry without writing it, use --print: haft mcp --print zed",
        ),
        (
            "spawn run --id -x",
            "haft spawn: '-x' is not a handle: a handle's name begins with a letter or a digit",
        ),
        (
            "spawn server -e A=1",
            "haft spawn: the environment is this shell's, as in: A=1 haft spawn server",
        ),
        (
            "spawn run --env=A=1 -- ls",
            "haft spawn: the environment is this shell's, as in: A=1 haft spawn run",
        ),
        (
            "spawn run --cwd /tmp -- ls",
            "haft spawn: the folder is given by --root, as in: haft spawn run --root /tmp -- ls",
        ),
        (
            "spawn git_stage --cwd /tmp",
            "haft spawn: an argument of the tool is given by --arg, as in: --arg cwd=/tmp",
        ),
        ("play", "haft play: FILE is missing: a recording, as `haft record` writes it, or -"),
        ("fetch", "haft fetch: ID is missing: the handle's name, as `haft ps` shows it"),
    ],
)
def test_an_invalid_command_line_is_answered_with_the_correct_one(
    capsys: Capture, words: str, output: str
) -> None:
    assert main(words.split()) == 2
    command = words.split()[0]
    assert capsys.readouterr().err == f"{output}; see `haft {command} --help`\n"


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("--cwd /tmp -- ls", "give the folder with --root, as in: haft run --root /tmp -- ls"),
        ("--cwd=/tmp ls", "give the folder with --root, as in: haft run --root /tmp -- ls"),
        ("-w", "give the folder with --root, as in: haft run --root FOLDER -- COMMAND"),
        ("-e A=1 ls -l", "to set variables, use env: haft run -- env A=1 ls -l"),
        ("--env A=1 -- ls", "to set variables, use env: haft run -- env A=1 ls"),
    ],
)
def test_options_of_other_programs_are_answered_with_those_of_run(
    capsys: Capture, words: str, output: str
) -> None:
    assert main(["run", *words.split()]) == 125
    assert capsys.readouterr().err == f"haft run: {output}; see `haft run --help`\n"


@pytest.mark.parametrize(
    "words",
    [
        ["apply", "a", "--secret", "-"],
        ["apply", "a", "-", "--secret"],
        ["apply", "--secret", "a", "-"],
        ["apply", "--secret", "--", "a", "-"],
        ["apply", "a", "--secret", "--", "-"],
    ],
)
def test_an_answer_may_precede_or_follow_the_options(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    daemon = serve(lambda request, peer: running("a", question=SECRET) | {"state": "waiting"})
    _type(monkeypatch, "pw1\n")
    assert main(words) == 0
    assert daemon.calls("apply")[0]["input"] == "pw1"


def test_after_two_dashes_a_word_is_no_option(serve: Serve) -> None:
    question = {**SECRET, "answer_type": {"type": "text"}}
    daemon = serve(lambda request, peer: running("a", question=question) | {"state": "waiting"})
    assert main(["apply", "a", "--max-bytes", "9", "--", "-x"]) == 0
    assert daemon.calls("apply")[0]["input"] == "-x"
    assert daemon.calls("apply")[0]["max_bytes"] == 9


def test_arguments_are_found_between_options(serve: Serve) -> None:
    daemon = serve(lambda request, peer: {"matches": [], "more": False})
    assert main(["search", "x", "--max-matches", "3", "a", "b"]) == 1
    (params,) = daemon.calls("output/search")
    assert (params["pattern"], params["ids"], params["max_matches"]) == ("x", ["a", "b"], 3)


@pytest.mark.parametrize(
    "arguments",
    [
        ["canary"],
        ["--", "canary"],
        ["--text", "canary"],
        ["--input", '"canary"'],
        ["--line", "canary", "--secret"],
        ["--text", "canary", "--secret"],
        ["--paste", "canary", "--secret"],
    ],
)
def test_a_secret_in_an_argument_is_refused_with_the_way_to_give_it(
    serve: Serve, capsys: Capture, arguments: list[str]
) -> None:
    daemon = serve(lambda request, peer: running("a", question=SECRET) | {"state": "waiting"})
    assert main(["apply", "a", *arguments]) == 2
    err = capsys.readouterr().err
    assert "other users can read command lines: give a secret as -" in err
    assert "canary" not in err and daemon.calls("apply") == []


def test_a_secret_for_a_question_that_wants_none_is_refused(serve: Serve, capsys: Capture) -> None:
    question = {**SECRET, "answer_type": {"type": "text"}}
    daemon = serve(lambda request, peer: running("a", question=question) | {"state": "waiting"})
    assert main(["apply", "a", "canary", "--secret"]) == 2
    err = capsys.readouterr().err
    assert "does not ask for a secret" in err and "canary" not in err
    assert daemon.calls("apply") == []


def test_an_answer_to_an_ended_handle_is_refused_as_ended(serve: Serve, capsys: Capture) -> None:
    daemon = serve(lambda request, peer: ENDED)
    assert main(["apply", "gone", "x"]) == 4
    assert "Handle 'gone' has ended" in capsys.readouterr().err
    assert main(["apply", "gone", "x", "--json"]) == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["data"]["state"]["state"]) == ("handle_stopped", "stopped")
    assert daemon.calls("apply") == []


def test_an_empty_audit_names_its_subject(
    short_tmp: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HAFT_SESSION", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp))
    for words, message in (
        (["audit"], "nothing is recorded in /"),
        (["audit", "nobody"], "nothing is recorded about 'nobody' in /"),
        (["audit", "nobody", "--session", "s"], "about 'nobody' of session 's' in /"),
    ):
        assert main(words) == (1 if "nobody" in words else 0)
        assert message in capsys.readouterr().err


def test_messages_use_the_command_lines_terms(serve: Serve, capsys: Capture) -> None:
    message = "There is no 'x'; `handles/list` shows those there are, within `timeout_ms`."

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", message, id="x")

    serve(answer)
    assert main(["fetch", "x"]) == 4
    shown = "haft fetch: There is no 'x'; `haft ps` shows those there are, within `--timeout-ms`.\n"
    assert capsys.readouterr().err == shown
    assert main(["fetch", "x", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["message"] == message
    for message, shown in (
        (
            'It is suspended; `{"signal": "CONT"}` goes on.',
            "It is suspended; `--signal CONT` goes on.",
        ),
        ("`input.keys` names no key", "`--keys` names no key"),
        (
            "arguments: give exactly one of `argv`, `command`.",
            "arguments: give a command after `--`, or a script with `--arg command=…`.",
        ),
        (
            "arguments: give exactly one of `argv`, `command`; it has `argv` and `command`.",
            "arguments: give a command after `--`, or a script with `--arg command=…`; both are given.",
        ),
        ("`args.path` is missing", "`--arg path` is missing"),
        ("`view` is `screen`, `call_id`", "`--view` is `screen`, `--call-id`"),
    ):
        assert in_our_words(message) == shown
    assert in_our_words("a tool's handles/list and `timeout`") == (
        "a tool's handles/list and `timeout`"
    )


def _aborting(request: dict[str, Any], peer: Peer) -> Any:
    if request["method"] == "handles/list":
        return {"handles": []}
    match request["params"]["id"]:
        case "gone":
            raise Refuse(-32008, "handle_stopped", "It has ended.", id="gone", state=ENDED)
        case "nobody":
            raise Refuse(-32001, "handle_not_found", "There is no handle 'nobody'.", id="nobody")
        case name:
            return stopped(name, exit={"signal": "TERM"}, ended_by={"by": "abort"})


def test_several_handles_are_aborted_at_once_and_an_ended_one_is_no_failure(
    serve: Serve, capsys: Capture
) -> None:
    daemon = serve(_aborting)
    for words in (["gone"], ["gone", "gone"]):
        assert main(["abort", *words]) == 0
        assert capsys.readouterr().err == "gone: stopped, exit 0, 1.2 s, had ended already\n"
    assert main(["abort", "a", "gone", "b", "--grace-ms", "5"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "a",
        "gone",
        "b",
    ]
    assert [(call["id"], call["grace_ms"]) for call in daemon.calls("abort")[-3:]] == [
        ("a", 5),
        ("gone", 5),
        ("b", 5),
    ]
    assert main(["abort", "gone", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"


def test_the_output_of_several_aborted_handles_is_headed_by_its_handle(
    serve: Serve, capsys: Capture
) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        name = request["params"]["id"]
        return stopped(name, {"a": "of a", "b": "", "c": "of c\n"}[name])

    serve(answer)
    assert main(["abort", "a", "b", "c"]) == 0
    assert capsys.readouterr().out == "==> a <==\nof a\n==> c <==\nof c\n"
    assert main(["abort", "a"]) == 0
    assert capsys.readouterr().out == "of a"


def test_an_unknown_id_is_an_error_and_the_others_are_aborted(
    serve: Serve, capsys: Capture
) -> None:
    serve(_aborting)
    assert main(["abort", "nobody"]) == 4
    assert capsys.readouterr().err == "haft abort: There is no handle 'nobody'.\n"
    assert main(["abort", "nobody", "a"]) == 4
    err = capsys.readouterr().err
    assert "haft abort: There is no handle 'nobody'.\n" in err and "a: stopped" in err
    assert main(["abort", "nobody", "a", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in document["handles"]] == ["a"]
    assert [one["kind"] for one in document["errors"]] == ["handle_not_found"]


def test_a_screen_is_shown_without_trailing_empty_rows(serve: Serve, capsys: Capture) -> None:
    screen = {
        "rows": 4,
        "cols": 9,
        "revision": 1,
        "scrollback": 0,
        "cursor": [1, 0],
        "alt": False,
        "title": "",
        "lines": ["", "one  ", "", "   "],
    }
    serve(lambda request, peer: running("a", screen=screen))
    assert main(["fetch", "a", "--view", "screen"]) == 0
    assert capsys.readouterr().out == "\none\n"


@pytest.mark.parametrize(
    "words",
    [
        ["spawn", "run", "--id", ""],
        ["spawn", "run", "--call-id="],
        ["run", "--id=", "--", "true"],
        ["shell", ""],
        ["--session", "", "ps"],
        ["ps", "--host="],
        ["ps", "--socket="],
        ["tools", "--root="],
    ],
)
def test_an_empty_name_is_not_taken_for_none(
    serve: Serve, capsys: Capture, words: list[str]
) -> None:
    """A script whose variable is not set would else end the handles of another session, or machine."""
    daemon = serve(lambda request, peer: running("a"))
    assert main(words) == (125 if words[0] == "run" else 2)
    assert "it is empty; give a value" in capsys.readouterr().err
    assert not daemon.requests


def test_the_help_of_help_is_the_whole_one(capsys: Capture) -> None:
    assert main(["help", "help"]) == 0
    assert "commands:" in capsys.readouterr().out
    assert main(["PS"]) == 2
    assert capsys.readouterr().err == "haft: there is no command 'PS'; did you mean 'ps'?\n"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("kill", "abort"), ("ls", "ps"), ("start", "spawn"), ("send-keys", "apply ID --keys")],
)
def test_the_command_of_another_program_is_translated(
    word: str, meant: str, capsys: Capture
) -> None:
    assert main([word]) == 2
    assert (
        capsys.readouterr().err == f"haft: there is no command {word!r}; did you mean {meant!r}?\n"
    )


def test_two_dashes_are_a_value_behind_an_equals_sign(serve: Serve, capsys: Capture) -> None:
    daemon = serve(lambda request, peer: running("a"))
    assert main(["apply", "a", "--line=--", "--", "-x"]) == 2
    assert main(["apply", "a", "--line=--"]) == 0
    assert daemon.calls("apply")[0]["input"] == {"line": "--"}
    assert main(["logs", "a", "--last=--"]) == 2
    assert "argument -n/--tail/--last: " in capsys.readouterr().err


def test_only_a_start_needs_the_working_folder(
    serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daemon = serve(lambda request, peer: {"handles": []})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["ps"]) == 0
    assert main(["spawn", "run"]) == 2
    assert "the current folder is gone" in capsys.readouterr().err
    assert not daemon.calls("spawn")


def test_without_a_home_no_hosts_file_is_written(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    for host in ("cursor", "claude-desktop"):
        assert main(["mcp", "install", host, "--print", "--root", "/"]) == 1
        assert "HOME names no folder" in capsys.readouterr().err


TOOL = {
    "name": "need",
    "tool": "need",
    "description": "Count.",
    "parameters": {
        "type": "object",
        "properties": {
            "fast": {"type": "boolean", "default": False},
            "files": {"type": "array", "items": {"type": "string"}, "description": "The files."},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "port": {"type": "integer"},
        },
        "required": ["files"],
    },
    "stateful": False,
    "actions": [],
    "source": "user",
    "runtime": "stdio",
}


def _refusing(kind: str, message: str, **data: Any) -> Any:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "tools/list":
            return {"tools": [TOOL]}
        raise Refuse(-32005, kind, message, **data)

    return answer


def test_a_missing_argument_is_shown_as_the_option_that_gives_it(
    serve: Serve, capsys: Capture
) -> None:
    problems = [{"path": "files", "message": "it is required"}]
    serve(
        _refusing("invalid_arguments", "They do not fit: files: it is required.", problems=problems)
    )
    assert main(["spawn", "need"]) == 4
    assert capsys.readouterr().err == (
        "haft spawn: They do not fit: files: it is required; give --arg 'files:=[\"…\"]'; "
        "`haft tools need` shows the arguments\n"
    )
    problems[0]["path"] = "port"
    assert main(["spawn", "need"]) == 4
    assert "; give --arg port=1; " in capsys.readouterr().err
    assert main(["spawn", "need", "--json"]) == 4
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert message == "They do not fit: files: it is required."


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["a | b"], "; `|` needs a shell: haft run -- sh -c 'a | b'"),
        (["cd ~"], "; 'cd' is a command of the shell: haft run -- sh -c 'cd ~'"),
        ([""], " in PATH. Install it, or set another PATH."),
        (["make -j4"], "; write the command as separate words: haft run -- make -j4"),
        (["CC=gcc make"], "; to set variables, use env: haft run -- env CC=gcc make"),
        (
            ["CC='a b' make"],
            "; to set variables, use env: haft run -- env 'CC=a b' make",
        ),
        (["CC=gcc make | wc"], "; `|` needs a shell: haft run -- sh -c 'CC=gcc make | wc'"),
        (["CC='a make"], """; to set variables, use env: haft run -- env 'CC='"'"'a make'"""),
        (["CC=gcc", "make"], "; to set variables, use env: haft run -- env CC=gcc make"),
        (
            ["cd", "a b"],
            """; 'cd' is a command of the shell: haft run -- sh -c 'cd '"'"'a b'"'"''""",
        ),
        (["nosuch"], " in PATH. Install it, or set another PATH."),
        (["nosuch", "|"], " in PATH. Install it, or set another PATH."),
    ],
)
@pytest.mark.parametrize("command", [["run", "-d"], ["spawn", "run"]])
def test_a_command_that_is_no_program_is_answered_with_the_one_that_was_meant(
    serve: Serve, capsys: Capture, command: list[str], words: list[str], meant: str
) -> None:
    message = "There is no program in PATH. Install it, or give another PATH in `env`."
    serve(_refusing("spawn_failed", message, reason="program"))
    assert main([*command, "--", *words]) == (127 if command[0] == "run" else 4)
    remedy = meant if "Install" in meant else f" in PATH{meant}"
    assert capsys.readouterr().err == f"haft {command[0]}: There is no program{remedy}\n"


def test_a_program_in_the_place_of_a_tool_is_answered_with_run(
    serve: Serve, capsys: Capture
) -> None:
    serve(_refusing("tool_not_found", "There is no tool."))
    for tool, meant in (("sh", "; to run the program: haft run -- sh -x"), ("nosuch-tool", ".")):
        assert main(["spawn", tool, "--", "-x"]) == 4
        assert capsys.readouterr().err == f"haft spawn: There is no tool{meant}\n"


def test_without_a_daemon_the_commands_that_start_one_are_named(
    short_tmp: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "none"))
    assert main(["ps"]) == 3
    assert capsys.readouterr().err.endswith(
        "none; `haft run`, `haft spawn` or `haft shell` starts it\n"
    )


def test_a_stop_without_a_daemon_names_no_command_that_starts_one(
    short_tmp: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "none"))
    assert main(["stop"]) == 3
    message = f"haft stop: haftd is not running: no daemon listens at {short_tmp / 'none'}\n"
    assert capsys.readouterr().err == message


def test_the_help_names_exactly_the_commands_that_start_a_daemon() -> None:
    starts = re.compile(r"\b(?:connect|open_address)\(.*\bstart=(?:True|may_start)")
    found = {name for name in COMMANDS if starts.search(inspect.getsource(command_module(name)))}
    assert found == set(STARTERS)


@pytest.mark.parametrize("command", [["spawn", "run"], ["fetch", "a"], ["apply", "a", "--eof"]])
def test_a_wait_for_a_pattern_without_one_is_a_usage_error(
    serve: Serve, capsys: Capture, command: list[str]
) -> None:
    daemon = serve(lambda request, peer: running("a"))
    assert main([*command, "--wait", "pattern"]) == 2
    assert "--pattern REGEX" in capsys.readouterr().err
    assert not daemon.calls(command[0])


def test_a_tool_is_shown_with_the_type_and_meaning_of_each_argument(
    serve: Serve, capsys: Capture
) -> None:
    serve(_refusing("", ""))
    assert main(["tools", "need"]) == 0
    assert capsys.readouterr().out == (
        "need (user, stdio): runs to its end\n\nCount.\n\narguments:\n"
        "  files: list of text, required\n      The files.\n"
        "  fast: true | false (default: false)\n  mode: a | b\n  port: whole number\n\n"
        "example:\n  haft spawn need --arg 'files:=[\"…\"]'\n"
    )
    assert main(["tools", "need", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == TOOL["parameters"]
    assert main(["tools", "need", "--provider", "openai"]) == 0
    assert '"additionalProperties"' not in (out := capsys.readouterr().out) and '"items"' in out


def test_a_file_that_is_no_recording_is_named_with_the_reason(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("x")
    for name, message in (
        (
            "build",
            "there is no file 'build'; to play a handle of this name: haft record build | haft play -",
        ),
        ("text", "'text' is not a recording (asciicast): line 1 is not valid JSON"),
        ("no/file", "there is no file 'no/file'\n"),
        (".", "'.' cannot be read: Is a directory"),
        ("a\0b", "'a\\x00b' cannot be read: embedded null byte"),
    ):
        assert main(["play", name]) == 2
        assert capsys.readouterr().err.startswith(f"haft play: {message}")


def test_an_unknown_manual_page_is_no_page_of_another_command(capsys: Capture) -> None:
    for name, message in (
        ("nosuch", "; `haft --help` lists the commands"),
        ("spwan", "; did you mean 'spawn'?"),
    ):
        assert main(["man", name]) == 2
        assert capsys.readouterr().err == f"haft man: there is no page {name!r}{message}\n"


def test_a_handle_that_is_no_longer_kept_had_ended_already(serve: Serve, capsys: Capture) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "It is no longer kept.", id="old", expired=True)

    serve(answer)
    assert main(["abort", "old"]) == 0
    assert capsys.readouterr().err == "old: had ended already, and is no longer kept\n"
    assert main(["abort", "old", "old", "--json"]) == 0
    assert main(["abort", "old", "older", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"handles": [], "errors": []}
    assert main(["fetch", "old"]) == 4


def test_a_handle_of_another_session_is_named_with_the_command(
    serve: Serve, capsys: Capture
) -> None:
    """A handle that still runs is meant rather than ended ones of its name."""
    rows = [
        {**running("a"), "session": "other b"},
        {**stopped("a"), "session": "old"},
        {**stopped("gone"), "session": "default"},
    ]

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "handles/list":
            return {"handles": rows}
        name = request["params"].get("id") or request["params"]["all"][0]
        raise Refuse(-32001, "handle_not_found", f"There is no handle {name!r}.", id=name)

    serve(answer)
    for command, name, session, state in (
        ("logs", "a", "'other b'", "runs"),
        ("fetch", "a", "'other b'", "runs"),
        ("abort", "a", "'other b'", "runs"),
        ("await", "a", "'other b'", "runs"),
        ("logs", "gone", "default", "has ended"),
    ):
        assert main(["--session", "mine", command, name]) == 4
        assert capsys.readouterr().err == (
            f"haft {command}: There is no handle '{name}'; one of this name {state} in another session: "
            f"`haft --session {session} {command} {name}`\n"
        )
    assert main(["logs", "none"]) == 4
    assert capsys.readouterr().err == "haft logs: There is no handle 'none'.\n"


def test_the_names_of_live_handles_are_listed_alone(serve: Serve, capsys: Capture) -> None:
    extra = {"command": "", "age_s": 1.0, "bytes": 0}
    states = [running("a"), stopped("b"), running("c")]
    serve(lambda request, peer: {"handles": [{**state, **extra} for state in states]})
    assert main(["ps", "-q"]) == 0
    assert capsys.readouterr() == ("a\nc\n", "")
    assert main(["ps", "-q", "-a"]) == 0
    assert capsys.readouterr().out == "a\nb\nc\n"


def test_a_text_that_is_not_utf8_is_a_usage_error(serve: Serve, capsys: Capture) -> None:
    timeline = {
        "id": "a", "generation": 1, "cursor": 0, "grain_ms": 1, "started_at": 1.0, "points": [], "more": False,
    }  # fmt: skip

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        return timeline if request["method"] == "output/timeline" else running("a")

    serve(answer)
    for words, message in (
        (["logs", "x\udce9"], "haft logs: `id` is not UTF-8: 'x\\xe9'\n"),
        (
            ["fetch", "a", "--view", "a\\\\udcff\udcff"],
            (
                "haft fetch: argument --view: there is no 'a\\\\\\\\udcff\\xff'; it is one of delta, answer, "
                "all, tail, screen, raw, paint; see `haft fetch --help`\n"
            ),
        ),
        (
            ["fetch", "a", "b\udcff"],
            "haft fetch: unrecognized arguments: b\\xff; see `haft fetch --help`\n",
        ),
        (["record", "a", "--title", "x\udce9"], "haft record: this text is not UTF-8: 'x\\xe9'\n"),
    ):
        assert main(words) == 2
        assert capsys.readouterr().err == message
        if words[0] == "record":
            continue  # has no --json
        assert main(["--json", *words]) == 2
        output = capsys.readouterr()
        document = json.loads(output.out)["error"]
        assert output.err == message and message == f"haft {words[0]}: {document['message']}\n"
