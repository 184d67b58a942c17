"""Tools with access rules, from the definition to the kernel's refusal."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

import haft
from haft_protocol.paths import data_folder
from haftd.host.launch import landlock
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="needs x86_64"),
    pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6"),
]

SHELL = '{ program = "{{ tool.arguments.code }}", shell = true }'
CODE = 'parameters.code = { type = "string" }'
ASKED = (
    '{\\"type\\": \\"needs_input\\", \\"question\\": {\\"id\\": \\"sure\\", \\"text\\": \\"Sure?\\", '
    '\\"answer_type\\": {\\"type\\": \\"boolean\\"}}}'
)
DESCRIBED = '{\\"tools\\": [{\\"name\\": \\"teller\\", \\"description\\": \\"It tells.\\", \\"parameters\\": {}}]}'
TOOLS = f"""
[tools.reader]
command = ["sh", "-c", "{{{{ tool.arguments.code }}}}"]
output = "raw"
access.fs.read = ["."]
access.env.read = ["GRANTED"]
{CODE}

[tools.worker]
command = ["sh", "-c", "{{{{ tool.arguments.code }}}}"]
sandbox = "root"
{CODE}

[tools.script]
command = [".venv/bin/script"]
sandbox = "root"

[tools.screen]
command = ["sh", "-c", "{{{{ tool.arguments.code }}}}"]
runtime = "pty"
stateful = true
sandbox = "root"
{CODE}

[tools.caller]
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", "{{{{ tool.arguments.socket }}}}"]
output = "raw"
access.fs.read = ["{sys.base_prefix}", "{sys.prefix}"]
may = ["handles", "approvals", "questions"]
parameters.code = {{ type = "string" }}
parameters.socket = {{ type = "string" }}

[tools.fetcher]
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", "{{{{ tool.arguments.url }}}}"]
output = "raw"
access.net = [{{ host = "localhost" }}, {{ host = "127.0.0.1" }}, {{ host = "*.invalid" }}]
parameters.code = {{ type = "string" }}
parameters.url = {{ type = "string" }}

[tools.fetcher_screen]
command = ["{sys.executable}", "-c", "{{{{ tool.arguments.code }}}}", "{{{{ tool.arguments.url }}}}"]
runtime = "pty"
stateful = true
access.net = [{{ host = "localhost" }}, {{ host = "127.0.0.1" }}]
parameters.code = {{ type = "string" }}
parameters.url = {{ type = "string" }}

[tools.writer]
command = ["true"]
access.fs.write = ["missing"]

[tools.asker]
command = ["sh", "-c", "case $HAFT_CALL in (*sure*) cat ../secret;; (*) echo '{ASKED}';; esac"]
sandbox = "root"
questions.sure.answer = true

[tools.teller]
command = ["sh", "-c", "cat ../secret; echo '{DESCRIBED}'"]
output = "outcome"
sandbox = "root"

[tools.free]
command = ["true"]

[tools.unsafe]
command = ["cat", "/etc/passwd"]
output = "raw"
access = {{}}
unsafe = true
"""

CONNECT = """
import json, socket, sys
ask = {"jsonrpc": "2.0", "id": 1, "method": "trust/grant", "params": {"root": "/", "digest": "0" * 64}}
for make in (lambda: socket.socket(socket.AF_UNIX), lambda: socket.socketpair()[0]):
    try:
        wire = make()
        wire.connect(sys.argv[1])
        wire.sendall(json.dumps(ask).encode() + b"\\n")
        print(wire.recv(65536))
    except OSError as error:
        print(error.errno)
"""


FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except urllib.error.HTTPError as error:
    sys.exit(f"{error.code} {error.read().decode()}")
"""
RAW = """
import os, socket, sys
host, port = sys.argv[1].split("//")[1].split(":")
for kind, address in ((socket.SOCK_STREAM, host), (socket.SOCK_STREAM, "192.0.2.1"), (socket.SOCK_DGRAM, host)):
    try:
        socket.socket(socket.AF_INET, kind).connect((address, int(port)))
        print("connected")
    except OSError as error:
        print(error.errno)
print("@" in os.environ["HTTPS_PROXY"], os.environ["NO_PROXY"] == "")
"""


class Pages(BaseHTTPRequestHandler):
    """Greets, or redirects `/to/X` to the host X of the same port."""

    def do_GET(self) -> None:
        redirects = self.path.startswith("/to/")
        self.send_response(302 if redirects else 200)
        if redirects:
            port = cast(ThreadingHTTPServer, self.server).server_port
            self.send_header("Location", f"http://{self.path[4:]}:{port}/")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server on 127.0.0.1."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@dataclass
class Project:
    daemon: RunningDaemon
    wire: Wire
    root: Path

    def call(self, tool: str, **params: Any) -> dict[str, Any]:
        arguments = params.pop("arguments", {})
        state: dict[str, Any] = self.wire.call(
            "tools/call", tool=tool, arguments=arguments, root=str(self.root), session="s",
            call_id=f"c{next(_COUNT)}", **params,
        )  # fmt: skip
        return state

    def spawn(self, tool: str, **args: Any) -> str:
        """Run a tool as a handle to its end; return its output."""
        name = f"h{next(_COUNT)}"
        state = self.wire.call(
            "spawn", tool=tool, id=name, session="s", root=str(self.root), args=args, wait="stopped"
        )
        text: str = state["result"]
        return text

    def run(self, tool: str, code: str, **params: Any) -> dict[str, Any]:
        return self.call(tool, arguments={"code": code}, **params)


_COUNT = iter(range(1, 1000))


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    root = folder / "root"
    root.mkdir()
    (root / "inside").write_text("inside")
    (folder / "secret").write_text("secret")
    daemon = RunningDaemon(folder, env={"PRIVATE": "private", "GRANTED": "granted"})
    daemon.tools(TOOLS)
    daemon.start()
    with daemon.connect() as wire:
        yield Project(daemon, wire, root)
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_tool_reads_its_root_and_nothing_else(project: Project) -> None:
    assert project.run("reader", "cat inside")["result"] == "inside"
    for code in ("cat ../secret", "echo >inside", f"ls {project.daemon.socket.parent}"):
        stopped = project.run("reader", code)
        assert "Permission denied" in stopped["content"] and "error" in stopped
    assert (project.root / "inside").read_text() == "inside"


def test_a_tool_gets_the_granted_variables_only(project: Project) -> None:
    printed = project.run("reader", "env")["result"]
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert "GRANTED" in names and "PATH" in names
    assert not names & {"PRIVATE", "HAFT_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}


def test_the_sandbox_of_the_root_permits_work_in_the_root(project: Project) -> None:
    code = "cp /bin/echo made && ./made ran && rm made && cat ../secret 2>&- || echo refused"
    assert project.run("worker", code)["result"] == "ran\nrefused\n"


def test_git_works_in_the_sandbox_of_the_root(project: Project) -> None:
    """Without the user's configuration, which git may not read."""
    (Path(project.daemon.env["HOME"]) / ".gitconfig").write_text("[user]\nname = Private\n")
    code = (
        "git init -q repo && cd repo && git commit -q --allow-empty -m made && git log --format=%an; "
        "cd .. && rm -rf repo"
    )
    identity = "GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a"
    assert project.run("worker", f"export {identity}; {code}")["result"] == "A\n"


def test_the_python_of_a_virtual_environment_works_in_the_sandbox_of_the_root(
    project: Project,
) -> None:
    """Its link leads to an installation outside of the root: as a child, and as the tool's own program."""
    venv = project.root / ".venv"
    (venv / "bin").mkdir(parents=True)
    python = os.path.realpath(sys.executable)
    (venv / "bin/python").symlink_to(python)
    (venv / "pyvenv.cfg").write_text(f"home = {os.path.dirname(python)}\n")
    (venv / "bin/script").write_text(f"#!{venv}/bin/python\nimport json, sys\nprint(sys.prefix)\n")
    (venv / "bin/script").chmod(0o755)
    code = ".venv/bin/python -c 'import json, sys; print(sys.prefix)'; .venv/bin/script"
    assert project.run("worker", code)["result"] == f"{venv}\n{venv}\n"
    assert project.call("script")["result"] == f"{venv}\n"
    shutil.rmtree(venv)


def test_a_terminal_in_a_sandbox_is_confined(project: Project) -> None:
    text = project.spawn("screen", code="cat ../secret; tty; cat inside")
    assert "Permission denied" in text and "/dev/pts/" in text and "inside" in text


def test_the_daemons_socket_cannot_be_reached_by_a_tool_with_every_right(project: Project) -> None:
    text = project.spawn("caller", code=CONNECT, socket=str(project.daemon.socket))
    assert text == "13\n13\n"


def test_the_policy_in_force_is_in_the_context(project: Project) -> None:
    printed = project.run("worker", 'printf %s "$HAFT_CALL"')["result"]
    access = json.loads(printed)["context"]["access"]
    assert access["net"] == [] and access["env"] == []
    assert access["fs"][0]["path"] == str(project.root) and access["fs"][0]["delete"] is True


def test_a_long_call_is_read_from_its_file(project: Project) -> None:
    code = f'# {"x" * 70_000}\nwc -c <"$HAFT_CALL"'
    assert int(project.run("worker", code)["result"]) > 70_000


def test_a_rule_that_cannot_be_enforced_refuses_the_call(project: Project) -> None:
    with pytest.raises(Refused) as caught:
        project.call("writer")
    assert caught.value.data["reason"] == "sandbox"
    assert f"{project.root}/missing" in caught.value.message
    shown = run_haft(["access", "writer"], env=project.daemon.env, cwd=project.root).stdout
    assert shown.startswith(f"Refused here: {caught.value.message}\n")


def test_a_tool_that_could_change_its_own_rules_is_refused(project: Project) -> None:
    """A root above haft's configuration, its state, or its socket: by another name, too."""
    alias = project.root / "alias"
    alias.symlink_to(project.daemon.config)
    runtime = project.daemon.socket.parent
    for root in (
        project.daemon.config,
        project.daemon.base,
        project.daemon.state / "haft",
        runtime,
        alias,
        Path(sys.prefix),
        Path(haft.__file__).parents[1],
        Path(data_folder(project.daemon.env)),
    ):
        with pytest.raises(Refused) as caught:
            project.wire.call(
                "spawn", tool="worker", id="own", root=str(root), args={"code": "true"}
            )
        assert caught.value.data["reason"] == "sandbox"
        assert "change haft's own file" in caught.value.message
        (described,) = project.wire.call("tools/describe", tools=["worker"], root=str(root))[
            "tools"
        ]
        assert described["access"][0] == f"Refused here: {caught.value.message}"
    alias.unlink()


def test_a_folder_of_the_daemons_pythonpath_is_its_own(tmp_path: Path) -> None:
    """A `sitecustomize.py` there would be run by the next daemon, without a sandbox."""
    folders = tmp_path / "exists", tmp_path / "missing/later"
    folders[0].mkdir()
    root = tmp_path / "missing"
    root.mkdir()
    daemon = RunningDaemon(tmp_path / "base", env={"PYTHONPATH": ":".join(map(str, folders))})
    daemon.tools(TOOLS)
    daemon.start()
    try:
        with daemon.connect() as wire:
            for place, named in ((folders[0], folders[0]), (root, folders[1])):
                with pytest.raises(Refused) as caught:
                    wire.call(
                        "spawn", tool="worker", id="own", root=str(place), args={"code": "true"}
                    )
                assert str(named) in caught.value.message
                assert "so the code of haft" in caught.value.message
                assert "without that folder in PYTHONPATH" in caught.value.message
    finally:
        daemon.close()


def test_a_refusal_names_a_missing_own_file_as_missing(project: Project) -> None:
    config = project.daemon.config / "haft" / "config.toml"
    assert not config.exists()
    with pytest.raises(Refused, match=r"own file .*/config\.toml, which does not exist yet, and"):
        project.wire.call(
            "spawn", tool="worker", id="own", root=str(config.parent), args={"code": "true"}
        )


def test_a_tool_reaches_the_hosts_of_its_rules_by_the_proxy(project: Project, port: int) -> None:
    def fetch(url: str, code: str = FETCH) -> dict[str, Any]:
        return project.call("fetcher", arguments={"code": code, "url": url})

    assert fetch(f"http://localhost:{port}/")["result"] == "hello\n"
    assert fetch(f"http://localhost:{port}/to/localhost")["result"] == "hello\n"
    for url in (f"http://127.0.0.2:{port}/", f"http://localhost:{port}/to/127.0.0.2"):
        refused = fetch(url)
        assert (
            f"403 haft: the access rules of fetcher do not let it connect to 127.0.0.2:{port}"
            in (refused["content"])
        )
        hint = f"A connection to '127.0.0.2:{port}' was refused by the tool's rules: `haft access fetcher`"
        assert hint in refused["error"]["message"]
    assert "502 haft: the name x.invalid has no address" in fetch("http://x.invalid/")["content"]


def test_no_other_way_leads_to_the_network(project: Project, port: int) -> None:
    arguments = {"code": RAW, "url": f"http://127.0.0.1:{port}"}
    assert project.call("fetcher", arguments=arguments)["result"] == "13\n13\n13\nTrue True\n"
    text = project.spawn("fetcher_screen", code=RAW, url=f"http://127.0.0.1:{port}")
    assert text.split() == ["13", "13", "13", "True", "True"]
    assert "hello" in project.spawn("fetcher_screen", code=FETCH, url=f"http://localhost:{port}/")


def test_two_calls_have_credentials_of_their_own(project: Project) -> None:
    code = "import os; print(os.environ['HTTP_PROXY'])"
    arguments = {"code": code, "url": ""}
    first = project.call("fetcher", arguments=arguments)["result"]
    second = project.call("fetcher", arguments=arguments)["result"]
    assert first != second and first.split("@")[1] == second.split("@")[1]
    assert project.call("fetcher", arguments={"code": FETCH, "url": "http://localhost"})["error"]


def test_an_unsafe_tool_runs_without_its_rules(project: Project) -> None:
    assert "root" in project.call("unsafe")["result"]


def test_haft_access_shows_the_rules_in_words(project: Project) -> None:
    def shown(*words: str) -> str:
        return run_haft(["access", *words], env=project.daemon.env, cwd=project.root).stdout

    assert shown("worker").startswith("Files: may read, write and execute the root")
    assert "no rules" in shown("free")
    assert "not enforced" in shown("unsafe")
    assert (
        json.loads(shown("reader", "--json"))["access"][1]
        == "Network: none, and no Unix sockets of other programs."
    )


def test_a_refused_access_is_named_in_the_error(project: Project) -> None:
    for tool in ("reader", "worker"):
        message = project.run(tool, "cat ../secret")["error"]["message"]
        assert "An access to '../secret' was denied" in message
        assert f"`haft access {tool}`" in message
    assert "denied" not in project.run("reader", "exit 3")["error"]["message"]


def test_a_host_that_was_not_reached_is_named_in_the_error(project: Project) -> None:
    line = "echo 'curl: (6) Could not resolve host: example.org' >&2; exit 6"
    message = project.run("reader", line)["error"]["message"]
    assert "The host 'example.org' was not reached" in message
    assert "`haft access reader`" in message


def test_a_run_with_an_answer_is_in_the_sandbox_too(project: Project) -> None:
    error = project.call("asker")["error"]["message"]
    assert "An access to '../secret' was denied" in error


def test_a_program_that_describes_itself_is_in_the_sandbox(project: Project) -> None:
    """Its description is read as printed, so a secret in front of it would be an error with it."""
    listed = project.wire.call("tools/list", root=str(project.root))
    (found,) = [tool for tool in listed["tools"] if tool["name"] == "teller"]
    assert found["description"] == "It tells."
