"""Every client and a real OpenSSH: a daemon is started there, shared, lost and found again; each refusal is one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack

import pexpect
import pytest
import trio

from haft import ConnectionLost, Haft, aio
from haft_protocol.states import Running
from tests.hosts.conftest import Box
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.clients


@pytest.fixture(autouse=True)
def environment(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in box.env.items():
        monkeypatch.setenv(name, value)


def test_a_command_that_starts_none_finds_no_daemon_and_one_that_starts_it_does(box: Box) -> None:
    missing = box.haft("ps")
    assert missing.returncode == 3 and b"haftd is not running" in missing.stderr
    ran = box.haft("run", "--rm", "--", "sh", "-c", "cat; echo $PWD >&2; exit 7", input=b"in\0")
    assert (ran.returncode, ran.stdout) == (7, b"in\0")
    assert ran.stderr.decode().strip() == str(box.daemon.home)
    assert box.daemon.socket.exists()


def test_handles_outlive_connections_and_the_shared_one(box: Box) -> None:
    assert box.haft("spawn", "run", "--id", "cat", "--", "cat").returncode == 0
    control = list((box.folder / "local" / "haft").glob("ssh-*"))
    assert len(control) == 1
    box.cut()
    typed = box.haft("apply", "cat", "--line", "again", "--wait", "output")
    assert typed.stdout == b"again\n"
    assert box.haft("abort", "cat").returncode == 0


def test_both_python_clients_reach_it_at_once(box: Box) -> None:
    async def look() -> int:
        async with aio.connect(session="py") as haft:
            return (await haft.server()).pid

    with Haft.connect(session="py", autostart=True) as haft:
        state = haft.spawn("run", "a", {"command": "head -c 1000000 /dev/zero"}, wait="stopped")
        assert state.cursor == 1_000_000
        assert trio.run(look) == haft.server.pid


def test_a_loss_within_a_call_is_an_error_and_the_handle_lives_on(box: Box) -> None:
    with Haft.connect(session="loss", autostart=True) as haft:
        haft.spawn("run", "w", {"argv": ["cat"]}, wait="none")
        waiting = haft.start("fetch", id="w", wait="stopped", timeout_ms=600_000)
        haft.ping()
        box.cut()
        with pytest.raises(ConnectionLost, match="the connection was lost: "):
            haft.finish(waiting)
    with Haft.connect(session="loss") as haft:
        assert isinstance(haft.fetch("w"), Running)
        haft.abort("w")


@pytest.mark.parametrize(
    ("command", "typed", "printed"),
    [("shell", "echo one$((1+1))", "one2"), ("attach", "echo two$((1+2))", "two3")],
)
def test_a_terminal_is_attached_and_found_again(
    box: Box, command: str, typed: str, printed: str
) -> None:
    words = ["-m", "haft", command, "sh"]
    person = pexpect.spawn(sys.executable, words, env=os.environ, timeout=PATIENCE_S)
    person.sendline(typed)
    person.expect_exact(printed)
    person.send("\x1cd")
    person.expect("detached; `haft attach sh` comes back")
    person.expect(pexpect.EOF)
    person.close()


def test_a_host_of_mcp_calls_tools_there(box: Box) -> None:
    arguments = {"command": "pwd"}
    calls = [
        (
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        ),
        ("tools/call", {"name": "run", "arguments": arguments}),
    ]
    lines = b""
    for number, (method, params) in enumerate(calls):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        lines += json.dumps(request).encode() + b"\n"
    with subprocess.Popen(
        [sys.executable, "-m", "haft", "mcp", "--root", str(box.daemon.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(lines)
        server.stdin.flush()
        replies = [json.loads(server.stdout.readline()) for _ in calls]
        server.stdin.close()
    assert str(box.daemon.home) in json.dumps(replies[1]["result"])


def test_the_framing_of_language_clients_passes_through(box: Box) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    done = box.haft("connect", input=b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Content-Length: ")


@pytest.mark.parametrize(
    ("ssh", "words"),
    [
        ({"known": "nothing"}, "does not know the host key"),
        ({"known": "changed"}, "is not the one that ssh knows"),
        ({"key": "stranger"}, "refuses the login"),
    ],
)
def test_a_refusal_is_one_sentence_with_the_remedy(
    box: Box, ssh: dict[str, str], words: str
) -> None:
    stranger = (box.folder / "stranger.pub").read_text()
    (box.folder / "changed").write_text(f"[127.0.0.1]:{box.port} {stranger}")
    done = box.haft("ps", HAFT_SSH=box.ssh(**ssh))
    assert done.returncode == 3 and done.stdout == b""
    assert words in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_machine_without_haft_is_one_sentence(box: Box, bare: Box) -> None:
    done = box.haft("ps", HAFT_HOST=bare.address, HAFT_SSH=bare.ssh())
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1
    assert f"there is no `haft` on {bare.address.removeprefix('ssh://')}" in done.stderr.decode()


def test_a_port_without_ssh_is_one_sentence(box: Box) -> None:
    done = box.haft("--host", "ssh://127.0.0.1:1", "ps")
    assert done.returncode == 3
    assert b"no ssh server at this port" in done.stderr and done.stderr.count(b"\n") == 1


def test_several_machines_are_shown_at_once(box: Box) -> None:
    box.haft("spawn", "run", "--id", "asks", "--", "cat")
    done = box.haft("hosts", box.address, "ssh://127.0.0.1:1", "--json")
    good, bad = json.loads(done.stdout)["hosts"]
    assert done.returncode == 1
    assert (good["state"], bad["state"]) == ("running", "unreachable")
    assert good["handles"] >= 1 and good["version"]
    box.haft("abort", "asks")


def test_the_daemon_there_is_stopped_from_here(box: Box) -> None:
    box.haft("tools")
    stopped = box.haft("stop", "--yes")
    assert stopped.returncode == 0 and b"haftd: stopped" in stopped.stderr
    assert box.haft("ps").returncode == 3


def test_more_connections_than_the_server_allows_on_one_are_served(box: Box) -> None:
    with Haft.connect(autostart=True), ExitStack() as opened:
        # MaxSessions of sshd is 10.
        many = [opened.enter_context(Haft.connect()) for _ in range(12)]
        assert {haft.server.pid for haft in many} == {many[0].server.pid}


def test_a_connection_that_a_person_has_opened_is_used(box: Box) -> None:
    control = box.folder / "own"
    login = [*box.ssh().split(), "-p", str(box.port), f"{box.user}@127.0.0.1"]
    subprocess.run([*login, "-fNM", "-S", str(control)], check=True, stdout=subprocess.DEVNULL)
    try:
        # The key of a stranger stands for a login that wants a password.
        done = box.haft("tools", HAFT_SSH=box.ssh("-S", str(control), key="stranger"))
        assert (done.returncode, done.stderr) == (0, b"")
    finally:
        end = ["ssh", "-F", "none", "-S", str(control), "-O", "exit", "box"]
        subprocess.run(end, check=True, capture_output=True)
