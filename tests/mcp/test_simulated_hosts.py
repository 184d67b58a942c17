"""Simulated Claude Code, Codex and VS Code: each starts the entry that `haft mcp install`
writes. A host passes on six variables and those of its entry. Each behaves as observed in its
revision, capabilities, limits and permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from haft.mcp.hosts import entry_for
from tests.mcp.host import MODERN, Legacy, text_of
from tests.repository import make_repository, staged
from tests.running_daemon import RunningDaemon

SIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
MAX_TEXT = 2_048
"""Claude Code cuts descriptions and instructions here, without a word."""
MAX_TOOL_NAME = 128
MAX_CODEX_NAME = 64
MAX_CODEX_OUTPUT = 10_000
"""Bytes; Codex leaves out the middle of a longer output."""
MAX_VSCODE_TOOLS = 128
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}


class _Installed(Legacy):
    """A legacy host that starts its configured entry and caches the list of tools."""

    host = ""
    prefix = ""

    def __init__(self, daemon: RunningDaemon, root: Path, **variables: str) -> None:
        entry = entry_for(self.host, daemon.env, None).value
        folder = str(root)
        words = [word.replace("${workspaceFolder}", folder) for word in entry["args"]]
        poor = {name: daemon.env.get(name, "dumb") for name in SIX}
        self.roots = (folder,)
        self.asked: list[str] = []
        self.opened(
            daemon,
            entry={**entry, "args": words},
            env={**poor, **variables},
            cwd=root if self.host == "codex" else "/",
        )
        self.tools: dict[str, dict[str, Any]] = {}

    def opened(self, daemon: RunningDaemon, **options: Any) -> None:
        super().__init__(daemon, **options)

    def __enter__(self) -> Self:
        self.list_tools()
        return self

    def list_tools(self) -> None:
        listed = self.request("tools/list")["tools"]
        self.tools = {f"{self.prefix}{tool['name']}": tool for tool in listed}

    def is_asked_about(self, name: str) -> bool:
        """Return true if the host asks its user before calling the tool."""
        return self.tools[f"{self.prefix}{name}"]["annotations"]["readOnlyHint"] is not True

    def changed(self) -> bool:
        """Return true if a change of the list was notified."""
        return any(
            message.get("method") == "notifications/tools/list_changed" for message in self.seen
        )

    def serve(self, request: dict[str, Any]) -> None:
        if request["method"] == "elicitation/create":
            self.asked.append(request["params"]["message"])
        super().serve(request)


class ClaudeCode(_Installed):
    """Speaks 2025-11-25 over stdio; lists once, and again only when notified of a change."""

    host = "claude-code"
    prefix = "mcp__haft__"
    answers: Mapping[str, Any] = {"answer": True}

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        super().__init__(daemon, root, CLAUDE_PROJECT_DIR=str(root))

    def opened(self, daemon: RunningDaemon, **options: Any) -> None:
        super().opened(daemon, capabilities={"roots": {}, "elicitation": {}}, **options)

    def call(self, name: str, **arguments: Any) -> str:
        """Call a listed tool, with each list and number as a text and a token for progress."""
        assert f"{self.prefix}{name}" in self.tools
        texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in arguments.items()
        }
        return text_of(
            self.request("tools/call", name=name, arguments=texts, _meta={"progressToken": 1})
        )


class Negotiating(ClaudeCode):
    """Claude Code with MCP_PROTOCOL_NEGOTIATION=auto: initializes even after a good
    `server/discover`."""

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        if method == "initialize":
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            assert MODERN in super().request("server/discover", _meta=meta)["supportedVersions"]
        return super().request(method, **params)


class Codex(_Installed):
    """Identifies a server by its folder; asks by annotation, and cuts names and output."""

    host = "codex"
    prefix = "mcp__haft__"
    version = "2025-06-18"

    def opened(self, daemon: RunningDaemon, **options: Any) -> None:
        super().opened(daemon, capabilities={"elicitation": {}}, **options)

    def is_asked_about(self, name: str) -> bool:
        hints = self.tools[f"{self.prefix}{name}"]["annotations"]
        assert not (hints["destructiveHint"] and hints["readOnlyHint"])
        if hints["destructiveHint"]:
            return True
        return not hints["readOnlyHint"] and bool(hints["openWorldHint"])


class VsCode(_Installed):
    """Names the folders of its window, shows progress, and asks before any tool that is not
    read-only."""

    host = "vscode"
    prefix = "mcp_haft_"
    answers: Mapping[str, Any] = {"answer": "beta"}

    def opened(self, daemon: RunningDaemon, **options: Any) -> None:
        capabilities = {
            "roots": {"listChanged": True},
            "sampling": {},
            "elicitation": {"form": {}, "url": {}},
        }
        super().opened(daemon, capabilities=capabilities, **options)


@pytest.fixture
def repo(short_tmp: Path) -> Iterator[Path]:
    yield make_repository(short_tmp / "repo")


@pytest.mark.parametrize("kind", [ClaudeCode, Negotiating])
def test_claude_code_stages_with_texts_for_arguments_across_its_own_crash(
    shared_daemon: RunningDaemon, repo: Path, kind: type[ClaudeCode]
) -> None:
    with kind(shared_daemon, repo) as host:
        assert len(host.hello["instructions"]) <= MAX_TEXT
        for name, tool in host.tools.items():
            assert len(name) <= MAX_TOOL_NAME and len(tool["description"]) <= MAX_TEXT
            assert set(tool["annotations"]) == HINTS
        assert not host.is_asked_about("handle_read") and host.is_asked_about("run")
        assert "(1/3)" in host.call("git_stage", id="stage", wait_s=9)
        host.start(
            "tools/call",
            {"name": "handle_wait", "arguments": {"ids": '["stage"]', "wait_s": "50"}},
        )
        host.kill()
    with kind(shared_daemon, repo) as host:
        assert host.call("handle_list").startswith("stage: running, ")
        assert "(2/3)" in host.call("handle_send", id="stage", line="y")
        assert host.call("ask_user", question="Go on?", type="boolean").endswith("\ntrue")
        assert host.asked == ["Go on?"]
        assert "(3/3)" in host.call("handle_send", id="stage", line="n")
        host.call("handle_send", id="stage", line="y", until="stopped")
        host.call("handle_stop", ids=["stage"])
    assert staged(repo) == ["line two", "line thirty-nine"]


def test_claude_code_uses_its_cached_list_until_notified_of_a_change(
    shared_daemon: RunningDaemon, repo: Path
) -> None:
    with ClaudeCode(shared_daemon, repo) as host:
        other = ClaudeCode(shared_daemon, repo)
        with other:
            host.call("run", id="cat", command="cat")
            # The conversations of one folder share its handles, each by its own list.
            assert other.call("handle_send", id="cat", line="hi").endswith("]\nhi")
        shared_daemon.tools('[tools.added]\ncommand = "echo hello"\n', "added.toml")
        with shared_daemon.connect() as wire:
            wire.call("tools/reload")
        assert host.call("handle_list").startswith("cat: running, ")
        assert "mcp__haft__added" not in host.tools
        if not host.changed():
            assert host.read()["method"] == "notifications/tools/list_changed"
        host.list_tools()
        assert "hello" in host.call("added")
        host.call("handle_stop", ids=["cat"])


def test_codex_asks_by_annotation_and_loses_nothing_of_a_timed_out_call(
    shared_daemon: RunningDaemon, repo: Path
) -> None:
    with Codex(shared_daemon, repo) as host:
        assert all(len(name.encode()) <= MAX_CODEX_NAME for name in host.tools)
        asked = {name for name in ("run", "shell", "handle_send") if host.is_asked_about(name)}
        assert asked == {"run", "shell", "handle_send"}
        free = ("handle_read", "handle_wait", "handle_list")
        assert not any(host.is_asked_about(name) for name in free)
        host.call("run", id="seq", command="seq 100000; cat", wait_s=0)
        shown = host.call("handle_read", id="seq", until="pattern", pattern="100000", view="all")
        assert len(shown.encode()) <= MAX_CODEX_OUTPUT and "100000" in shown
        # Its tool_timeout_sec has passed: Codex gives up the call, and calls again.
        wait = {"name": "handle_wait", "arguments": {"ids": ["seq"], "wait_s": 50}}
        number = host.start("tools/call", wait)
        host.notify("notifications/cancelled", requestId=number, reason="timed out")
        assert "\nstill here" in host.call("handle_send", id="seq", line="still here")
        # The user does not fill in the form: the question stays.
        text = host.ask("ask_user", {"question": "Sure?", "type": "boolean"}, {})
        assert "declined" in text and "haft answer" in text
        host.call("handle_stop", ids=["seq"])


def test_vs_code_works_in_its_windows_folder_and_asks_its_user(
    shared_daemon: RunningDaemon, repo: Path
) -> None:
    with VsCode(shared_daemon, repo) as host:
        assert len(host.tools) <= MAX_VSCODE_TOOLS
        assert {name for name in host.tools if not name.startswith("mcp_haft_")} == set()
        assert not host.is_asked_about("handle_list") and host.is_asked_about("handle_stop")
        result = host.request(
            "tools/call",
            name="run",
            arguments={"command": "pwd"},
            _meta={"progressToken": "a-1", "vscode.conversationId": "c"},
        )
        assert text_of(result).splitlines()[1] == str(repo)
        question = {"question": "Which?", "type": "select", "options": ["alpha", "beta"]}
        assert host.call("ask_user", **question).endswith("\nbeta")
        assert host.asked == ["Which?"]
