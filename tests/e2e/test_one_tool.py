"""The same tool in every form of docs/tools.md is the same to callers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import haft
from tests.e2e.release_module import write_release
from tests.mcp.host import Host, Legacy, Modern, text_of
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

PAGE = Path(__file__).parent.parent.parent / "docs" / "tools.md"
FILES = dict(
    re.findall(
        r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
)
FORMS = {
    "function": ("release.py",),
    "events": ("release.mjs", "javascript.toml"),
    "outcome": ("release.sh", "shell.toml"),
    "server": ("server.toml",),
    "module": ("module.toml",),
    "mediated": ("mediated", "mediated.toml"),
}
FILES["server.toml"] = """
[tools.release]
source = "mcp.acme.release"
stateful = true
"""
FILES["module.toml"] = """
[tools.release]
stateful = true
output = "outcome"
command = "~/bin/release.wasm"
"""
_RELEASE = (
    FILES["release.py"]
    .replace("import ToolError", "import ToolError, host, run")
    .replace("    for number", '    host.fs.write("released", package)\n    for number')
)
FILES["mediated"] = f"#!{sys.executable}\n{_RELEASE}\n\nrun()\n"
_LIBRARIES = [sys.prefix, sys.base_prefix, str(Path(haft.__file__).parents[1])]
FILES["mediated.toml"] = f"""
[tools.release]
runtime = "vfs"
stateful = true
command = ["~/bin/mediated"]
access.fs.write = ["released"]
access.fs.execute = {json.dumps(_LIBRARIES)}
"""
SERVER = f"""
[mcp.acme]
command = ["{sys.executable}", "{Path(__file__).parent / "release_server.py"}"]
"""


@pytest.fixture(scope="module", params=FORMS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningDaemon]:
    """A daemon with the tool in the given form, from the text of the page."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder, config=SERVER if request.param == "server" else "")
    (daemon.home / "bin").mkdir()
    if request.param == "module":
        write_release(daemon.home / "bin/release.wasm")
    for name in FORMS[request.param]:
        if name.endswith((".py", ".toml")):
            daemon.tools(FILES[name].replace("~", str(daemon.home)), name)
        else:
            (daemon.home / "bin" / name).write_text(FILES[name])
            (daemon.home / "bin" / name).chmod(0o755)
    yield daemon.start()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def wire(running: RunningDaemon) -> Iterator[Wire]:
    with running.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        yield wire
        wire.call("session/close")


def essence(state: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a state that a caller acts on."""
    kept = ("state", "content", "question", "result", "error", "ended_by", "waited")
    return {key: state[key] for key in kept if key in state}


QUESTION = {"id": "sure", "text": "Release haft?", "answer_type": {"type": "boolean"}}
ERROR = {"message": "the release was not confirmed", "trace": [], "transient": False}
ASKED = {"state": "waiting", "content": "", "question": QUESTION, "waited": "input"}


def test_the_page_shows_each_form() -> None:
    assert FILES.keys() >= {name for names in FORMS.values() for name in names}
    lines = [line for line in FILES["release.py"].splitlines() if line.strip()]
    assert len(lines) <= 20


def test_the_list_is_the_same(wire: Wire) -> None:
    (listed,) = [
        tool for tool in wire.call("tools/list", style="flat")["tools"] if tool["name"] == "release"
    ]
    properties = listed["parameters"]["properties"]
    assert listed["description"].startswith("Release a package.")
    assert listed["actions"] == ["spawn", "fetch", "apply", "abort"]
    assert properties["package"]["pattern"] == "^[a-z]+$"
    assert "Its name." in properties["package"]["description"]
    assert properties["copies"]["type"] == "integer"
    (described,) = wire.call("tools/describe", tools=["release"])["tools"]
    assert described["parameters"] == [
        {"name": "package", "type": "string", "required": True, "description": "Its name. It must match the regular expression \"^[a-z]+$\"."},
        {"name": "copies", "type": "integer", "description": "How many are made.", "default": 1},
    ]  # fmt: skip


def test_question_output_and_result_are_the_same(wire: Wire) -> None:
    args = {"package": "haft", "copies": 2}
    asked = wire.call("spawn", tool="release", id="r", args=args, wait="input", timeout_ms=20_000)
    assert essence(asked) == ASKED
    with pytest.raises(Refused, match="takes true or false"):
        wire.call("apply", id="r", input="yes")
    state = wire.call("apply", id="r", input=True, wait="stopped", timeout_ms=20_000)
    assert essence(state) == {
        "state": "stopped",
        "result": "released haft",
        "ended_by": {"by": "exit"},
        "waited": "stopped",
    }
    again = essence(wire.call("fetch", id="r"))
    assert {**again, "waited": "stopped"} == essence(state)
    found = wire.call("output/search", pattern="copy", ids=["r"])["matches"]
    assert [line["line"] for line in found] == ["copy 1", "copy 2"]


def test_the_error_is_the_same(wire: Wire) -> None:
    args = {"package": "haft"}
    wire.call("spawn", tool="release", id="r", args=args, wait="input", timeout_ms=20_000)
    state = wire.call("apply", id="r", input=False, wait="stopped", timeout_ms=20_000)
    assert essence(state)["error"] == ERROR
    assert "result" not in state


def test_invalid_arguments_are_refused_with_the_same_words(wire: Wire) -> None:
    with pytest.raises(Refused) as refused:
        wire.call("spawn", tool="release", id="r", args={"package": "A", "copies": "x", "c": 1})
    assert refused.value.code == -32005
    problems = refused.value.data["problems"]
    assert [problem["path"] for problem in problems] == ["package", "copies", "c"]
    assert problems[0]["message"] == '"A" does not match "^[a-z]+$"'


def test_an_abort_during_a_question_is_the_same(wire: Wire) -> None:
    wire.call(
        "spawn", tool="release", id="r", args={"package": "haft"}, wait="input", timeout_ms=20_000
    )
    state = wire.call("abort", id="r")
    assert (state["state"], state["ended_by"]["by"]) == ("stopped", "abort")
    assert wire.call("inquiries/list")["inquiries"] == []


def test_a_model_drives_each_form_the_same(wire: Wire) -> None:
    def call(**arguments: object) -> dict[str, Any]:
        result: dict[str, Any] = wire.call("tools/call", tool="release", arguments=arguments)
        return result

    call(action="spawn", id="m", package="haft")
    assert essence(call(action="fetch", id="m", wait="input", timeout_ms=20_000)) == ASKED
    waiting = wire.call("await", all=["m"])
    assert [essence(row)["question"] for row in waiting["waiting"]] == [QUESTION]
    (inquiry,) = wire.call("inquiries/list")["inquiries"]
    assert inquiry["question"] == QUESTION
    wire.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=True)
    (done,) = wire.call("await", all=["m"])["completed"]
    assert done["result"] == "released haft"


@pytest.mark.parametrize("era", [Modern, Legacy], ids=["modern", "legacy"])
def test_an_mcp_host_sees_the_same(
    running: RunningDaemon, era: type[Host], short_tmp: Path
) -> None:
    with era(running, "--root", str(short_tmp)) as host:
        tools = {tool["name"]: tool for tool in host.request("tools/list")["tools"]}
        assert tools["release"]["inputSchema"]["properties"]["package"]["pattern"] == "^[a-z]+$"
        arguments = {"package": "haft", "wait_s": 20}
        text = host.ask("release", {**arguments, "id": "yes"}, {"sure": True})
        assert text.splitlines()[1:] == ["copy 1", "released haft"]
        text = host.ask("release", {**arguments, "id": "no"}, {"sure": False})
        assert "the release was not confirmed" in text


WRONG = (
    'The arguments of \'release\' are invalid: package: "A" does not match "^[a-z]+$"; '
    'copies: it must be integer, not "x"; c: it is unknown; known names: package, copies, id, wait_s.'
)
FORM = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}},
    "required": ["sure"],
}
VERBS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("release", {"id": "yes", "copies": 2, "package": "haft", "wait_s": 20}, "ASKS"),
    ("handle_list", {}, "yes: asks, … s"),
    ("handle_read", {"id": "yes"}, "ASKS"),
    (
        "handle_send",
        {"id": "yes", "line": "true"},
        "The arguments of 'handle_send' are invalid: line: the handle asks a question; give `answer` instead.",
    ),
    (
        "handle_send",
        {"id": "yes", "answer": "maybe"},
        "The answer is invalid: question 'sure' takes true or false; the question is still open.",
    ),
    ("handle_wait", {"ids": ["yes"]}, "ASKS"),
    (
        "handle_send",
        {"id": "yes", "answer": True, "until": "stopped", "wait_s": 20},
        "[yes: done, … s]\ncopy 1\ncopy 2\nreleased haft",
    ),
    (
        "handle_read",
        {"id": "yes", "view": "all"},
        "[yes: done, … s]\ncopy 1\ncopy 2\nreleased haft",
    ),
    (
        "handle_send",
        {"id": "yes", "answer": True},
        "Handle 'yes' has ended; `handle_read` still reads it. To continue, start it again.",
    ),
    ("release", {"id": "no", "package": "haft", "wait_s": 20}, "ASKS"),
    (
        "handle_send",
        {"id": "no", "answer": False, "until": "stopped", "wait_s": 20},
        "[no: failed, … s]\nthe release was not confirmed",
    ),
    ("release", {"id": "end", "package": "haft", "wait_s": 20}, "ASKS"),
    ("handle_stop", {"ids": "end"}, "[end: ended by handle_stop, … s]"),
    (
        "release",
        {"package": "A", "copies": "x", "c": 1},
        WRONG,
    ),
)
"""Calls of the tools for models, and their replies without ages."""


def test_each_verb_for_models_replies_the_same(
    running: RunningDaemon, short_tmp: Path, request: pytest.FixtureRequest
) -> None:
    # The call of an MCP server's tool has no process, so no exit status: `done`.
    is_process = request.node.callspec.params["running"] != "server"
    with Modern(running, "--root", str(short_tmp), capabilities={}) as host:
        for tool, arguments, expected in VERBS:
            reply = host.request("tools/call", name=tool, arguments=arguments)
            text = re.sub(r"[\d.]+ s\b", "… s", text_of(reply))
            if expected == "ASKS":
                id = arguments.get("id") or arguments["ids"][0]
                hint = f'answer by handle_send {{"id":"{id}","answer":true}}'
                expected = f"[{id}: asks, … s]\nRelease haft?\n[takes true or false; {hint}]"
            if tool == "handle_list":  # The command is that of the form.
                text = ": ".join(text.split(": ")[:2])
            if is_process:
                expected = expected.replace(": done,", ": exit 0,")
            assert text == expected
            is_refusal = not expected.startswith(("[", "yes: asks"))
            assert reply.get("isError", False) == (is_refusal or ": failed," in expected)


def test_a_host_shows_the_same_form(running: RunningDaemon, short_tmp: Path) -> None:
    with Modern(running, "--root", str(short_tmp)) as host:
        arguments = {"package": "haft", "wait_s": 20, "id": "form"}
        asked = host.request("tools/call", name="release", arguments=arguments)
        assert asked["inputRequests"] == {
            "sure": {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": "Release haft?", "requestedSchema": FORM},
            }
        }
        host.call("handle_stop", ids="form")
