"""Start in one client, see and type in all, answer in another, kill any: nothing lost, nothing typed twice."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import until
from tests.nvim.test_questions import ASKING
from tests.pairs import reporter
from tests.pairs.drivers import Driver, drivers
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

pytestmark = pytest.mark.clients

CLIENTS = drivers()
TEXT = {"kind": '{"type":"text"}'}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    running = RunningDaemon(tmp_path / "daemon")
    running.tools(ASKING)
    running.start()
    yield running
    running.close()


@pytest.fixture
def clients(daemon: RunningDaemon, tmp_path: Path) -> Iterator[dict[str, Driver]]:
    names = {kind.__name__ for kind in CLIENTS}
    if not {"PythonClient", "VSCode", "CommandLine"} < names:
        pytest.skip("needs tmux, Neovim and the built core of the extension for VS Code")
    made = {kind.__name__: kind(daemon, tmp_path / kind.__name__) for kind in CLIENTS}
    yield made
    for client in made.values():
        if client.is_running:
            client.kill()


def read(wire: Wire, id: str, key: str) -> object:
    return wire.call("fetch", id=id, wait="none", cursor=0).get(key)


@pytest.mark.parametrize("starter", [kind.__name__ for kind in CLIENTS])
def test_a_handle_is_shared_by_all_clients(
    daemon: RunningDaemon, clients: dict[str, Driver], tmp_path: Path, starter: str
) -> None:
    given = tmp_path / "given"
    first = clients[starter]
    others = [client for name, client in clients.items() if name != starter]
    first.shell("work")
    program = shlex.join([sys.executable, reporter.__file__, str(given)])
    first.type(f"exec {program}\r")
    first.wait("ready")
    alive: list[Driver] = [first]
    lines: list[str] = []

    def typed_by(client: Driver) -> None:
        line = f"line-{len(lines)}-by-{type(client).__name__}"
        client.type(line + "\r")
        lines.append(f"given {line}")
        for each in alive:
            each.wait(lines[-1])

    for other in others:
        other.show("work")
        alive.append(other)
        other.wait("ready")
    for client in alive:
        typed_by(client)
    for client in list(alive):
        client.kill()
        alive.remove(client)
        typed_by(alive[0])  # while the client is away
        client.show("work")
        alive.append(client)
        client.wait(lines[-1])
        typed_by(client)
    with daemon.connect() as wire:
        for number, client in enumerate(alive):
            asked = f"asked{number}"
            wire.call("spawn", tool="asking", id=asked, args=TEXT, wait="none")
            until(lambda: read(wire, asked, "state") == "waiting", asked)  # noqa: B023
            client.answer(asked, "blue")
            until(lambda: read(wire, asked, "result") == '"blue"', f"the answer of {type(client)}")  # noqa: B023
    for client in alive:
        for number, line in enumerate(lines):
            assert client.shown().count(f"{line}") == 1, (number, client.shown())
    for client in alive:
        client.kill()
    rounds = 1 + len(lines)
    until(
        lambda: len(reporter.ANSWER.findall(given.read_bytes())) >= rounds * reporter.ANSWERS,
        "all queries answered",
    )
    data = given.read_bytes()
    assert len(reporter.ANSWER.findall(data)) == rounds * reporter.ANSWERS
    assert reporter.ANSWER.sub(b"", data).decode() == "".join(
        line.removeprefix("given ") + "\r" for line in lines
    )
