"""The library of host calls against a daemon of lines: values, errors, answers in between, and the end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

METHODS = [
    "fs.read", "fs.write", "fs.exists", "fs.list_dir", "fs.metadata", "fs.delete", "fs.rename", "fs.grep",
    "http.get", "http.post", "process.run",
]  # fmt: skip


class Program:
    """A program of one tool, spoken to as the daemon does."""

    def __init__(self, body: str, methods: list[str] | None = METHODS, head: str = "def") -> None:
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        source = (
            f"from haft.tools import ask, host, run, tool\n@tool\n{head} f():\n{lines}\nrun()\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HAFT_CALL": '{"context": {}}', "PYTHONPATH": ":".join(sys.path)},
            text=True,
        )
        params: dict[str, Any] = {"tool": {"name": "f", "arguments": {}}}
        if methods is not None:
            params["host"] = {"methods": methods}
        self.send(jsonrpc="2.0", method="init", params=params)

    def send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def answer(self, result: Any = None, **error: Any) -> tuple[str, dict[str, Any]]:
        """Answer the next request; return the method and the params."""
        request = self.hear()
        reply = {"error": {"code": -32000, **error}} if error else {"result": result}
        self.send(jsonrpc="2.0", id=request["id"], **reply)
        return request["method"], request["params"]

    def end(self) -> int:
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()


CALLS: list[tuple[str, str, dict[str, Any], Any, str]] = [
    ("fs.read('a')", "fs.read", {"path": "a", "offset": 0, "length": None}, {"content": "x", "size": 1}, "'x'"),
    ("fs.read_bytes('a', length=1)", "fs.read", {"path": "a", "offset": 0, "length": 1, "encoding": "base64"}, {"content": "/w=="}, r"b'\xff'"),
    ("fs.write('a', b'\\xff')", "fs.write", {"path": "a", "mode": "replace", "parents": False, "content": "/w==", "encoding": "base64"}, {"created": True}, "True"),
    ("fs.exists('a')", "fs.exists", {"path": "a"}, False, "False"),
    ("fs.list_dir()", "fs.list_dir", {"path": "."}, {"entries": [{"name": "a", "kind": "file"}]}, "[Entry(name='a', kind='file')]"),
    ("fs.metadata('a').size", "fs.metadata", {"path": "a", "follow": True}, {"kind": "file", "size": 3, "modified": 1.5, "executable": False}, "3"),
    ("fs.delete('a')", "fs.delete", {"path": "a"}, {}, "None"),
    ("fs.rename('a', 'b')", "fs.rename", {"from": "a", "to": "b", "overwrite": False}, {}, "None"),
    ("fs.grep('x')", "fs.grep", {"pattern": "x", "path": ".", "name": "*", "ignore_case": False, "limit": 200}, {"matches": [{"path": "a", "line": 1, "text": "x"}]}, "[Match(path='a', line=1, text='x')]"),
    ("http.get('u', headers={'A': 'b'}).text", "http.get", {"url": "u", "headers": {"A": "b"}, "timeout_s": 30.0}, {"status": 200, "url": "u", "headers": {}, "body": "é", "encoding": "utf-8"}, "'é'"),
    ("http.post('u', json=[1]).body", "http.post", {"url": "u", "headers": {}, "timeout_s": 30.0, "json": [1]}, {"status": 200, "url": "u", "headers": {}, "body": "/w==", "encoding": "base64"}, r"b'\xff'"),
    ("process.run('ls', '-l').signal", "process.run", {"program": "ls", "args": ["-l"], "cwd": ".", "stdin": "", "timeout_s": 60.0}, {"stdout": "", "stderr": "", "signal": "KILL"}, "'KILL'"),
]  # fmt: skip


def test_each_call_sends_its_params_and_returns_a_value() -> None:
    values = "\n".join(f"values.append(repr(host.{call}))" for call, *_ in CALLS)
    program = Program(f"values = []\n{values}\nreturn values")
    for _, method, params, result, _ in CALLS:
        assert program.answer(result) == (method, params)
    assert json.loads(program.hear()["result"]) == [value for *_, value in CALLS]
    assert program.end() == 0


def test_an_error_has_a_kind_and_fails_the_tool_in_hafts_words() -> None:
    program = Program(
        "try:\n    host.fs.read('a')\nexcept host.HostError as error:\n    print(error.kind, flush=True)\n"
        "host.fs.read('b')"
    )
    program.answer(message="It is gone.", data={"kind": "not_found"})
    assert program.hear()["content"] == "not_found\n"
    program.answer(message="It takes long.", data={"kind": "timeout"})
    error = {"message": "It takes long.", "trace": [], "transient": True}
    assert program.hear() == {"type": "stopped", "error": error}
    assert program.end() == 1


def test_an_answer_that_comes_before_a_reply_is_kept() -> None:
    program = Program(
        "import asyncio\n"
        "asked = asyncio.create_task(ask('Sure?', bool, id='sure'))\n"
        "await asyncio.sleep(0)\n"
        "there = host.fs.exists('a')\n"
        "return [there, await asked]",
        head="async def",
    )
    assert program.hear()["question"]["id"] == "sure"
    request = program.hear()
    program.send(jsonrpc="2.0", method="apply", params={"question": "sure", "input": True})
    program.send(jsonrpc="2.0", id=request["id"], result=False)
    assert json.loads(program.hear()["result"]) == [False, True]
    assert program.end() == 0


@pytest.mark.parametrize("head", ["def", "async def"])
def test_a_cancellation_ends_a_call_that_waits(head: str) -> None:
    program = Program("host.fs.exists('a')", head=head)
    program.hear()
    program.send(jsonrpc="2.0", method="cancel", params={})
    assert program.end() == 130


def test_without_host_calls_the_tool_fails_at_once() -> None:
    program = Program("host.fs.exists('a')", methods=None)
    assert 'runtime = "vfs"' in program.hear()["error"]["message"]
    assert program.end() == 1


def test_a_call_from_another_thread_is_refused() -> None:
    program = Program(
        "import threading\nerrors = []\n"
        "def work():\n    try:\n        host.fs.exists('a')\n    except RuntimeError as error:\n        errors.append(str(error))\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\nreturn errors"
    )
    assert json.loads(program.hear()["result"]) == ["host calls are made from the main thread"]
    assert program.end() == 0
