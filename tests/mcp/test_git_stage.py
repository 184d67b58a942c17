"""A staging session with a question through `haft mcp`, across a kill of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import Open
from tests.mcp.host import Host, Legacy, Modern
from tests.repository import staged


def test_a_staging_session_with_a_question_outlives_the_host(
    host: Open, era: type[Host], root: Path
) -> None:
    first = host(era)
    shown = first.call("git_stage", id="stage")
    assert shown.startswith("[stage: running, ") and "(1/3) Stage this hunk" in shown
    assert "(2/3)" in first.call("handle_send", id="stage", line="y")
    # The call waits for more output at the kill: the wait ends, the program does not.
    first.start("tools/call", {"name": "handle_wait", "arguments": {"ids": ["stage"]}})
    first.kill()
    second = host(era)
    assert second.call("handle_list").startswith("stage: running, ")
    question = {"question": "Stage the second hunk as well?", "type": "boolean"}
    answer = second.ask("ask_user", question, {"answer": False})
    assert answer.splitlines()[1:] == ["false"]
    assert "(3/3)" in second.call("handle_send", id="stage", line="n")
    last = second.call("handle_send", id="stage", line="y", until="stopped")
    assert last.startswith("[stage: exit 0, ")
    assert staged(root) == ["line two", "line thirty-nine"]


def test_a_question_is_answered_by_a_later_host(host: Open) -> None:
    question = {"question": "Sure?", "type": "select", "options": ["yes", "no"]}
    first = host(Modern)
    asked = first.request("tools/call", name="ask_user", arguments=question)
    assert asked["resultType"] == "input_required"
    first.kill()
    result = host(Modern).retry("ask_user", question, asked, {"answer": "no"})
    assert result["content"][0]["text"].splitlines()[1:] == ["no"]


def test_both_eras_are_served_by_one_process(host: Open) -> None:
    """A host probes by server/discover, and may initialize afterwards."""
    modern = host(Modern)
    assert modern.request("server/discover")["supportedVersions"] == ["2026-07-28"]
    number = Host.start(
        modern,
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}},
    )
    hello: dict[str, Any] = Host.finish(modern, number)
    assert hello["protocolVersion"] == "2025-06-18" and "resultType" not in hello
    listed = Host.finish(modern, Host.start(modern, "tools/list", {}))
    assert "ttlMs" not in listed
    assert modern.request("tools/list")["tools"] == listed["tools"]


@pytest.mark.parametrize("answers", [{"answer": "maybe"}, {}])
def test_an_empty_form_leaves_the_question_open(host: Open, answers: dict[str, Any]) -> None:
    legacy = host(Legacy)
    question = {"question": "Sure?", "type": "select", "options": ["yes", "no"]}
    text = legacy.ask("ask_user", question, answers)
    assert "asks, " in text and "haft answer" in text


def test_a_host_without_forms_learns_how_to_answer(host: Open, era: type[Host]) -> None:
    client = host(era, capabilities={})
    text = client.call("ask_user", question="Sure?", type="boolean")
    assert text.splitlines()[-1].startswith("[a person answers: haft answer tool_call.ask_user.")


@pytest.mark.parametrize("damage", ["empty", "folder"])
def test_a_damaged_key_leaves_the_question_answerable_by_text(
    host: Open, tmp_path: Path, damage: str
) -> None:
    key = tmp_path / "haft" / "mcp-key"
    key.parent.mkdir()
    if damage == "empty":
        key.touch()
    else:
        key.mkdir()
    client = host(Modern, env={"XDG_STATE_HOME": str(tmp_path)})
    text = client.call("ask_user", question="Sure?", type="boolean")
    assert "haft answer tool_call.ask_user." in text and str(key) in text
    # The server goes on.
    assert "asks" in client.call("handle_list")
