"""The command line against a fake daemon: requests, output, exit statuses."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from haft.__main__ import main
from haft.cli import COMMANDS
from haft.cli.commands import apply
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, Refuse, running, stopped, waiting

Capture = pytest.CaptureFixture[str]


def test_spawn_sends_the_shells_environment_and_folder(
    serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daemon = serve(lambda request, peer: running("b", "one\ntwo", cursor=7))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLIENTS_OWN", "ö")
    arguments = [
        "spawn",
        "run",
        "--id",
        "b",
        "--arg",
        "n=1",
        "--arg",
        "n2:=1",
        "--wait",
        "output",
        "--",
        "ls",
        "-l",
        "--id",
        "x",
    ]
    assert main(arguments) == 0
    (params,) = daemon.calls("spawn")
    assert params["args"] == {"n": "1", "n2": 1, "argv": ["ls", "-l", "--id", "x"]}
    assert params["env"] == dict(os.environ)
    assert params["root"] == str(tmp_path)
    assert (params["tool"], params["id"], params["wait"]) == ("run", "b", "output")
    assert "timeout_ms" not in params
    out, err = capsys.readouterr()
    assert out == "one\ntwo"
    assert err == "b: running, 1.2 s\n"


def test_an_end_just_after_the_first_output_of_a_start_is_shown(
    serve: Serve, capsys: Capture
) -> None:
    """The hint at a sandbox comes with the end."""
    failed = {"exit": {"code": 1}, "error": {"message": "An access was denied."}}
    ended = [stopped("a", None, content="more\n", **failed)]

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "await":
            return {"completed": ended, "pending": [], "waiting": []}
        return running("a", "x: Permission denied\n", waited="output")

    daemon = serve(answer)
    assert main(["spawn", "cat", "--id", "a"]) == 1
    out, err = capsys.readouterr()
    assert out == "x: Permission denied\nmore\n"
    assert "An access was denied" in err and "running" not in err
    for words in (["--json"], ["--wait", "output"], ["--view", "all"]):
        assert main(["spawn", "cat", "--id", "a", *words]) == 0
    ended.clear()
    capsys.readouterr()
    assert main(["spawn", "cat", "--id", "a"]) == 0
    assert capsys.readouterr() == ("x: Permission denied\n", "a: running, 1.2 s\n")
    assert [call["all"] for call in daemon.calls("await")] == [["a"], ["a"]]


def test_output_before_a_question_that_follows_the_first_output_is_shown(
    serve: Serve, capsys: Capture
) -> None:
    """The reply to the second call has moved the read offset."""
    asking = waiting("a", content="more\n")

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "await":
            return {"completed": [], "pending": [], "waiting": [asking]}
        return running("a", "first\n", waited="output")

    serve(answer)
    assert main(["spawn", "cat", "--id", "a"]) == 0
    out, err = capsys.readouterr()
    assert out == "first\nmore\n" and "a: waiting" in err


def test_await_shows_the_output_before_a_question(serve: Serve, capsys: Capture) -> None:
    result = {"completed": [], "pending": [], "waiting": [waiting("a", content="printed\n")]}
    serve(lambda request, peer: result)
    assert main(["await", "a"]) == 0
    out, err = capsys.readouterr()
    assert out == "printed\n" and err.startswith("a: waiting")
    assert main(["await", "a", "b"]) == 0
    assert capsys.readouterr().out == "==> a <==\nprinted\n"


def test_a_variable_that_is_not_utf8_is_left_out_and_named(
    serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = serve(lambda request, peer: running("b"))
    monkeypatch.setenv("ODD", "\udcff")
    assert main(["spawn", "run", "--id", "b"]) == 0
    assert "ODD" not in daemon.calls("spawn")[0]["env"]
    assert "'ODD'" in capsys.readouterr().err


def test_a_clean_environment_is_the_daemons(serve: Serve, capsys: Capture) -> None:
    daemon = serve(lambda request, peer: running("b"))
    assert main(["spawn", "run", "--id", "b", "--clean-env"]) == 0
    assert "env" not in daemon.calls("spawn")[0]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["--text", "a b"], "a b"),
        (["--line", "y"], {"line": "y"}),
        (["--keys", "C-c", "Up"], {"keys": ["C-c", "Up"]}),
        (["--paste", "x"], {"paste": "x"}),
        (["--eof"], {"eof": True}),
        (["--signal", "INT"], {"signal": "INT"}),
        (["--click", "3,10"], {"mouse": {"row": 3, "col": 10, "action": "click"}}),
        (["--resize", "24x80"], {"resize": {"rows": 24, "cols": 80}}),
        (["--input", '{"line": ""}'], {"line": ""}),
        (["--line", "-", "--secret"], {"line": "y", "secret": True}),
        (["--text", "-", "--secret"], {"text": "y", "secret": True}),
        (["--keys", "y", "--secret"], {"keys": ["y"], "secret": True}),
    ],
)
def test_each_form_of_input(
    serve: Serve,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sent: object,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"y")))
    daemon = serve(lambda request, peer: running())
    assert main(["apply", "a", *arguments]) == 0
    assert daemon.calls("apply")[0]["input"] == sent


@pytest.mark.parametrize(
    ("kind", "text", "sent"),
    [
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "N", False),
        ({"type": "text"}, "yes", "yes"),
        ({"type": "select", "options": ["a", 1, True]}, "1", 1),
        ({"type": "select", "options": ["a", 1, True]}, "true", True),
    ],
)
def test_an_answer_has_the_form_of_the_question(
    serve: Serve, capsys: Capture, kind: object, text: str, sent: object
) -> None:
    question = {"id": "q", "text": "Sure?", "answer_type": kind}
    asked = running(question=question) | {"state": "waiting"}
    daemon = serve(lambda request, peer: asked)
    assert main(["apply", "a", text]) == 0
    assert daemon.calls("fetch")[0]["cursor"] == 0
    answer = daemon.calls("apply")[0]["input"]
    assert (answer, type(answer)) == (sent, type(sent))


def test_an_answer_without_a_question_is_refused_with_a_hint(serve: Serve, capsys: Capture) -> None:
    daemon = serve(lambda request, peer: running())
    assert main(["apply", "a", "yes"]) == 2
    assert daemon.calls("apply") == []
    assert "--line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "line", "status"),
    [
        (running(), "a: running, 1.2 s", 0),
        (
            running(input_wanted={"kind": "line", "prompt": "Name:\x1b[0m"}),
            "a: running, 1.2 s, reads a line: Name: [0m",
            0,
        ),
        (stopped(exit={"code": 0}, elapsed_ms=1200), "a: stopped, exit 0, 1.2 s", 0),
        (
            stopped(
                result=None,
                content="",
                exit={"code": 2},
                error={"message": "The process exited with code 2.", "trace": []},
            ),
            "a: stopped, exit 2, 1.2 s",
            1,
        ),
        (
            stopped(
                result=None,
                error={"message": "No network\nhere", "trace": ["at x"], "transient": True},
            ),
            "a: stopped, failed: No network here (may succeed if tried again), 1.2 s\n  at x",
            1,
        ),
        (
            stopped(
                result=None,
                content="",
                error={"message": "Ended."},
                exit={"signal": "TERM"},
                ended_by={"by": "abort", "client": "nvim"},
                elapsed_ms=3_725_000,
            ),
            "a: stopped, signal TERM, ended by abort by nvim, 1 h 2 min",
            1,
        ),
        (
            stopped(left_behind=[{"pid": 7, "command": "sleep 9"}], exit={"code": 0}, omitted=3),
            "a: stopped, exit 0, 1.2 s, 3 bytes left out, still runs: 7 sleep 9",
            0,
        ),
        (
            running(question={"id": "q", "text": "Go?", "answer_type": {"type": "boolean"}})
            | {"state": "waiting"},
            "a: waiting, 1.2 s, asks: Go? [yes/no]",
            0,
        ),
    ],
)
def test_a_status_is_one_line(
    serve: Serve, capsys: Capture, state: object, line: str, status: int
) -> None:
    serve(lambda request, peer: state)
    assert main(["fetch", "a"]) == status
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(
    ("words", "fields", "is_said"),
    [
        (["apply", "a", "--line", "x", "--timeout-ms", "0"], {}, True),
        (["apply", "a", "--line", "x"], {"input_wanted": None}, True),
        (["apply", "a", "--line", "x"], {}, False),
        (["fetch", "a", "--wait", "pattern", "--pattern", "x"], {"waited": "matched"}, False),
        (["fetch", "a"], {"waited": "immediate"}, False),
    ],
)
def test_an_expired_wait_is_reported(
    serve: Serve, capsys: Capture, words: list[str], fields: dict[str, Any], is_said: bool
) -> None:
    """Except for the moment in which a program on a pipe may still print."""
    serve(lambda request, peer: running(**{"waited": "deadline", **fields}))
    assert main(words) == (5 if is_said else 0)
    err = capsys.readouterr().err
    assert (f"haft {words[0]}: timed out\n" in err) == is_said
    assert main([*words, "--json"]) == (5 if is_said else 0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fetch", "a", "--wait", "pattern", "--pattern", "x"],
            "timed out without a match for --pattern in new output; --cursor 0 searches all output",
        ),
        (
            ["fetch", "a", "--pattern", "x"],
            "timed out without a match for --pattern in new output; --cursor 0 searches all output",
        ),
        (
            ["fetch", "a", "--pattern", "x", "--cursor", "0"],
            "timed out without a match for --pattern",
        ),
        (
            ["apply", "a", "--line", "x", "--pattern", "x"],
            "timed out without a match for --pattern",
        ),
    ],
)
def test_pattern_timeout_names_how_to_search_earlier_output(
    serve: Serve, capsys: Capture, words: list[str], message: str
) -> None:
    serve(lambda request, peer: running(waited="deadline"))
    assert main(words) == 5
    assert f"haft {words[0]}: {message}\n" in capsys.readouterr().err


def test_a_handle_that_stops_without_a_match_is_an_expired_wait(
    serve: Serve, capsys: Capture
) -> None:
    states = iter(
        [
            stopped("a", "x", exit={"code": 0}, waited="stopped"),
            stopped("a", "x", exit={"code": 0}, waited="matched"),
            stopped(
                "a", None, content="x", exit={"code": 3}, error={"message": "No."}, waited="stopped"
            ),
        ]
    )
    serve(lambda request, peer: next(states))
    assert [main(["fetch", "a", "--pattern", "y"]) for _ in range(3)] == [5, 0, 1]
    assert capsys.readouterr().err.count("stopped without a match for --pattern") == 2


def test_json_output_is_exactly_one_document(serve: Serve, capsys: Capture) -> None:
    state = stopped("a", "text", exit={"code": 0}, unknown_to_this_client=1)
    serve(lambda request, peer: state)
    for command in (["--json", "fetch", "a"], ["fetch", "a", "--json"], ["logs", "a", "--json"]):
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert json.loads(out) == state
        assert out.count("\n") == 1
        assert err == ""


def test_output_after_the_end_is_shown_once_and_whole(serve: Serve, capsys: Capture) -> None:
    texts = iter(["one\n", "one\n", "one\ntwo\n"])

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        text = next(texts)
        return stopped("a", text, exit={"code": 0}, output_complete="two" in text)

    serve(answer)
    assert main(["fetch", "a"]) == 0
    assert capsys.readouterr().out == "one\ntwo\n"


def test_the_session_comes_from_the_option_or_the_environment(
    serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = serve(lambda request, peer: running())
    monkeypatch.setenv("HAFT_SESSION", "from-env")
    main(["fetch", "a"])
    main(["--session", "named", "fetch", "a"])
    main(["fetch", "a", "--session", "behind"])
    assert [p["session"] for p in daemon.calls("fetch")] == ["from-env", "named", "behind"]


def test_await_parses_its_lists(serve: Serve, capsys: Capture) -> None:
    result = {"completed": [stopped("a")], "pending": [running("b")], "timed_out": True}
    daemon = serve(lambda request, peer: result)
    assert main(["await", "a", "--timeout-secs", "0.5", "b"]) == 5
    assert main(["await", "--all", "a", "--any", "b", "c"]) == 5
    one, two = daemon.calls("await")
    assert (one["all"], one["any"], one["timeout_secs"]) == (["a", "b"], [], 0.5)
    assert (two["all"], two["any"]) == (["a"], ["b", "c"])
    err = capsys.readouterr().err
    assert "a: stopped" in err and "b: running" in err and "haft await: timed out\n" in err
    assert main(["await"]) == 2
    assert main(["await", "a", "--timeout-ms", "1500"]) == 5
    assert daemon.calls("await")[2]["timeout_secs"] == 1.5
    assert main(["await", "a", "--timeout-ms", "1", "--timeout-secs", "1"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_ps_shows_a_row_per_handle(serve: Serve, capsys: Capture) -> None:
    row = {
        "command": "make \x1b[1m-j4",
        "root": "/",
        "started_at": 1.0,
        "age_s": 75.0,
        "bytes": 2048,
    }
    live = running("a") | row | {"pid": 7, "cpu_s": 1.5, "memory": 3 << 20}
    ended = stopped("bb", None, exit={"code": 3}, error={"message": "No."}, elapsed_ms=16_000) | row
    old = stopped("old", elapsed_ms=14_000) | row
    for one in (live, ended, old):
        one.pop("content", None)
    daemon = serve(lambda request, peer: {"handles": [old, ended, live]})
    assert main(["ps"]) == 0
    out, err = capsys.readouterr()
    assert err == "haft ps: 1 stopped more than a minute ago; -a shows all\n"
    assert out.splitlines() == [
        "ID  TOOL  STATE    PID  AGE         CPU    MEMORY   OUTPUT   COMMAND",
        "a   run   running  7    1 min 15 s  1.5 s  3.0 MiB  2.0 KiB  make  [1m-j4",
        "bb  run   exit 3   -    1 min 15 s  -      -        2.0 KiB  make  [1m-j4",
    ]
    assert main(["ps", "-a"]) == 0
    assert daemon.calls("handles/list")[1]["session"] == "*"
    out, err = capsys.readouterr()
    assert err == "" and [line.split()[0] for line in out.splitlines()] == ["ID", "a", "bb", "old"]
    old["session"] = "other"
    assert main(["ps", "-a"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("SESSION") and err == ""
    assert [line.split()[1] for line in out.splitlines()] == ["ID", "a", "bb", "old"]
    assert main(["ps", "-a", "--session", "other"]) == 0
    assert capsys.readouterr().out.startswith("SESSION")
    live["needs"] = "secret"
    assert main(["ps", "-a"]) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[1].split()[:6] == ["default", "a", "run", "running", "secret", "7"]
    assert out.splitlines()[2].split()[:6] == ["default", "bb", "run", "exit", "3", "-"]
    assert main(["ps", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["handles"]) == 3


def test_ps_in_an_empty_session_points_to_the_live_handles_of_others(
    serve: Serve, capsys: Capture
) -> None:
    row = {"command": "cat", "root": "/", "started_at": 1.0, "age_s": 1.0, "bytes": 0}
    live = [
        running(name) | row | {"session": session} for name, session in (("a", "mcp.x"), ("b", "y"))
    ]
    handles = [*live, stopped("old", elapsed_ms=1) | row]

    def answer(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
        return {"handles": handles if request["params"].get("session") == "*" else []}

    daemon = serve(answer)
    assert main(["ps"]) == 0
    assert capsys.readouterr().err == (
        "haft ps: no handle in this session, but 2 live handles are in 2 other sessions; "
        "--every-session shows them\n"
    )
    handles[1:] = []
    assert main(["ps"]) == 0
    assert "1 live handle is in the session mcp.x;" in capsys.readouterr().err
    handles.clear()
    assert main(["ps"]) == 0
    assert capsys.readouterr().err == ""
    handles += live
    before = len(daemon.calls("handles/list"))
    assert main(["ps", "--session", "*"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["SESSION", "mcp.x", "y"]
    assert err == "" and len(daemon.calls("handles/list")) == before + 1


def test_tools_lists_and_describes(serve: Serve, capsys: Capture) -> None:
    tool = {
        "name": "run",
        "description": "Run a program.\nMore.",
        "parameters": {"type": "object"},
        "stateful": True,
        "actions": ["spawn", "fetch"],
        "source": "local",
        "runtime": "stdio",
    }
    tools = [tool]
    serve(lambda request, peer: {"tools": tools})
    assert main(["tools"]) == 0
    assert "run   stdio    Run a program." in capsys.readouterr().out
    assert main(["tools", "run"]) == 0
    assert "More." in capsys.readouterr().out
    assert main(["tools", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == tool
    assert main(["tools", "walk"]) == 2
    tools.append({**tool, "name": "walk", "stateful": False, "actions": []})
    assert main(["tools", "walk"]) == 0
    assert capsys.readouterr().out.startswith("walk (local, stdio): runs to its end\n")
    tools.append({**tools[1], "name": "ask", "source": "builtin", "runtime": "builtin"})
    assert main(["tools", "ask"]) == 0
    assert capsys.readouterr().out.startswith("ask (builtin): runs to its end\n")


def test_tool_without_a_description_is_shown_without_blank_lines(
    serve: Serve, capsys: Capture
) -> None:
    tool = {"name": "deploy", "tool": "deploy", "description": "", "parameters": {}}
    more = {"stateful": False, "actions": [], "source": "local", "runtime": "stdio"}
    serve(lambda request, peer: {"tools": [{**tool, **more}]})
    assert main(["tools", "deploy"]) == 0
    assert "\n\n\n" not in capsys.readouterr().out


def test_no_control_character_of_a_server_reaches_the_terminal(
    serve: Serve, capsys: Capture
) -> None:
    name, sequence = "evil\x1b]0;NAME\x07", "\x1b]52;c;aGk=\x07\x9b31m"
    parameters = {"type": "object", "properties": {f"p{sequence}": {"description": sequence}}}
    tool = {
        "name": name,
        "tool": name,
        "description": f"Two{sequence}\nlines",
        "parameters": parameters,
    }
    more = {"stateful": False, "actions": [sequence], "source": sequence, "runtime": "mcp"}
    serve(lambda request, peer: {"tools": [{**tool, **more}]})
    for words in (["tools"], ["tools", name], ["tools", name, "--provider", "openai"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert out.count("\n") > 1
        assert [char for char in out if not char.isprintable() and char != "\n"] == []


@pytest.mark.parametrize(
    ("words", "alternative"),
    [(["shell"], "`haft spawn shell`"), (["attach", "a"], "`haft fetch --wait input`")],
)
def test_command_without_a_terminal_names_itself_and_an_alternative(
    serve: Serve, capsys: Capture, words: list[str], alternative: str
) -> None:
    serve(lambda request, peer: running())
    assert main(words) == 2
    err = capsys.readouterr().err
    assert f"haft {words[0]}: {words[0]} needs a terminal as its standard input; " in err
    assert alternative in err


def test_tools_takes_a_providers_dialect_and_reports_omissions(
    serve: Serve, capsys: Capture
) -> None:
    problem = {"file": "/c/a.toml", "key": "tools.x.parameters", "message": "It is left out."}
    daemon = serve(lambda request, peer: {"tools": [], "problems": [problem]})
    assert main(["tools", "--provider", "openai", "--style", "flat"]) == 0
    assert capsys.readouterr().out.endswith("tools.x.parameters: It is left out.\n")
    assert daemon.calls("tools/list")[0]["provider"] == "openai"
    assert daemon.calls("tools/list")[0]["style"] == "flat"
    assert main(["tools", "--provider", "nobody"]) == 2
    assert main(["tools", "x"]) == 2
    assert "'x' is not loaded: " in capsys.readouterr().err


def test_a_refusal_is_one_line_with_status_4_and_an_error_document(
    serve: Serve, capsys: Capture
) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "There is\nno 'x'.", id="x")

    serve(answer)
    assert main(["fetch", "x"]) == 4
    assert capsys.readouterr() == ("", "haft fetch: There is no 'x'.\n")
    assert main(["fetch", "x", "--json"]) == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["kind"], error["data"]["id"]) == (-32001, "handle_not_found", "x")


def test_no_daemon_is_status_3_where_none_is_started(
    short_tmp: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp / "state"))
    lines = "status; stop; doctor; ps; fetch a; logs a; search x; apply a --eof; abort a; await a; reload"
    for line in lines.split("; "):
        assert main(line.split()) == 3
        out, err = capsys.readouterr()
        assert "not running" in out + err
        assert main(["--socket", str(short_tmp / "other"), *line.split(), "--json"]) == 3
        json.loads(capsys.readouterr().out)
    assert main(["version"]) == 0
    assert "haftd (not running)" in capsys.readouterr().out
    assert not (short_tmp / "state").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["spawn", "run", "--id", "a", "--arg", "x"],
        ["spawn", "run", "--id", "a", "--arg", "x:={"],
        ["spawn", "run", "--id", "a", "--arg", "x=1", "--arg", "x=2"],
        ["spawn", "run", "--id", "a", "--args", "[]"],
        ["spawn", "run", "--id", "a", "--"],
        ["spawn", "run", "--id", "a", "--wait", "forever"],
        ["spawn", "run", "--id", "a", "--arg", "x=\udcff"],
        ["apply", "a"],
        ["apply", "a", "--line", "x", "--eof"],
        ["apply", "a", "x", "--eof"],
        ["apply", "a", "--resize", "80"],
        ["apply", "a", "--click", "3x10"],
        ["fetch"],
        ["fetch", "a", "--timeout-ms", "soon"],
        ["--socket", "/tmp/" + "x" * 200, "status"],
    ],
)
def test_an_invalid_command_line_is_one_line_with_status_2(
    serve: Serve, capsys: Capture, arguments: list[str]
) -> None:
    daemon = serve(lambda request, peer: LATER)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("haft") and err.count("\n") == 1
    assert [r["method"] for r in daemon.requests if r["method"] != "initialize"] == []


def test_every_command_has_help_and_the_overview_names_them_all(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in overview
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"usage: haft {name}" in text and "--json" in text
        assert "examples:" in text or name == "version"


def test_colours_are_only_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from haft.cli.show import paint

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert paint("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red", Terminal()) == "x"


@pytest.mark.parametrize(
    ("option", "sent"),
    [
        ("text", "a\r\nb\n"),
        ("line", {"line": "a"}),
        ("paste", {"paste": "a\r\nb\n"}),
    ],
)
@pytest.mark.parametrize("secret", [False, True])
def test_input_from_standard_input_is_all_of_it_or_one_line(
    option: str, sent: object, secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"a\r\nb\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    form = apply._form(argparse.Namespace(**{option: "-"}), secret)
    assert form == ({"text": sent} if secret and option == "text" else sent)
