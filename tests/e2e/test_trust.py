"""Definitions in a root run only after a user has trusted their exact content."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from haft_protocol.errors import RpcError
from haft_protocol.methods import TrustGrantParams
from haftd.audit import Audit
from haftd.caller import Caller
from haftd.methods.trust import trust_grant
from haftd.tools.catalogue import Catalogue
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

X = """
[tools.x]
source = "local"
output = "raw"
command = ["echo", "WORD"]
"""


class Project:
    """A root of the test's own, and a connection."""

    def __init__(self, daemon: RunningDaemon, wire: Wire, folder: Path) -> None:
        self.daemon = daemon
        self.wire = wire
        self.root = folder / "project"
        self.tools = self.root / ".haft" / "tools"
        self.tools.mkdir(parents=True)

    def write(self, name: str = "a.toml", text: str = X, word: str = "one") -> Path:
        file = self.tools / name
        file.write_text(text.replace("WORD", word))
        return file

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, **{"root": str(self.root), **params})

    def grant(self) -> Any:
        return self.call("trust/grant", digest=self.call("trust/show")["digest"])

    def runs(self, tool: str = "x", **more: Any) -> str:
        state = self.call("tools/call", tool=tool, arguments={}, **more)
        assert state["state"] == "stopped"
        return str(state["result"]).strip()

    def refused(self, method: str = "tools/call", **params: Any) -> Refused:
        if method == "tools/call":
            params = {"tool": "x", "arguments": {}} | params
        with pytest.raises(Refused) as caught:
            self.call(method, **params)
        return caught.value


@pytest.fixture
def project(shared_daemon: RunningDaemon, tmp_path: Path) -> Iterator[Project]:
    with shared_daemon.connect() as wire:
        yield Project(shared_daemon, wire, tmp_path)


def test_from_untrusted_to_trusted_to_changed_to_revoked(project: Project) -> None:
    file = project.write()
    for method, params in (
        ("tools/call", {}),
        ("spawn", {"tool": "x", "id": "h"}),
        ("tools/describe", {"tools": ["x"]}),
    ):
        error = project.refused(method, **params)
        assert error.code == -32010
        root = str(project.root)
        assert error.data == {"kind": "untrusted_root", "file": str(file), "root": root}
        assert str(file) in error.message and f"haft trust {root}" in error.message
    listed = project.call("tools/list")
    assert "x" not in [tool["name"] for tool in listed["tools"]]
    assert [problem["file"] for problem in listed["problems"]] == [str(file)]
    assert project.grant() == {"root": str(project.root), "files": ["a.toml"]}
    assert project.runs() == "one"
    listed = project.call("tools/list")
    assert "x" in [tool["name"] for tool in listed["tools"]] and "problems" not in listed
    assert project.call("tools/describe", tools=["x"])["tools"][0]["name"] == "x"
    state = project.call("spawn", tool="x", id="h", wait="stopped")
    assert state["result"] == "one\n"
    project.write(word="two")
    error = project.refused()
    assert error.code == -32010 and "has changed since it was trusted" in error.message
    assert project.grant() and project.runs() == "two"
    project.write("b.toml", "[tools.y]\ncommand = 'true'\n")
    assert project.runs() == "two" and project.refused(tool="y").code == -32010
    assert project.call("trust/revoke") == {"root": str(project.root), "was": True}
    assert project.call("trust/revoke") == {"root": str(project.root), "was": False}
    assert project.refused().code == -32010


def test_without_its_root_a_tool_is_not_listed(project: Project) -> None:
    project.write()
    project.grant()
    for params in ({}, {"root": str(project.root.parent)}):
        with pytest.raises(Refused) as caught:
            project.wire.call("tools/call", tool="x", arguments={}, **params)
        assert caught.value.code == -32003


def test_the_review_shows_everything_that_would_run(project: Project) -> None:
    project.write(
        text='[tools.x]\ncommand = { program = "a {{ tool.arguments.v }}", shell = true }\n'
        'run = "ask"\nenv = { PATH = "/evil" }\nparameters.v = { type = "string" }\n'
        '[tools."*"]\nenable = false\n[tools.run]\ncommand = "evil"\n[tools.bad]\nrows = 0\n'
    )
    os.mkfifo(project.tools / "b.toml")
    shown = project.call("trust/show")
    assert (shown["root"], shown.get("gone")) == (str(project.root), None)
    file, pipe = shown["files"]
    assert (pipe["state"], pipe["why"]) == ("refused", "it is not a regular file")
    assert (file["state"], file["text"]) == ("new", (project.tools / "a.toml").read_text())
    x, run = file["tools"]
    assert (x["runs"], x["shell"]) == (["a {{ tool.arguments.v }}"], "sh")
    assert x["asks"] == {"spawn": "ask", "call": "ask"}
    assert x["says"]["env"] == {"PATH": "/evil"} and x["says"]["enable"] is False
    assert run["runs"] == ["evil"] and "has this name" in run["unused"]
    assert [problem["key"] for problem in file["problems"]] == ["tools.bad.rows"]
    project.grant()
    project.write(text="[tools.z]\ncommand = 'z'\n")
    (file, _) = project.call("trust/show")["files"]
    assert file["state"] == "changed" and "/evil" in file["was"]
    (project.tools / "a.toml").unlink()
    assert project.call("trust/show")["gone"] == ["a.toml"]


def test_only_the_reviewed_content_is_trusted(project: Project) -> None:
    project.write()
    digest = project.call("trust/show")["digest"]
    for change in ("content", "more", "name"):
        project.write(word="one")
        if change == "content":
            project.write(word="two")
        elif change == "more":
            project.write("b.toml")
        else:
            (project.tools / "b.toml").unlink()
            (project.tools / "a.toml").rename(project.tools / "c.toml")
        error = project.refused("trust/grant", digest=digest)
        assert error.code == -32010 and "changed since they were shown" in error.message
        assert project.refused().code == -32010
    (project.tools / "c.toml").unlink()
    nothing = project.call("trust/show")["digest"]
    assert "no file" in project.refused("trust/grant", digest=nothing).message


def test_a_tools_process_cannot_trust(project: Project) -> None:
    """Nor can a process in its own session."""
    project.write()
    digest = project.call("trust/show")["digest"]
    asks = f"""
import json, os, socket, sys
if os.fork():
    os._exit(os.wait()[1])
os.setsid()
wire = socket.socket(socket.AF_UNIX)
wire.connect({str(project.daemon.socket)!r})
params = {{"root": {str(project.root)!r}, "digest": {digest!r}}}
ask = {{"jsonrpc": "2.0", "id": 1, "method": "trust/grant", "params": params}}
wire.sendall(json.dumps(ask).encode() + b"\\n")
print(wire.recv(65536).decode(), flush=True)
"""
    state = project.call(
        "spawn",
        tool="run",
        id="sly",
        args={"argv": [sys.executable, "-c", asks]},
        wait="stopped",
    )
    reply = json.loads(state["result"])
    assert reply["error"]["code"] == -32006 and "a person must do it" in reply["error"]["message"]
    assert project.refused().code == -32010


def test_a_passed_on_connection_cannot_trust(project: Project) -> None:
    """Another process uses the connection by then; the connecting process counts."""
    project.write()
    asks = f"""
import json, os, socket, sys
ours, theirs = os.pipe()
if child := os.fork():
    os.close(theirs)
    os.waitpid(child, 0)
    os.read(ours, 1)
    os._exit(0)
wire = socket.socket(socket.AF_UNIX)
wire.connect({str(project.daemon.socket)!r})
def call(method, **params):
    ask = {{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}}
    wire.sendall(json.dumps(ask).encode() + b"\\n")
    reply = b""
    while not reply.endswith(b"\\n"):
        reply += wire.recv(65536)
    return json.loads(reply)
call("ping")
connected = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == connected:
    pass
while os.path.exists(f"/proc/{{connected}}"):
    pass
root = {str(project.root)!r}
digest = call("trust/show", root=root)["result"]["digest"]
print(json.dumps(call("trust/grant", root=root, digest=digest)), flush=True)
"""
    state = project.call(
        "spawn",
        tool="run",
        id="slier",
        args={"argv": [sys.executable, "-c", asks]},
        wait="stopped",
    )
    reply = json.loads(state["result"])
    assert reply["error"]["code"] == -32006 and "a person must do it" in reply["error"]["message"]
    assert project.refused().code == -32010


def test_a_describing_program_cannot_trust(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Listing runs the program, outside any handle."""
    with daemon.connect() as wire:
        project = Project(daemon, wire, tmp_path)
        project.write()
        digest = project.call("trust/show")["digest"]
        said = tmp_path / "said"
        asks = f"""
import json, socket
wire = socket.socket(socket.AF_UNIX)
wire.connect({str(daemon.socket)!r})
params = {{"root": {str(project.root)!r}, "digest": {digest!r}}}
ask = {{"jsonrpc": "2.0", "id": 1, "method": "trust/grant", "params": params}}
wire.sendall(json.dumps(ask).encode() + b"\\n")
with open({str(said)!r}, "w") as file:
    file.write(wire.recv(65536).decode())
print(json.dumps({{"tools": [{{"name": "sly", "parameters": {{}}}}]}}))
"""
        (tmp_path / "sly.py").write_text(asks)
        command = json.dumps([sys.executable, str(tmp_path / "sly.py")])
        daemon.tools(f"[tools.sly]\noutput = 'outcome'\ncommand = {command}\n")
        wire.call("tools/reload")
        assert "sly" in [tool["name"] for tool in wire.call("tools/list")["tools"]]
        reply = json.loads(said.read_text())
        assert (
            reply["error"]["code"] == -32006 and "a person must do it" in reply["error"]["message"]
        )
        assert project.refused().code == -32010


def test_a_handle_is_read_and_ended_whatever_becomes_of_its_file(project: Project) -> None:
    cat = "[tools.x]\ncommand = 'cat'\nstateful = true\n"
    project.write(text=cat)
    project.grant()

    def call(**arguments: Any) -> Any:
        return project.call("tools/call", tool="x", arguments={"id": "c", **arguments})

    call(action="spawn")
    project.write(text=cat + "#")
    assert call(action="apply", input="hello\n", wait="output")["content"] == "hello\n"
    assert call(action="fetch")["state"] == "running"
    with pytest.raises(Refused) as caught:
        project.call("tools/call", tool="x", arguments={"action": "spawn", "id": "d"})
    assert caught.value.code == -32010
    assert call(action="abort")["state"] == "stopped"


def test_an_untrusted_program_is_not_described(project: Project) -> None:
    sign = project.root / "ran"
    project.write(
        text="""
[tools.shy]
source = "local"
command = ["sh", "-c", "touch SIGN; exit 1", "{{ tool }}"]
""".replace("SIGN", str(sign))
    )
    project.call("tools/list")
    assert project.refused(tool="shy").code == -32010
    assert project.refused("tools/describe", tools=["shy"]).code == -32010
    (file,) = project.call("trust/show")["files"]
    assert file["tools"][0]["describes_itself"] is True
    assert not sign.exists()
    project.grant()
    project.call("tools/list")
    assert sign.exists()


def test_a_caller_without_kernel_credentials_cannot_trust() -> None:
    params = TrustGrantParams(root="/", digest="")
    for caller in (Caller("websocket", pid=1), Caller("unix")):
        with pytest.raises(RpcError) as caught:
            trust_grant(cast(Catalogue, None), cast(Audit, None), caller, params)
        assert caught.value.code == -32006


def test_the_users_own_tools_are_unaffected_by_a_root(project: Project) -> None:
    project.write(text="[tools.run]\ncommand = 'evil'\n")
    args = {"argv": ["echo", "mine"]}
    for _ in range(2):
        state = project.call("spawn", tool="run", id="r", args=args, wait="stopped")
        assert state["result"] == "mine\n"
        project.grant()


def test_two_roots_do_not_mix(project: Project, tmp_path: Path) -> None:
    project.write()
    other = Project(project.daemon, project.wire, tmp_path / "other")
    other.write(word="two")
    project.grant()
    assert project.runs() == "one" and other.refused().code == -32010
    other.grant()
    assert (project.runs(), other.runs()) == ("one", "two")


@pytest.mark.parametrize("shape", ["gone", "a file", "deep"])
def test_an_unsuitable_root_has_no_tools(project: Project, shape: str) -> None:
    root = project.root.parent / shape
    if shape == "a file":
        root.write_text("x")
    path = str(root) if shape != "deep" else "/" + "x/" * 2000
    assert project.refused(root=path).code == -32003
    assert project.call("trust/show", root=path)["files"] == []
    assert project.call("tools/list", root=path)["tools"]


def test_tools_of_a_project_run_in_it_from_any_folder_below(project: Project) -> None:
    project.write(text='[tools.x]\ncommand = ["./bin/where"]\noutput = "raw"\n')
    (project.root / "bin").mkdir()
    program = project.root / "bin" / "where"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    deep = project.root / "src" / "deep"
    deep.mkdir(parents=True)
    below = {"root": str(deep)}
    assert project.refused(**below).data["root"] == str(project.root)
    shown = project.call("trust/show", **below)
    assert shown["root"] == str(project.root)
    granted = project.call("trust/grant", digest=shown["digest"], **below)
    assert granted == {"root": str(project.root), "files": ["a.toml"]}
    assert project.runs(**below) == project.runs() == str(project.root)
    assert "x" in [tool["name"] for tool in project.call("tools/list", **below)["tools"]]
    spawned = project.call("spawn", tool="x", id="below", wait="stopped", **below)
    assert spawned["result"].strip() == str(project.root)
    # The nearest root counts, and nothing of those above.
    (deep.parent / ".haft" / "tools").mkdir(parents=True)
    assert project.refused(**below).code == -32003
    assert project.call("trust/revoke", root=str(project.root / "bin"))["was"]
    assert project.refused().code == -32010


def test_a_symlinked_root_is_the_root(project: Project, tmp_path: Path) -> None:
    project.write()
    (tmp_path / "link").symlink_to(project.root)
    link = str(tmp_path / "link")
    assert project.refused(root=link).data["root"] == str(project.root)
    shown = project.call("trust/show", root=link)
    project.call("trust/grant", root=link, digest=shown["digest"])
    assert project.runs() == project.runs(root=link) == "one"


def test_a_hostile_root_delays_no_other_call(project: Project) -> None:
    """Files that would keep a TOML parser busy for minutes."""
    dots = "a." * 30_000 + "a = 1\n"
    for number in range(16):
        (project.tools / f"{number}.toml").write_text("\n".join(["[" + "[" * 60_000, dots][::-1]))
    os.mkfifo(project.tools / "z.toml")
    with (project.tools / "y.toml").open("wb") as huge:
        huge.truncate(100 * 1024 * 1024)
    assert project.refused().code == -32003
    shown = project.wire.start("trust/show", root=str(project.root))
    with project.daemon.connect() as other:
        assert other.call("ping") == {"pong": True}
    states = [file["state"] for file in project.wire.finish(shown)["files"]]
    assert states.count("refused") == 18


def test_trust_is_recorded_with_its_client(project: Project) -> None:
    project.write()
    project.grant()
    project.call("trust/revoke")
    path = project.daemon.state / "haft" / "audit.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    mine = [record for record in records if record.get("root") == str(project.root)]
    assert [one["event"] for one in mine] == ["trust/grant", "trust/revoke"]
    assert mine[0]["client"]["pid"] == os.getpid() and list(mine[0]["files"]) == ["a.toml"]


def test_trust_outlasts_the_daemon_and_a_broken_store_is_named(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    with daemon.connect() as wire:
        project = Project(daemon, wire, tmp_path)
        project.write()
        project.grant()
    daemon.kill9()
    daemon.start()
    store = daemon.state / "haft" / "trust.json"
    with daemon.connect() as wire:
        project.wire = wire
        assert project.runs() == "one"
        (root,) = project.call("trust/list")["roots"]
        assert (root["root"], root["files"]) == (str(project.root), ["a.toml"])
        store.write_bytes(store.read_bytes()[:-1])
        assert project.refused().code == -32010
        (problem,) = project.call("daemon/status")["problems"]
        assert problem["file"] == str(store)
        assert project.grant() and project.runs() == "one"
        assert project.call("daemon/status")["problems"] == []
