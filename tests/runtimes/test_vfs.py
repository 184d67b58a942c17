"""Mediated tools as processes: many requests, unread replies, ends, and programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from haftd.host_calls.calls import HostCalls
from haftd.host_calls.messages import Request
from haftd.runtimes.process.events import LiveControl
from haftd.runtimes.vfs.requests import MAX_AT_ONCE, MAX_OUTSTANDING, HostRequests
from haftd.runtimes.vfs.runtime import VfsRuntime
from haftd.testing import PATIENCE_S, Recorder, perform
from tests.runtimes import kit

from .mediated_tools import ask, mediated, outcome, rules, sandboxed, tool

pytestmark = sandboxed


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_many_requests_are_answered_while_replies_are_read(
    tmp_path: Path, count: int
) -> None:
    (tmp_path / "file").write_text("x")
    script = f"""
import threading
def send():
    for number in range({count}):
        request("fs.read", id=number, path="file" if number % 2 else "missing")
threading.Thread(target=send).start()
replies = [hear() for _ in range({count})]
ids = sorted(reply["id"] for reply in replies)
contents = sum(reply.get("result") == {{"content": "x", "size": 1}} for reply in replies)
say(type="stopped", result=json.dumps([ids == list(range({count})), contents]))
"""
    policy = rules('access.fs.read = ["."]', str(tmp_path))
    assert await outcome(tool(script, tmp_path, policy)) == [True, count // 2]


async def test_the_output_is_not_read_beyond_the_outstanding_requests() -> None:
    """Neither requests nor replies pile up in the daemon."""

    class Slow(HostCalls):
        def __init__(self) -> None:
            self.may_go = trio.Semaphore(0)

        async def answer(self, request: Request) -> bytes:
            await self.may_go.acquire()
            return b"{}\n"

    calls, sent = Slow(), Sent()
    requests = HostRequests(calls, lambda: ())
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "fs.read"}'
    async with trio.open_nursery() as nursery:
        nursery.start_soon(requests.serve, sent)
        for _ in range(MAX_OUTSTANDING):
            assert requests.keep_up() is None
            assert requests.take(line)
        assert requests.take(line)
        rest = requests.keep_up()
        assert rest is not None
        await trio.testing.wait_all_tasks_blocked()
        assert calls.may_go.statistics().tasks_waiting == MAX_AT_ONCE
        calls.may_go.release()
        with trio.fail_after(PATIENCE_S):
            await rest
        assert len(requests) == MAX_OUTSTANDING and len(sent.replies) == 1
        nursery.cancel_scope.cancel()
    assert len(requests) == 0


class Sent(LiveControl):
    """A control that keeps the replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []

    async def wait_put(self, data: bytes) -> None:
        self.replies.append(data)


async def test_a_reply_waits_for_room_in_the_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x" * (1 << 20))
    script = """
for number in range(40):
    request("fs.read", id=number, path="file")
sizes = [len(hear()["result"]["content"]) for _ in range(40)]
say(type="stopped", result=json.dumps(sum(sizes)))
"""
    policy = rules('access.fs.read = ["."]', str(tmp_path))
    assert await outcome(tool(script, tmp_path, policy)) == 40 << 20


async def test_replies_come_when_ready(tmp_path: Path) -> None:
    script = """
request("process.run", id="slow", program="sh", args=["-c", "read line; echo $line"], stdin="done")
request("process.run", id="stuck", program="sleep", args=["1000"])
request("fs.exists", id="quick", path="x")
print(json.dumps([hear()["id"], hear()["id"]]), flush=True)
say(type="stopped", result=json.dumps("end"))
"""
    policy = rules(
        'access.fs.read = ["."]\naccess.commands.sh = {}\naccess.commands.sleep = {}', str(tmp_path)
    )
    with trio.fail_after(PATIENCE_S):
        assert await outcome(tool(script, tmp_path, policy)) == "end"


async def test_a_tool_that_waits_for_a_reply_is_busy(tmp_path: Path) -> None:
    script = (
        "say(type='running', content='asked'); call('process.run', program='sleep', args=['1000'])"
    )
    policy = rules("access.commands.sleep = {}", str(tmp_path))
    port = Recorder(grace_s=0)
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, VfsRuntime(), tool(script, tmp_path, policy), port)
        await port.until(lambda: b"asked" in port.output)
        with trio.fail_after(PATIENCE_S):
            while len(performance.control.members()) < 2:
                await trio.sleep(0.01)
        assert performance.control.input_state().state == "busy"
        members = performance.control.members()
        performance.scope.cancel()
        await performance.finish()
    assert not [pid for pid in members if os.path.exists(f"/proc/{pid}")]


async def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    policy = rules('access.commands."no-such" = {}\naccess.commands.true = {}', str(tmp_path))
    missing, folder, wide, ended = await ask(
        [
            ("process.run", {"program": "no-such"}),
            ("process.run", {"program": "true", "cwd": "missing"}),
            ("process.run", {"program": "true", "timeout_s": 0}),
            ("process.run", {"program": "true"}),
        ],
        tmp_path,
        policy,
    )
    assert (missing, folder, wide) == ("not_found", "not_found", "invalid")
    assert ended == {"stdout": "", "stderr": "", "code": 0}


async def test_a_program_of_the_root_is_no_other_where_the_tool_has_it_work(tmp_path: Path) -> None:
    for folder, text in ((tmp_path / "bin", "own"), (tmp_path / "work/bin", "another")):
        folder.mkdir(parents=True)
        (folder / "check").write_text(f"#!/bin/sh\necho {text} in ${{PWD##*/}}\n")
        (folder / "check").chmod(0o755)
    policy = rules(
        'access.commands."./bin/check" = {}\naccess.fs.read = ["."]\naccess.fs.execute = ["."]',
        str(tmp_path),
    )
    (ended,) = await ask(
        [("process.run", {"program": "./bin/check", "cwd": "work"})], tmp_path, policy
    )
    assert ended["stdout"] == "own in work\n"


async def test_a_program_has_bounds(tmp_path: Path) -> None:
    policy = rules("access.commands.sh = {}", str(tmp_path))
    flood, slow, killed = await ask(
        [
            ("process.run", {"program": "sh", "args": ["-c", "yes"]}),
            ("process.run", {"program": "sh", "args": ["-c", "sleep 1000"], "timeout_s": 0.1}),
            ("process.run", {"program": "sh", "args": ["-c", "kill -9 $$"]}),
        ],
        tmp_path,
        policy,
    )
    assert (flood, slow) == ("too_large", "timeout")
    assert killed == {"stdout": "", "stderr": "", "signal": "KILL"}


async def test_wrong_params_are_answered_in_words(tmp_path: Path) -> None:
    kinds = await ask(
        [
            ("fs.read", {}),
            ("fs.read", {"path": 1}),
            ("fs.read", {"path": "x", "mode": "r"}),
            ("http.get", {"url": "x", "body": "y"}),
            ("process.run", {"program": "true", "args": ["a\0b"]}),
            ("fs.chmod", {"path": "x"}),
        ],
        tmp_path,
    )
    assert kinds == ["invalid"] * 5 + ["unknown_method"]


async def test_a_request_that_is_too_long_fails_the_tool() -> None:
    script = """
sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "method": "fs.write", "params": {"content": "' + "x" * (9 << 20))
sys.stdout.flush()
hear()
"""
    port = Recorder()
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, VfsRuntime(), tool(script), port)
        await performance.finish()
    assert performance.failure is not None
    assert "a line of more than 8 MiB" in performance.failure.message


async def test_a_missing_root_fails_the_start(tmp_path: Path) -> None:
    call = mediated(kit.call("true", output="events"), tmp_path / "missing")
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, VfsRuntime(), call)
        await performance.finish()
    assert performance.refused is not None and performance.refused.reason == "folder"
    assert json.dumps(str(tmp_path / "missing"))[1:-1] in performance.refused.message
