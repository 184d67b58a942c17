"""Files that were written for another program, `[conversation.tools.*]`, as they are: loaded, listed, run."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

OLDER = Path(__file__).parent.parent / "tools" / "older"


class Project:
    """A daemon with the files, a folder with their program, and a connection."""

    def __init__(self, daemon: RunningDaemon, wire: Wire) -> None:
        self.root = str(OLDER)
        self.daemon = daemon
        self.wire = wire

    def call(self, tool: str, context: Any = None, **arguments: Any) -> dict[str, Any]:
        params = {"tool": tool, "arguments": arguments, "root": self.root, "session": "s"}
        params |= {} if context is None else {"context": context}
        state: dict[str, Any] = self.wire.call("tools/call", **params)
        return state

    def given(self, tool: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the context and the tool that the program received."""
        context, told = self.call(tool, **arguments)["result"].splitlines()
        return json.loads(context), json.loads(told)


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    shutil.copytree(OLDER / "config", daemon.config / "haft" / "tools", dirs_exist_ok=True)
    daemon.start()
    with daemon.connect() as wire:
        yield Project(daemon, wire)
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_older_definitions_are_listed_without_a_problem(project: Project) -> None:
    assert project.wire.call("daemon/status").get("problems", []) == []
    result = project.wire.call("tools/list", root=project.root)
    assert result.get("problems", []) == []
    tools = {tool["name"]: tool for tool in result["tools"]}
    assert tools.keys() >= {
        "read_file", "modify_file", "status", "plain", "renamed", "count_words", "sorted", "fails", "asked",
    }  # fmt: skip
    assert not tools.keys() & {"hidden", "off", "*"}
    assert tools["read_file"]["parameters"]["required"] == ["path"]
    items = tools["modify_file"]["parameters"]["properties"]["patterns"]["items"]
    assert items["required"] == ["old", "new"] and "regex" in items["properties"]
    assert tools["status"]["description"] == "Show what has changed."
    assert tools["renamed"]["description"] == "The same by another name."
    assert tools["renamed"]["parameters"] == tools["status"]["parameters"]
    (described,) = project.wire.call("tools/describe", tools=["read_file"])["tools"]
    assert described["examples"].startswith("The first ten lines:")
    assert described["description"].startswith("Gives the text of one file.")


def test_the_program_gets_its_context_and_tool_in_the_old_form(project: Project) -> None:
    context, tool = project.given("read_file", path="a b'\"$(c)", end_line=None)
    assert context.keys() == {
        "action", "root", "session", "handle", "access", "vars", "workspace_id", "conversation_id",
    }  # fmt: skip
    assert (context["action"], context["root"], context["session"]) == ("run", project.root, "s")
    assert context["access"] == {"fs": {"read": ["."]}}
    assert tool == {
        "name": "read_file",
        "arguments": {"path": "a b'\"$(c)", "start_line": 1, "end_line": None},
        "answers": {},
        "options": {"most": 100, "skip": ["*.lock"]},
    }
    assert project.given("renamed")[1]["name"] == "status"
    assert project.given("status", paths=["x"])[1]["arguments"] == {"paths": ["x"]}


def test_a_question_is_answered_by_the_definition_and_defaults_are_nested(project: Project) -> None:
    _, tool = project.given("modify_file", patterns=[{"old": "a", "new": "b"}])
    assert tool["answers"] == {"apply": True}
    assert tool["arguments"] == {"patterns": [{"old": "a", "new": "b", "regex": False}]}


def test_commands_of_every_form_run(project: Project) -> None:
    counted = project.call("count_words", path="config/files.toml")["result"]
    assert "config/files.toml" in counted and f"{project.root}/tool" in counted
    assert project.call("sorted", words=["b", "$(c)", "a"])["result"] == "$(c)\na\nb\n"
    assert project.call("hidden")["result"] == "all\n"
    assert project.call("hidden", depth="some")["result"] == "some\n"
    assert project.call("fails")["error"] == {"message": "no", "trace": ["why"], "transient": False}
    with pytest.raises(Refused, match="-32003"):
        project.call("off")


def test_a_tool_with_approval_still_asks(project: Project) -> None:
    with project.daemon.connect() as person:
        number = project.wire.start("tools/call", tool="asked", arguments={}, session="s")
        while not (found := person.call("approvals/list", session="s")["approvals"]):
            pass  # The tool's program may still be describing itself.
        (waiting,) = found
        assert waiting["rendered"] == "asked()"
        person.call(
            "approvals/decide", session="s", approval_id=waiting["approval_id"], decision="allow"
        )
        assert project.wire.finish(number)["result"] == "\n"


def test_the_ids_required_by_the_crate_come_from_root_and_session(
    project: Project,
) -> None:
    context, _ = project.given("plain")
    assert context["conversation_id"] == "s" and context["vars"] == {}
    again, _ = project.given("plain")
    assert context["workspace_id"] == again["workspace_id"] != ""


def test_a_client_passes_the_ids_as_vars(project: Project) -> None:
    ids = {"workspace_id": "abc12", "conversation_id": "17327391"}
    given = json.loads(
        project.call("plain", {"vars": {**ids, "action": "x", "more": [1]}})["result"].splitlines()[
            0
        ]
    )
    assert {key: given[key] for key in ids} == ids and given["more"] == [1]
    assert (given["action"], given["root"], given["session"]) == ("run", project.root, "s")
    assert given["vars"]["action"] == "x"
    # Also where a tool is run again with the answer to its question.
    state = project.call("modify_file", {"vars": ids, "messages": []}, patterns=[])
    assert json.loads(state["result"].splitlines()[0])["workspace_id"] == "abc12"
    with pytest.raises(Refused, match="`vars` of `context` must be an object") as caught:
        project.call("plain", {"vars": "abc12"})
    assert caught.value.code == -32602


def test_a_program_without_a_schema_is_listed_and_called_without_a_problem(
    project: Project,
) -> None:
    listed = project.wire.call("tools/list", root=project.root)
    assert "problems" not in listed
    (plain,) = [tool for tool in listed["tools"] if tool["name"] == "plain"]
    assert plain["parameters"]["properties"] == {}
    assert project.given("plain")[1]["arguments"] == {}
