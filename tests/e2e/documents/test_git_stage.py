"""The staging dialogue: `git add --patch` driven by spawn, fetch and apply. The documents' spawn
ends before the prompt; haft's ends when git reads, so the prompt ends the content of spawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.repository import make_repository, staged

from .calls import called
from .conftest import Host
from .schemas import ABORT, APPLY, FETCH, READING, adds, spawning, variants

GIT = """
[tools.git]
source = "local"
stateful = true
summary = "Git, also where it asks."
runtime = "pty"
env = { TERM = "dumb" }
command = [
    "sh", "-c", '''
        git -c interactive.singleKey=true "$@" &&
        echo "Staged $(git diff --cached -U0 | grep -c ^@@) hunks."
    ''',
    "git",
    "{{ {'stage': 'add'}.get(tool.arguments.command, tool.arguments.command) }}",
    { each = "tool.arguments.args if tool.arguments.args is defined else []" },
]

[tools.git.parameters]
command = { enum = ["stage", "commit", "rebase"], required = true }
args = { type = "array", items = { type = "string" } }
"""

PARAMETERS: dict[str, Any] = {
    "command": {"enum": ["stage", "commit", "rebase"]},
    "args": {"type": "array", "items": {"type": "string"}},
}


@pytest.fixture
def repo(short_tmp: Path) -> Path:
    return make_repository(short_tmp / "repo")


def test_the_staging_dialogue(host_of: Host, repo: Path) -> None:
    host = host_of(GIT)

    def git(**arguments: Any) -> Any:
        reply = called(host, "git", arguments, repo)
        assert reply["id"] == "staging" and reply["tool"] == "git"
        assert reply.pop("call_id").startswith("call_") and reply.pop("notifications") == []
        return reply

    spawned = git(action="spawn", id="staging", command="stage", args=["--patch"])
    assert spawned["state"] == "running" and spawned["waited"] == "input"
    assert spawned["content"].startswith("diff --git a/poem.txt b/poem.txt\n")
    assert "-line 2\n+line two\n" in spawned["content"]
    prompt = spawned["content"].splitlines()[-1]
    assert prompt.startswith("(1/3) Stage this hunk [y,n,q,a,d,")

    fetched = git(action="fetch", id="staging")
    assert fetched["state"] == "running" and fetched["content"] == ""
    assert fetched["input_wanted"] == {"kind": "key", "prompt": prompt}

    second = git(action="apply", id="staging", input="y")
    assert second["state"] == "running" and "-line 20\n+line twenty\n" in second["content"]
    assert second["content"].splitlines()[-1].startswith("(2/3) Stage this hunk [y,n,q,a,d,")
    third = git(action="apply", id="staging", input="y")
    assert third["state"] == "running" and "+line thirty-nine\n" in third["content"]
    assert third["content"].splitlines()[-1].startswith("(3/3) Stage this hunk [y,n,q,a,d,")

    last = git(action="apply", id="staging", input="y")
    stopped = git(action="fetch", id="staging")
    for state in (last, stopped):
        assert state["state"] == "stopped" and "error" not in state and "content" not in state
        assert state["result"].endswith("\nStaged 3 hunks.\n")
        assert state["exit"] == {"code": 0} and state["ended_by"] == {"by": "exit"}
    assert staged(repo) == ["line two", "line twenty", "line thirty-nine"]


def test_an_aborted_dialogue_stages_nothing(host_of: Host, repo: Path) -> None:
    host = host_of(GIT)
    spawn = {"action": "spawn", "id": "staging", "command": "stage", "args": ["--patch"]}
    called(host, "git", spawn, repo)
    called(host, "git", {"action": "apply", "id": "staging", "input": "y"}, repo)
    state = called(host, "git", {"action": "abort", "id": "staging"}, repo)
    assert state["state"] == "stopped"
    assert state["ended_by"] == {"by": "abort", "client": "assistant"}
    assert staged(repo) == []
    # The id is free again, and the assistant gets no known news.
    again = called(host, "git", spawn, repo)
    assert again["state"] == "running" and again["generation"] == 2
    assert again["notifications"] == []


def test_the_schema_of_git_is_the_documents(host_of: Host) -> None:
    spawn, fetch, apply, abort = variants(host_of(GIT), "git")
    assert adds(spawn, spawning(PARAMETERS, "command")) == READING
    assert adds(fetch, FETCH) == READING
    assert adds(apply, APPLY) == READING
    assert adds(abort, ABORT) == set()
