"""fs_modify_file and its question, "Create backup files?". The assistant sends arguments once;
the tool is run again with the answers so far, and the host sees the result only."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.question_tools import Client
from tests.faults.harness import until

from .conftest import Host

_MODIFY = r"""
import json, os, pathlib, shutil
call = json.loads(os.environ["HAFT_CALL"])["tool"]
arguments, answers = call["arguments"], call["answers"]
path = pathlib.Path(arguments["path"])
with open(path.with_suffix(".runs"), "a") as runs:
    print(json.dumps([arguments, answers]), file=runs)
def ask(id, text, kind):
    raise SystemExit(print(json.dumps(
        {"type": "needs_input", "question": {"id": id, "text": text, "answer_type": kind}})))
if "backup" not in answers or os.environ.get("AGAIN"):
    ask("backup", "Create backup files?", "Boolean")
if path.name.startswith("dirty"):
    if "force" not in answers:
        ask("force", "The file has changes that are not committed. What now?",
            {"Select": {"options": ["modify", "skip"]}})
    if "reason" not in answers:
        ask("reason", "Why?", "Text")
    if answers["force"] == "skip":
        raise SystemExit(print(json.dumps(
            {"type": "error", "message": "skipped: " + answers["reason"], "trace": [], "transient": False})))
if answers["backup"]:
    shutil.copy(path, str(path) + ".bak")
text = path.read_text()
for one in arguments["patterns"]:
    text = text.replace(one["old"], one["new"])
path.write_text(text)
print(json.dumps({"type": "success", "content": "File modified successfully"}))
"""

FILES = "".join(
    f"""
[tools.{name}]
source = "local"
command = ["{sys.executable}", "-I", "-S", "-c", '''{_MODIFY}''']
{more}
[tools.{name}.parameters]
path = {{ type = "string", required = true }}
[tools.{name}.parameters.patterns]
type = "array"
required = true
items = {{ type = "object", properties = {{ old = {{ type = "string" }}, new = {{ type = "string" }} }} }}
"""
    for name, more in {
        "fs_modify_file": "questions = { backup = { target = 'assistant' } }",
        "fs_modify_again": "env = { AGAIN = '1' }",
    }.items()
)
PATTERNS = [{"old": "colour", "new": "color"}]


@pytest.fixture
def file(short_tmp: Path) -> Path:
    return written(short_tmp / "notes.txt")


def written(path: Path) -> Path:
    path.write_text("a colour\n")
    return path


def modify(host: Client, path: Path, **more: Any) -> int:
    """Start the call; return the number of its request."""
    arguments = {"path": str(path), "patterns": PATTERNS}
    return host.start("tools/call", **{"tool": "fs_modify_file", "arguments": arguments, **more})


def runs_of(path: Path) -> list[Any]:
    """Return the answers of each run; all runs had the arguments of the call."""
    runs = [json.loads(line) for line in path.with_suffix(".runs").read_text().splitlines()]
    assert all(given == {"path": str(path), "patterns": PATTERNS} for given, _ in runs)
    return [answers for _, answers in runs]


def schema(inquiry: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"inquiry_id": {"type": "string", "const": inquiry}, "answer": answer},
        "required": ["inquiry_id", "answer"],
        "additionalProperties": False,
    }


def test_the_caller_is_asked_on_its_own_connection(host_of: Host, file: Path) -> None:
    host = host_of(FILES)
    number = modify(host, file, call_id="call_a3b7")
    inquiry = "tool_call.fs_modify_file.call_a3b7"
    asked = host.receive()
    assert set(asked) == {"jsonrpc", "id", "method", "params"}
    assert asked["method"] == "inquiry/ask" and asked["params"].pop("handle")
    assert asked["params"] == {
        "session": host.session,
        "call_id": "call_a3b7",
        "inquiry_id": inquiry,
        "question": {
            "id": "backup",
            "text": "Create backup files?",
            "answer_type": {"type": "boolean"},
        },
        "schema": schema(inquiry, {"type": "boolean"}),
        "target": "assistant",
    }
    host.result(asked, {"inquiry_id": inquiry, "answer": True})
    reply = host.receive()
    assert reply["id"] == number
    state = reply["result"]
    assert state["state"] == "stopped" and state["result"] == "File modified successfully"
    assert state["call_id"] == "call_a3b7" and state["notifications"] == []
    assert file.read_text() == "a color\n"
    assert Path(f"{file}.bak").read_text() == "a colour\n"
    assert runs_of(file) == [{}, {"backup": True}]


def test_a_host_without_inquiry_support_polls(host_of: Host, file: Path) -> None:
    host = host_of(FILES, able=False)
    number = modify(host, file, call_id="call_a3b7")
    until(lambda: host.call("inquiries/list")["inquiries"], "it is asked")
    (listed,) = host.call("inquiries/list")["inquiries"]
    inquiry = "tool_call.fs_modify_file.call_a3b7"
    assert listed["inquiry_id"] == inquiry and listed["schema"] == schema(
        inquiry, {"type": "boolean"}
    )
    assert host.call("inquiries/answer", inquiry_id=inquiry, answer=False) == {}
    assert host.finish(number)["result"] == "File modified successfully"
    assert file.read_text() == "a color\n" and not Path(f"{file}.bak").exists()
    assert runs_of(file) == [{}, {"backup": False}]


def test_several_questions_come_in_a_row(host_of: Host, short_tmp: Path) -> None:
    file = written(short_tmp / "dirty.txt")
    host = host_of(FILES)
    number = modify(host, file)
    select = {"type": "select", "options": ["modify", "skip"]}
    for id, kind, answer in (
        ("backup", {"type": "boolean"}, False),
        ("force", select, "skip"),
        ("reason", {"type": "text"}, "not mine"),
    ):
        asked = host.receive()
        assert asked["method"] == "inquiry/ask"
        assert asked["params"]["question"]["id"] == id
        assert asked["params"]["question"]["answer_type"] == kind
        host.reply(asked, answer)
    reply = host.receive()
    assert reply["id"] == number and "result" not in reply["result"]
    assert reply["result"]["error"]["message"] == "skipped: not mine"
    assert runs_of(file)[-1] == {"backup": False, "force": "skip", "reason": "not mine"}
    assert len(runs_of(file)) == 4 and file.read_text() == "a colour\n"


def test_two_tools_ask_in_parallel(host_of: Host, short_tmp: Path) -> None:
    host = host_of(FILES)
    files = {name: written(short_tmp / name) for name in ("one.txt", "two.txt")}
    host.send(
        [
            {
                "jsonrpc": "2.0",
                "id": name,
                "method": "tools/call",
                "params": {
                    "tool": "fs_modify_file",
                    "arguments": {"path": str(path), "patterns": PATTERNS},
                    "call_id": name,
                },
            }
            for name, path in files.items()
        ]
    )
    # Both are asked before either is answered; answered the other way round.
    asked = {one["params"]["call_id"]: one for one in (host.receive(), host.receive())}
    assert sorted(asked) == ["one.txt", "two.txt"]
    host.reply(asked["two.txt"], True)
    host.reply(asked["one.txt"], False)
    replies = host.receive()
    assert [reply["id"] for reply in replies] == ["one.txt", "two.txt"]
    assert [reply["result"]["result"] for reply in replies] == ["File modified successfully"] * 2
    assert [Path(f"{path}.bak").exists() for path in files.values()] == [False, True]


def test_an_answered_question_asked_again_is_an_error(host_of: Host, file: Path) -> None:
    host = host_of(FILES)
    number = modify(host, file, tool="fs_modify_again")
    host.reply(host.receive(), True)
    reply = host.receive()
    assert reply["id"] == number
    message = reply["result"]["error"]["message"]
    assert message.startswith("The tool asked 'backup' again, although it was given the answer")
    assert runs_of(file) == [{}, {"backup": True}] and file.read_text() == "a colour\n"


def test_an_invalid_answer_is_refused_and_the_question_stays(host_of: Host, file: Path) -> None:
    host = host_of(FILES)
    number = modify(host, file)
    asked = host.receive()
    for wrong in ({"answer": "yes"}, {"answer": True, "inquiry_id": "tool_call.fs_modify_file.x"}):
        host.result(asked, wrong)
        again = host.receive()
        assert again["params"]["question"] == asked["params"]["question"]
        asked = again
    host.reply(asked, False)
    assert host.finish(number)["result"] == "File modified successfully"
    assert runs_of(file) == [{}, {"backup": False}]
