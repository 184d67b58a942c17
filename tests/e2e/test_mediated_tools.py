"""Mediated tools, from the definition to the answers of host calls."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import haft
from haftd.host.launch import landlock
from tests.processes import is_running
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="needs x86_64"),
    pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6"),
]

SCRIPT = """
import json, os, sys

def hear():
    return json.loads(sys.stdin.readline())

def say(**state):
    print(json.dumps(state), flush=True)

def call(method, **params):
    say(jsonrpc="2.0", id=1, method=method, params=params)
    reply = hear()
    return reply["result"] if "result" in reply else reply["error"]["data"]["kind"]

if json.loads(os.environ["HAFT_CALL"])["context"]["action"] == "schema":
    code = {"type": "string"}
    say(tools=[{"name": "mediated", "summary": "Run code.", "parameters": {"code": code}}])
    raise SystemExit
said = hear()["params"]
exec(said["tool"]["arguments"]["code"])
"""
PROGRAM = f"#!{sys.executable}\n{SCRIPT}"
LIBRARIES = json.dumps([sys.prefix, sys.base_prefix])
TOOLS = f"""
[tools.mediated]
runtime = "vfs"
command = ["~/mediated.py"]
stateful = true
one_shot = true
access.fs.read = [".", "{sys.prefix}", "{sys.base_prefix}"]
access.fs.write = ["made"]
access.fs.execute = {LIBRARIES}
access.env.read = ["TOKEN"]
access.net = [{{ host = "127.0.0.1" }}, {{ host = "127.0.0.2", allow = false }}]
access.commands."{sys.executable}" = {{ args = [["-c", "**"]] }}
access.commands.sh = {{ args = [["-c", "**"]], envs = ["PASSED"] }}

[tools.bare]
runtime = "vfs"
command = ["~/mediated.py"]
access.fs.execute = {LIBRARIES}
parameters.code = {{ type = "string" }}

[tools.whole]
runtime = "vfs"
command = ["~/mediated.py"]
sandbox = "root"
access.fs.execute = {LIBRARIES}
parameters.code = {{ type = "string" }}

[tools.outside]
runtime = "vfs"
command = ["true"]
access.fs.read = ["/etc"]

[tools.wrong]
runtime = "vfs"
command = ["true"]
output = "outcome"
"""


PAGE = Path(__file__).parents[2] / "docs" / "mediated-tools.md"
FILES = dict(
    re.findall(
        r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
)


class Project:
    def __init__(self, wire: Wire, root: Path) -> None:
        self.wire = wire
        self.root = root
        self._count = 0

    def run(self, code: str, tool: str = "mediated") -> dict[str, Any]:
        self._count += 1
        state: dict[str, Any] = self.wire.call(
            "tools/call", tool=tool, arguments={"code": code}, root=str(self.root), session="s",
            call_id=f"c{self._count}",
        )  # fmt: skip
        return state

    def value(self, expression: str, tool: str = "mediated") -> Any:
        state = self.run(f"say(type='stopped', result=json.dumps({expression}))", tool)
        return json.loads(state["result"])


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    root = folder / "root"
    for path in (root, root / "made"):
        path.mkdir()
    (root / "inside").write_text("inside")
    (folder / "secret").write_text("secret")
    env = {"TOKEN": "a-granted-token", "PASSED": "a-passed-value", "HIDDEN": "hidden"}
    daemon = RunningDaemon(folder, env=env)
    (daemon.home / "mediated.py").write_text(PROGRAM)
    (daemon.home / "mediated.py").chmod(0o755)
    script = daemon.home / "bin/todos.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(FILES["todos.py"].replace("/usr/bin/env python3", sys.executable))
    script.chmod(0o755)
    libraries = [sys.prefix, sys.base_prefix, str(Path(haft.__file__).parents[1])]
    example = FILES["todos.toml"].replace('["~/venv"]', json.dumps(libraries))
    daemon.tools((TOOLS + example).replace("~", str(daemon.home)))
    daemon.start()
    with daemon.connect() as wire:
        yield Project(wire, root)
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_host_calls_are_answered_by_the_rules(project: Project) -> None:
    assert project.value("call('fs.read', path='inside')['content']") == "inside"
    assert project.value("call('fs.write', path='made/new', content='x')") == {"created": True}
    assert (project.root / "made/new").read_text() == "x"
    assert project.value("call('fs.write', path='inside', content='x')") == "denied"
    assert project.value("call('fs.read', path='../secret')") == "denied"
    assert project.value("call('http.get', url='http://example.com')") == "denied"


def test_the_process_itself_may_do_nothing_of_it(project: Project) -> None:
    for code in ("open('inside')", "open('made/own', 'w')", "os.listdir('.')"):
        state = project.run(code)
        assert "PermissionError" in state["error"]["trace"][-1], state
    names = project.value("list(os.environ)")
    assert not {"TOKEN", "PASSED", "HIDDEN", "HAFT_SOCKET"} & set(names)


def test_the_rules_are_in_the_context_and_in_words(project: Project) -> None:
    access = project.value("said['context']['access']")
    assert access["fs"][0]["path"] == str(project.root)
    (described,) = project.wire.call("tools/describe", tools=["mediated"])["tools"]
    assert "mediated" in described["access"][0]
    assert (
        "Programs: may run sh -c **, in a sandbox by its rules, with PASSED." in described["access"]
    )
    assert described["summary"] == "Run code."


def test_a_program_gets_a_sandbox_by_the_rules_and_its_variables(project: Project) -> None:
    script = "cat inside; echo >made/by_sh; echo >inside; cat ../secret; env; exit 3"
    ended = project.value(f"call('process.run', program='sh', args=['-c', {script!r}])")
    assert ended["code"] == 3
    assert ended["stdout"].startswith("inside")
    assert "PASSED=${PASSED}" in ended["stdout"] and "TOKEN" not in ended["stdout"]
    assert ended["stderr"].count("Permission denied") == 2
    assert (project.root / "made/by_sh").exists()
    assert project.value("call('process.run', program='ls')") == "denied"


FETCH = """
import sys, urllib.error, urllib.request
for host in sys.argv[2:]:
    try:
        print(urllib.request.urlopen(f"http://{host}:{sys.argv[1]}/").read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def test_requests_and_programs_reach_the_granted_hosts_only(project: Project) -> None:
    class Greeting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("", 0), Greeting) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.server_port
            got = project.value(f"call('http.get', url='http://127.0.0.1:{port}/')['body']")
            assert got == "hello"
            for host in ("127.0.0.2", "127.0.0.3", "localhost"):
                got = project.value(f"call('http.get', url='http://{host}:{port}/')")
                assert got == "denied"
            args = ["-c", FETCH, str(port), "127.0.0.1", "127.0.0.2", "127.0.0.3"]
            ended = project.value(f"call('process.run', program={sys.executable!r}, args={args})")
            assert ended["stdout"].split() == ["hello", "403", "403"], ended
        finally:
            server.shutdown()
            thread.join()


def test_a_program_ends_with_its_tool(project: Project) -> None:
    script = """
run = {"program": "sh", "args": ["-c", "echo $$ >made/pid; exec sleep 1000"]}
say(jsonrpc="2.0", id=2, method="process.run", params=run)
while not (pid := call("fs.exists", path="made/pid") and call("fs.read", path="made/pid")["content"]):
    pass
print(f"pid {pid}", flush=True)
hear()
"""
    spawn = {"tool": "mediated", "id": "h", "session": "s", "args": {"code": script}}
    state = project.wire.call(
        "spawn", **spawn, root=str(project.root), wait="pattern", pattern="^pid [0-9]+"
    )
    pid = int(state["content"].split()[1])
    assert is_running(pid)
    state = project.wire.call("abort", id="h", session="s")
    assert state["ended_by"]["by"] == "abort"
    assert not is_running(pid)


def test_a_question_stands_beside_the_requests(project: Project) -> None:
    code = """
question = {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}}
say(type="waiting", question=question)
answer = hear()["params"]["input"]
content = call("fs.read", path="inside")["content"]
say(type="stopped", result=f"{answer} {content}")
"""
    spawn = {"tool": "mediated", "id": "q", "session": "s", "args": {"code": code}}
    state = project.wire.call("spawn", **spawn, root=str(project.root), wait="input")
    assert state["question"]["id"] == "sure"
    state = project.wire.call("apply", id="q", session="s", input=True, wait="stopped")
    assert state["result"] == "True inside"


def test_without_rules_nothing_is_granted(project: Project) -> None:
    assert project.value("call('fs.read', path='inside')", "bare") == "denied"
    assert project.value("call('process.run', program='true')", "bare") == "denied"


def test_the_sandbox_of_the_root_is_for_host_calls_alone(project: Project) -> None:
    assert project.value("call('fs.write', path='whole', content='x')", "whole")["created"]
    assert "PermissionError" in project.run("open('whole')", "whole")["error"]["trace"][-1]


def test_a_place_outside_of_the_root_is_refused(project: Project) -> None:
    with pytest.raises(Refused, match="'/etc' is outside of the root") as refused:
        project.wire.call("tools/call", tool="outside", arguments={}, root=str(project.root))
    assert refused.value.data["reason"] == "sandbox"
    (described,) = project.wire.call("tools/describe", tools=["outside"], root=str(project.root))[
        "tools"
    ]
    assert described["access"][0] == f"Refused here: {refused.value.message}"


def test_a_root_with_hafts_own_files_cannot_be_changed(project: Project) -> None:
    root = str(project.root.parent)
    (project.root.parent / "made").symlink_to(project.root.parent / "config")
    with pytest.raises(Refused, match="haft's own file") as refused:
        project.wire.call("tools/call", tool="mediated", arguments={"code": ""}, root=root)
    (described,) = project.wire.call("tools/describe", tools=["mediated"], root=root)["tools"]
    assert described["access"][0] == f"Refused here: {refused.value.message}"


def test_the_example_of_the_page_works(project: Project) -> None:
    (project.root / "a.py").write_text("x = 1  # TODO: more\n")
    called = project.wire.call("tools/call", tool="todos", arguments={}, root=str(project.root))
    assert called.get("result") == '["a.py:1"]', str(called.get("error"))
    assert (project.root / "notes/todos.txt").read_text() == "1 left\n"
    called = project.wire.call(
        "tools/call", tool="todos", arguments={"folder": "../"}, root=str(project.root)
    )
    assert called["error"]["message"].startswith("'../' has a `..`")


def test_another_output_is_a_problem_of_the_definition(project: Project) -> None:
    problems = {
        problem["key"]: problem["message"]
        for problem in project.wire.call("daemon/status")["problems"]
    }
    assert "events" in problems["tools.wrong.output"]
