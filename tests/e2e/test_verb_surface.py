from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.repository import make_repository, staged
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

_numbers = count(1)
Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(shared_daemon: RunningDaemon, tmp_path: Path) -> Iterator[Call]:
    session = f"verbs{next(_numbers)}"
    with shared_daemon.connect() as wire:

        def one(tool: str, **arguments: Any) -> dict[str, Any]:
            more = {"surface": "verbs", "format": "text", "session": session, "root": str(tmp_path)}
            result = wire.call("tools/call", tool=tool, arguments=arguments, **more)
            assert isinstance(result, dict)
            return result

        yield one
        wire.call("session/close", session=session)


def test_the_list_has_a_tool_for_each_definition_and_five_for_handles(
    shared_daemon: RunningDaemon,
) -> None:
    with shared_daemon.connect() as wire:
        tools = wire.call("tools/list", surface="verbs", provider="mcp")["tools"]
    by_name = {tool["name"]: tool for tool in tools}
    assert list(by_name)[-5:] == [
        f"handle_{verb}" for verb in ("send", "read", "wait", "stop", "list")
    ]
    assert "await" not in by_name and "run" in by_name
    assert set(by_name["run"]["parameters"]["properties"]) == {
        "command",
        "terminal",
        "cwd",
        "id",
        "wait_s",
    }
    assert set(by_name["shell"]["parameters"]["properties"]) == {"cwd", "command", "id", "wait_s"}
    assert "oneOf" not in json.dumps(tools)
    hints = {name: tool["annotations"] for name, tool in by_name.items()}
    assert hints["handle_read"]["read_only"] and not hints["handle_read"]["destructive"]
    assert hints["handle_stop"] == {
        "read_only": False, "destructive": True, "idempotent": True, "open_world": False,
    }  # fmt: skip
    assert hints["run"]["destructive"] and hints["run"]["open_world"]


def test_the_list_of_the_shipped_tools_is_short(shared_daemon: RunningDaemon) -> None:
    """1,200 tokens of o200k at most; it has 1,145 (js-tiktoken 1.0), and 4.2 characters a token of such a list."""
    with shared_daemon.connect() as wire:
        tools = wire.call("tools/list", surface="verbs", provider="mcp")["tools"]
    shown = [{name: tool[name] for name in ("name", "description", "parameters")} for tool in tools]
    assert len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False)) < 1_200 * 4.1


def test_a_staging_session_is_driven_by_text_alone(call: Call, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    first = call("git_stage", cwd=str(repo))["text"]
    assert first.startswith("[git_stage-1: running, ") and first.splitlines()[0].endswith(
        "reads a line]"
    )
    assert "+line two" in first and first.splitlines()[-1].startswith("(1/3) Stage this hunk")
    assert "(2/3)" in call("handle_send", id="git_stage-1", line="y")["text"]
    assert "(3/3)" in call("handle_send", id="git_stage-1", line="n")["text"]
    last = call("handle_send", id="git_stage-1", line="y", until="stopped")["text"]
    assert last.startswith("[git_stage-1: exit 0, ") and last.count("\n") == 0
    assert staged(repo) == ["line two", "line thirty-nine"]


def test_an_exit_status_is_information(call: Call) -> None:
    reply = call("run", command="echo hi; exit 3")
    header, body = reply["text"].split("\n")
    assert header.startswith("[run-1: exit 3, ") and body == "hi" and "failed" not in reply


def test_a_run_that_ends_in_time_leaves_no_handle(call: Call) -> None:
    assert call("run", command="echo hi")["text"].startswith("[run-1: exit 0, ")
    assert call("run", command="exit 3")["text"].startswith("[run-2: exit 3, ")
    assert call("handle_list")["text"] == "no handles"


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "echo hi", "id": "run-1"},
        {"command": "sleep 0.2; echo hi", "wait_s": 0},
        {"command": "seq 1 100000"},
        {"command": "sleep 60 >/dev/null 2>&1 & echo hi"},
    ],
    ids=["named", "outlasts the wait", "cut", "left a process behind"],
)
def test_a_run_with_more_to_read_or_end_stays(call: Call, arguments: dict[str, Any]) -> None:
    call("run", **arguments)
    call("handle_wait", ids="run-1")
    assert call("handle_list")["text"].startswith("run-1: exit 0, ")


def test_omitted_output_is_reported_once_with_how_to_read_it(call: Call) -> None:
    text = call("run", command="seq 1 100000")["text"]
    assert len(text) < 8_600 and text.count("left out") == 2
    assert "all is in /" in text.splitlines()[-1]
    held = call("run", command="seq 1 100000; cat", id="held")["text"]
    hint = json.loads(held.splitlines()[-1].partition("handle_read ")[2].removesuffix("]"))
    assert hint["id"] == "held"
    shown = [int(line) for line in held.splitlines() if line.isdigit()]
    last = next(one for one, following in pairwise(shown) if following > one + 1)
    more = call("handle_read", id="held", **{"from": hint["from"]})["text"]
    assert f"\n{last + 1}\n" in more


def test_the_tail_is_the_last_lines_and_nothing_is_left_out_of_it(call: Call) -> None:
    call("run", command="seq 20000; cat", id="cat", wait_s=0)
    last = ["19997", "19998", "19999", "20000"]
    text = call("handle_read", id="cat", view="tail", until="input")["text"]
    assert text.splitlines()[1:] == last
    ended = call("handle_send", id="cat", keys="C-d", view="tail", until="stopped")["text"]
    header, *lines = ended.splitlines()
    assert header.startswith("[cat: exit 0, ") and lines == last


def test_texts_are_converted_to_numbers_and_lists(call: Call) -> None:
    call("run", command="cat", id="cat", wait_s="5")
    assert call("handle_send", id="cat", keys="C-d")["text"].startswith("[cat: exit 0, ")
    assert call("handle_wait", ids='["cat"]')["text"].startswith("[cat: exit 0, ")
    assert call("handle_stop", ids="cat")["text"].startswith("[cat: exit 0, ")


def test_a_wait_for_any_ends_with_the_first_and_one_for_all_with_the_last(call: Call) -> None:
    call("run", command="echo hi", id="a")
    call("run", command="sleep 15", id="b", wait_s=0)
    text = call("handle_wait", ids=["a", "b"], any=True, wait_s=50)["text"]
    assert text.startswith("[a: exit 0, ") and "exit" not in text.partition("\n[b: ")[2]
    assert "\n[b: " in text
    call("run", command="sleep 0.2", id="c", wait_s=0)
    text = call("handle_wait", ids=["a", "c"], wait_s=50)["text"]
    assert "[a: exit 0, " in text and "[c: exit 0, " in text


def test_the_first_command_of_a_shell_is_answered_with_its_output(
    call: Call, tmp_path: Path
) -> None:
    lines = call("shell", id="work", command="pwd")["text"].splitlines()
    assert lines[1:] == [str(tmp_path), "$ "] or lines[1:] == [str(tmp_path), "$"]
    assert "\n42\n" in call("handle_send", id="work", line="echo $((6*7))")["text"]
    assert call("handle_list")["text"].startswith("work: running, ")
    ended = call("handle_stop", ids=["work"])["text"]
    assert ended.startswith("[work: ended by handle_stop, ") and "\n" not in ended


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "it has none"),
        ({"line": "x", "text": "y"}, "it has line and text"),
        ({"answer": True}, "asks nothing"),
        ({"lines": "x"}, "lines"),
        ({"line": "x", "wait_s": 51}, "wait_s"),
        ({"line": "x", "wait_s": -1}, "wait_s"),
    ],
)
def test_an_invalid_send_types_nothing_and_names_the_fault(
    call: Call, arguments: dict[str, Any], says: str
) -> None:
    call("run", command="cat", id="cat")
    with pytest.raises(Refused, match=says):
        call("handle_send", id="cat", **arguments)
    assert call("handle_read", id="cat", view="all")["text"].count("\n") == 0


def test_errors_name_the_tools_of_this_surface(call: Call) -> None:
    call("run", command="cat", id="cat")
    with pytest.raises(Refused, match=r"'cat' is taken .*, or end it first with `handle_stop`\.$"):
        call("run", command="cat", id="cat")
    call("handle_stop", ids="cat")
    with pytest.raises(
        Refused, match=r"'cat' has ended; `handle_read` still reads it\. To continue"
    ):
        call("handle_send", id="cat", line="x")


def test_an_unknown_handle_is_refused_with_the_known_ones(call: Call) -> None:
    call("run", command="cat", id="cat")
    with pytest.raises(Refused, match="'cat'"):
        call("handle_read", id="nope")


def test_a_question_for_a_user_is_not_answered_by_a_model(call: Call) -> None:
    asked = call("ask_user", question="Sure?", type="boolean")
    assert asked["inquiry"]["target"] == "user"
    assert asked["text"].endswith(
        f"[a person answers: haft answer {asked['inquiry']['inquiry_id']}]"
    )
    with pytest.raises(Refused, match="person"):
        call("handle_send", id="ask_user-1", answer=True)


def test_a_start_awaiting_approval_answers_in_time_and_goes_on_once_approved(
    make_daemon: Callable[..., RunningDaemon], tmp_path: Path
) -> None:
    daemon = make_daemon()
    daemon.tools('[tools.deploy]\nrun = "ask"\nstateful = true\ncommand = ["echo", "done"]\n')
    daemon.start()
    with daemon.connect() as wire:

        def call(tool: str, **arguments: Any) -> str:
            more = {"surface": "verbs", "format": "text", "root": str(tmp_path)}
            text = wire.call("tools/call", tool=tool, arguments=arguments, **more)["text"]
            assert isinstance(text, str)
            return text

        text = call("deploy", wait_s=0.1)
        assert text.startswith("[deploy-1: waits for approval, ")
        (approval,) = wire.call("approvals/list")["approvals"]
        assert text.endswith(
            f"[a person decides: haft approve {approval['approval_id']} --allow, or --deny]"
        )
        wire.call("approvals/decide", approval_id=approval["approval_id"], decision="allow")
        assert call("handle_wait", ids="deploy-1").endswith("]\ndone")


def test_describe_tools_describes_this_surface(call: Call) -> None:
    names = ["run", "shell", "git_stage", "git_rebase", "ask_user", "handle_send"]
    text = call("describe_tools", tools=names)["text"]
    pages = dict(page.split("\n", 1) for page in text.split("\n# ")[1:])
    assert list(pages) == names
    assert "action" not in text.replace("interactive", "") and "argv" not in text
    assert "`apply`" not in text and "with apply" not in text and "handle_send" in pages["shell"]
    assert "- `id` (string, optional): Name for the handle" in pages["run"]
    assert "- `wait_s` (number, optional, default 10): " in pages["run"]
    assert "- `command` (string, optional): First command" in pages["shell"]
    assert '- `cwd` (string, optional, default "."): The working folder at' in pages["shell"]
    assert "- `line` (string, optional): Text and Enter" in pages["handle_send"]


def test_describe_tools_describes_the_known_ones_and_names_the_others(call: Call) -> None:
    text = call("describe_tools", tools=["run", "handle_sned"])["text"]
    assert "\n# run\n" in text
    assert "There is no tool 'handle_sned' (is 'handle_send' meant?); the tools are: " in text
    alone = call("describe_tools", tools=["await"])
    assert alone["failed"] and "There is no tool 'await'" in alone["text"]
    assert "handle_wait" in alone["text"] and "tools are: await" not in alone["text"]


def test_an_unknown_tool_is_refused_with_the_tools_of_this_surface(call: Call) -> None:
    with pytest.raises(Refused, match=r"is 'handle_send' meant\?.* handle_wait.*") as refused:
        call("handle_sned")
    assert "await" not in str(refused.value)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("run", {}, r"are invalid: command: it is required\.$"),
        ("run", {"command": "x", "acton": "y"}, "acton: it is unknown; known names: command, terminal, cwd, id, wait_s"),
        ("run", {"command": "x", "id": "a b"}, "id: it must be a name of 1 to 64 letters, digits or"),
        ("ask_user", {"question": "?", "why": "x"}, r"why: it is unknown; known names: question, type, options\.$"),
        ("handle_read", {"id": "cat", "until": "pattern"}, "pattern: it is required with `until` = `pattern`"),
        ("handle_read", {"id": "cat", "view": "screen"}, "view: the handle has no terminal; give new, all or tail"),
    ],
)  # fmt: skip
def test_an_error_names_only_what_this_surface_has(
    call: Call, tool: str, arguments: dict[str, Any], says: str
) -> None:
    if tool == "handle_read":
        call("run", command="cat", id="cat")
    with pytest.raises(Refused, match=says):
        call(tool, **arguments)


def test_an_answer_to_an_ended_handle_is_refused_as_ended(call: Call) -> None:
    call("run", command="true", id="gone")
    with pytest.raises(Refused, match="'gone' has ended"):
        call("handle_send", id="gone", answer=True)


def test_any_call_that_ends_in_time_leaves_no_handle_and_its_id_is_not_used_again(
    call: Call,
) -> None:
    assert call("describe_tools", tools=["run"])["text"].startswith("[describe_tools-1: done, ")
    assert call("run", command="true")["text"].startswith("[run-1: exit 0, ")
    assert call("run", command="true")["text"].startswith("[run-2: exit 0, ")
    assert call("handle_list")["text"] == "no handles"


def test_handles_of_which_one_is_unknown_are_not_stopped(call: Call) -> None:
    call("run", command="cat", id="cat")
    with pytest.raises(Refused, match=r"no handle 'nope' .*'cat'\. Nothing was stopped\.$"):
        call("handle_stop", ids=["cat", "nope"])
    assert call("handle_list")["text"].startswith("cat: running, ")


def test_a_prompt_with_a_newline_on_a_terminal_is_shown_once(call: Call) -> None:
    text = call("run", command="printf 'Name?\\n'; read x", terminal=True)["text"]
    assert text.splitlines()[1:] == ["Name?"]
