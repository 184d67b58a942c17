from __future__ import annotations

from collections.abc import Callable

from tests.e2e.question_tools import asking, tool
from tests.running_daemon import RunningDaemon

ASSISTANT = '''
import asyncio, itertools, json, os
from haft.tools import ToolError, ask, tool


class Daemon:
    """The daemon that runs this tool, which serves it as any client."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.numbers = reader, writer, itertools.count(1)

    def send(self, **message):
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")

    async def call(self, method, **params):
        number = next(self.numbers)
        self.send(id=number, method=method, params=params)
        while True:
            message = json.loads(await self.reader.readline())
            if message.get("method") == "inquiry/ask":
                question = message["params"]["question"]
                answer = await ask(question["text"], bool, id=f"inner.{question['id']}")
                self.send(id=message["id"], result={"answer": answer})
            elif message.get("id") == number:
                if "error" in message:
                    raise ToolError(message["error"]["message"])
                return message["result"]


@tool(stateful=True)
async def assistant(task: str) -> str:
    """Do a task with tools.

    task: The task, in words.
    """
    daemon = Daemon(*await asyncio.open_unix_connection(os.environ["HAFT_SOCKET"]))
    await daemon.call("initialize", client={"name": "nested"}, protocol=1, capabilities={"inquiry": True})
    print("I work on:", task)
    listed = await daemon.call("tools/list")
    print("I call modify_file, one of", len(listed["tools"]), "tools")
    state = await daemon.call("tools/call", tool="modify_file", arguments={})
    print("it said", state["result"])
    if not await ask("Is this what you wanted?", bool, id="done"):
        raise ToolError("the task is not what was wanted")
    return f"done: {task}"
'''


def test_a_question_to_a_nested_assistant_surfaces_as_its_own(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    daemon.tools(ASSISTANT, "assistant.py")
    daemon.tools(tool("modify_file", asking("backup", text="Create backup files?")))
    with daemon.start().connect() as outer:
        outer.call("initialize", client={"name": "outer"}, protocol=1, session="work")
        arguments = {"action": "spawn", "id": "helper", "task": "tidy up"}
        begun = outer.call("tools/call", tool="assistant", arguments=arguments)
        state = outer.call("fetch", id="helper", wait="input", timeout_ms=30_000)
        assert state["state"] == "waiting"
        assert state["question"] == {
            "id": "inner.backup",
            "text": "Create backup files?",
            "answer_type": {"type": "boolean"},
        }
        # The reply to the spawn has the first lines from before.
        content = begun.get("content", "") + state["content"]
        assert "I work on: tidy up\nI call modify_file, one of " in content
        # The tool that really asks waits as well, in the same session, on behalf of the nested assistant.
        asked = {
            inquiry["question"]["id"]: inquiry
            for inquiry in outer.call("inquiries/list")["inquiries"]
        }
        assert asked.keys() == {"inner.backup", "backup"}
        assert asked["inner.backup"]["handle"] == "helper"
        state = outer.call("apply", id="helper", input=True, wait="input", timeout_ms=30_000)
        assert (state["state"], state["question"]["id"]) == ("waiting", "done")
        assert state["content"] == 'it said {"backup": true}\n'
        state = outer.call("apply", id="helper", input=True, wait="stopped", timeout_ms=30_000)
        assert state["result"] == "done: tidy up"
        assert outer.call("inquiries/list")["inquiries"] == []


def test_the_end_of_a_nested_assistant_ends_its_calls(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    daemon.tools(ASSISTANT, "assistant.py")
    daemon.tools(tool("modify_file", asking("backup", text="Create backup files?")))
    with daemon.start().connect() as outer:
        outer.call("spawn", tool="assistant", id="helper", args={"task": "x"}, wait="none")
        state = outer.call("fetch", id="helper", wait="input", timeout_ms=30_000)
        assert state["state"] == "waiting"
        assert outer.call("abort", id="helper")["ended_by"]["by"] == "abort"
        live = [
            row
            for row in outer.call("handles/list", session="*")["handles"]
            if row["state"] != "stopped"
        ]
        for one in live:
            outer.call("await", all=[one["id"]], timeout_secs=30)
        assert outer.call("inquiries/list", session="*")["inquiries"] == []
