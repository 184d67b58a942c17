"""MCP servers over HTTP: both protocol versions, streams and plain replies, cancellation and
restarts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcpserver import SERVER
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon
from tests.wire import Wire


def until(fact: Callable[[], Any]) -> Any:
    """Poll for a fact, and return the fact."""
    end = time.monotonic() + PATIENCE_S
    while not (found := fact()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return found


class Web:
    """The small server on its own port."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.notes = folder / "notes"
        self.flags = flags
        self.port = 0
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        self.notes.write_text("")
        env = {**os.environ, "NOTES": str(self.notes), "PORT": str(self.port)}
        process = subprocess.Popen(
            [sys.executable, "-S", str(SERVER), "http", *self.flags], env=env
        )
        (port,) = until(lambda: [line[5:] for line in self.noted() if line.startswith("port ")])
        self.port = int(port)
        return process

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def table(self, more: str = "") -> str:
        return f'[mcp.small]\nurl = "http://127.0.0.1:{self.port}/mcp"\n{more}\n'


@pytest.fixture
def web(short_tmp: Path) -> Iterator[Callable[..., Web]]:
    servers: list[Web] = []

    def start(*flags: str) -> Web:
        servers.append(Web(short_tmp, *flags))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


Make = Callable[..., RunningDaemon]
Join = Callable[[Web], Wire]


def call(wire: Wire, tool: str, **arguments: Any) -> Any:
    return wire.call("tools/call", tool=tool, arguments=arguments)


@pytest.fixture
def join(shared_daemon: RunningDaemon, short_tmp: Path) -> Iterator[Join]:
    """Configure the daemon with a server, and connect to the daemon in a session of the test's own."""
    with contextlib.ExitStack() as stack:

        def connect(server: Web) -> Wire:
            (shared_daemon.config / "haft" / "config.toml").write_text(server.table())
            wire = stack.enter_context(shared_daemon.connect())
            wire.call("initialize", client={"name": "t"}, protocol=1, session=short_tmp.name)
            stack.callback(wire.call, "session/close")
            wire.call("daemon/reload")
            return wire

        yield connect


@pytest.fixture(scope="module", params=["modern", "legacy"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server of each protocol version, for tests that leave the server running."""
    server = Web(tmp_path_factory.mktemp("web"), request.param)
    yield server
    server.stop()


@pytest.fixture
def joined(kept: Web, join: Join) -> tuple[Web, Wire]:
    return kept, join(kept)


def test_http_tools_are_listed_called_and_report_progress(
    joined: tuple[Web, Wire],
) -> None:
    _, wire = joined
    assert "small_echo" in [tool["name"] for tool in wire.call("tools/list")["tools"]]
    assert json.loads(call(wire, "small_echo", text="hé")["result"]) == {"text": "hé"}
    state = wire.call("spawn", tool="small_count", id="c", wait="stopped")
    assert state["result"] == "counted"
    assert wire.call("fetch", id="c", view="raw", cursor=0)["cursor"] == len("one\n2 of 3\nthree\n")
    assert len(call(wire, "small_big")["result"]) > 100_000


def test_a_question_over_http_is_answered(joined: tuple[Web, Wire]) -> None:
    _, wire = joined
    wire.call("spawn", tool="small_sleep", id="other")  # The stream identifies the question's call.
    wire.call("spawn", tool="small_choose", id="a")
    (inquiry,) = until(lambda: wire.call("inquiries/list")["inquiries"])
    assert inquiry["handle"] == "a"
    answer = {"size": "small", "sure": True}
    wire.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=answer)
    state = wire.call("fetch", id="a", wait="stopped")
    assert json.loads(state["result"])["content"] == {"size": "s", "sure": True}


def test_no_call_is_made_before_the_server_can_ask_by_its_own_stream(
    web: Callable[..., Web], join: Join
) -> None:
    server = web("legacy", "stream")
    wire = join(server)
    wire.call("spawn", tool="small_ask", id="a")
    until(lambda: wire.call("fetch", id="a")["state"] != "running")
    assert "nobody listens" not in server.noted()
    assert wire.call("fetch", id="a")["question"]["id"] == "name"


def test_an_abort_closes_the_stream_or_notifies_the_server(joined: tuple[Web, Wire]) -> None:
    server, wire = joined
    # The same server may have been called by other tests.
    until(lambda: server.noted().count("sleeping") == server.noted().count("cancelled"))
    calls = server.noted().count("sleeping")
    wire.call("spawn", tool="small_sleep", id="a")
    until(lambda: server.noted().count("sleeping") > calls)
    assert wire.call("abort", id="a")["ended_by"]["by"] == "abort"
    until(lambda: server.noted().count("cancelled") > calls)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_stopped_server_fails_the_call_and_a_restarted_one_is_used(
    web: Callable[..., Web], join: Join, era: str
) -> None:
    server = web(era)
    wire = join(server)
    assert call(wire, "small_pid")["result"] == str(server.process.pid)
    server.stop()
    error = call(wire, "small_pid")["error"]
    assert "The MCP server `small` could not be reached (" in error["message"]
    assert error["transient"]
    server.process = server.start()
    # A restarted server does not know a legacy session: the call gets a new session, unseen by the
    # caller.
    assert call(wire, "small_pid")["result"] == str(server.process.pid)


def test_a_changed_tool_list_is_read_again(web: Callable[..., Web], join: Join) -> None:
    wire = join(web("modern"))
    call(wire, "small_change")
    until(lambda: "small_extra" in [tool["name"] for tool in wire.call("tools/list")["tools"]])


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_reply_may_be_plain_json(web: Callable[..., Web], join: Join, era: str) -> None:
    wire = join(web(era, "json"))
    assert json.loads(call(wire, "small_echo", text="x")["result"]) == {"text": "x"}


def test_a_credential_comes_from_a_variable_and_is_shown_nowhere(
    web: Callable[..., Web], make_daemon: Make
) -> None:
    server = web("token")
    header = 'headers = { Authorization = "Bearer ${MINE_TOKEN}" }'
    daemon = make_daemon(server.table(header), env={"MINE_TOKEN": "t0ken"}).start()
    with daemon.connect() as wire:
        assert call(wire, "small_pid")["result"]
    assert "t0ken" not in daemon.log_text()
    with make_daemon(server.table(header)).start().connect() as wire:
        problems = wire.call("tools/list")["problems"]
        assert "needs the variable MINE_TOKEN" in problems[0]["message"]
    with make_daemon(server.table()).start().connect() as wire:
        problems = wire.call("tools/list")["problems"]
        assert "401" in problems[0]["message"] and "`headers`" in problems[0]["message"]


def test_an_address_without_a_server_is_a_problem(make_daemon: Make) -> None:
    with make_daemon('[mcp.x]\nurl = "http://127.0.0.1:9/"\n').start().connect() as wire:
        (problem,) = wire.call("tools/list")["problems"]
        assert "The MCP server `x` could not be reached (" in problem["message"]
        assert problem["key"] == "mcp.x"
