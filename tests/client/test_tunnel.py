"""Connections through a program's standard streams: a script in the place of ssh, daemons that are real or scripted."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from haft import ConnectionLost, Haft, NotRunning, ProtocolFault, Unreachable, aio
from haft.__main__ import main
from haft.tunnel import announcement
from tests.client.conftest import Serve
from tests.client.fake import Peer, Refuse, running, stopped
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon

Capture = pytest.CaptureFixture[str]
Install = Callable[[str], None]

HOST = "ssh://me@box"
LOGIN = """
for word; do command=$word; done
mkdir -p "$HOME/.local/bin"
printf '#!/bin/sh\\nexec %s -m haft "$@"\\n' "$PYTHON" > "$HOME/.local/bin/haft"
chmod +x "$HOME/.local/bin/haft"
exec sh -c "$command"
"""
"""Runs the command as the machine's login shell would."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Let a script be ssh and `HAFT_HOST` name the machine."""
    monkeypatch.setenv("HAFT_HOST", HOST)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def write(script: str) -> None:
        program = tmp_path / "fake-ssh"
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)
        monkeypatch.setenv("HAFT_SSH", str(program))

    return write


@pytest.fixture
def box(
    install: Install, shared_daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> RunningDaemon:
    for name, value in shared_daemon.env.items():
        monkeypatch.setenv(name, value)
    return shared_daemon


def test_both_clients_reach_the_daemon_behind_the_text_of_a_login_shell(
    install: Install, box: RunningDaemon
) -> None:
    install(f"printf 'Welcome\\n%0999d\\nno line end' 0\n{LOGIN}")
    with Haft.connect(session="tunnel") as haft:
        assert haft.server.pid == box.pid
        state = haft.spawn("run", "a", {"argv": ["echo", "x" * 100_000]}, wait="stopped")
        assert state.cursor == 100_001

    async def look() -> int:
        async with aio.connect(session="tunnel") as haft:
            return (await haft.server()).pid

    assert trio.run(look) == box.pid


def test_the_command_line_pipes_another_framing_through(
    install: Install, box: RunningDaemon, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    install(LOGIN)
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    read, write = os.pipe()
    os.write(write, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    os.close(write)
    stdin, sys.stdin = sys.stdin, os.fdopen(read)
    try:
        assert main(["connect"]) == 0
    finally:
        sys.stdin.close()
        sys.stdin = stdin
    assert capfdbinary.readouterr().out.startswith(b"Content-Length: ")


def test_a_daemon_is_started_there_only_by_a_command_that_starts_one(
    install: Install, make_daemon: Callable[..., RunningDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(LOGIN)
    for name, value in make_daemon().env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NotRunning, match=r"^on me@box: haftd is not running"):
        Haft.connect()
    with Haft.connect(autostart=True) as haft:
        haft.shutdown("abort")


def scripted(announced: bytes = announcement("1")) -> str:
    """Return a script that announces, then joins its streams to the scripted daemon."""
    join = "import socket, sys; from haft.cli.commands.connect import join; from haft.daemon_socket import open_daemon"
    return f"""printf '%s\\n' '{announced.decode().strip()}'
exec "$PYTHON" -c '{join}; join(0, 1, open_daemon())'
"""


def test_no_environment_and_no_folder_of_this_machine_is_sent(
    install: Install, serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(scripted())

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        return stopped(request["params"].get("id", "a"))

    daemon = serve(answer)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    assert main(["spawn", "run", "--id", "a", "--", "true"]) == 0
    assert main(["spawn", "run", "--id", "a", "--root", "/there", "--", "true"]) == 0
    spawned = daemon.calls("spawn")
    assert [{*params} & {"env", "root"} for params in spawned] == [set(), {"root"}]
    assert main(["spawn", "run", "--root", "here", "--", "true"]) == 2
    assert "absolute path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["doctor"], ["audit"], ["setup", "service"], ["trust"], ["mcp", "--print", "cursor"]]
)
def test_matters_of_this_machine_are_refused_for_another(
    install: Install, capsys: Capture, words: list[str]
) -> None:
    install("exit 9")
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and ("me@box" in err or "other machine" in err)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'Host key verification failed.' >&2; exit 255", Unreachable, "accept it"),
        ("exit 127", Unreachable, "no `haft`"),
        ("echo 'haft connect: haftd is not running' >&2; exit 3", NotRunning, "not running"),
        ("kill -9 $$", Unreachable, "status -9"),
        ("exec yes", ProtocolFault, "print nothing"),
        ("""printf '{"haft":"9.0","protocol":9}\\n'; cat""", ProtocolFault, "the same version"),
    ],
)
def test_a_failed_start_is_one_sentence(
    install: Install, capsys: Capture, script: str, kind: type[Exception], words: str
) -> None:
    install(script)
    with pytest.raises(kind, match=words):
        Haft.connect()
    assert main(["ps"]) in (3, 4)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_program_is_named(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAFT_SSH", "/no/such/ssh -v")
    with pytest.raises(Unreachable, match="'/no/such/ssh' cannot be run: No such file"):
        Haft.connect()


def test_a_silent_machine_is_given_up(install: Install) -> None:
    install("exec sleep 600")
    with pytest.raises(Unreachable, match="me@box did not answer within 0 s"):
        Haft.connect(timeout=0.1)


LOST = f"""printf '%s' '{announcement("1").decode()}'
head -c 1 >/dev/null
echo 'Timeout, server box not responding.' >&2
exit 255
"""


def test_a_loss_within_a_call_has_the_reason_of_ssh(install: Install) -> None:
    install(LOST.replace("'{", "'{", 1))
    with Haft.connect() as haft, pytest.raises(ConnectionLost, match=r"lost: .*not responding"):
        haft.ping()


async def test_a_loss_within_a_call_on_trio_has_the_reason_of_ssh(install: Install) -> None:
    install(LOST)
    async with aio.connect() as haft:
        with pytest.raises(ConnectionLost, match=r"lost: .*not responding"):
            await haft.ping()


def opened_since(before: set[str]) -> dict[str, str]:
    """Return the other descriptors of this process, with what each is open on."""
    opened = {}
    for name in {*os.listdir("/proc/self/fd")} - before:
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            opened[name] = os.readlink(f"/proc/self/fd/{name}")
    return opened


def test_nothing_is_left_of_a_closed_connection(install: Install, serve: Serve) -> None:
    install(scripted())
    serve(lambda request, peer: running())
    Haft.connect().close()  # Makes objects that the first connection leaves for the next ones.
    gc.collect()
    before = {*os.listdir("/proc/self/fd")}
    for _ in range(3):
        Haft.connect().close()
    gc.collect()
    # The other side of each connection is a thread of this process.
    with contextlib.suppress(AssertionError):
        until(lambda: not opened_since(before), "all descriptors are closed")
    assert opened_since(before) == {}


def test_the_shared_connection_is_in_a_folder_of_this_user_alone(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("""for word; do case $word in ControlPath=*) echo "$word" >&2;; esac; done; exit 255""")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp/" + tmp_path.name)
    folder = Path("/tmp") / tmp_path.name
    folder.mkdir()
    try:
        with pytest.raises(Unreachable, match=f"ControlPath={folder}/haft/ssh-"):
            Haft.connect()
        assert stat.S_IMODE((folder / "haft").stat().st_mode) == 0o700
        (folder / "haft").chmod(0o770)
        with pytest.raises(Unreachable, match="ControlPath=none"):
            Haft.connect()
    finally:
        (folder / "haft").rmdir()
        folder.rmdir()


def test_threads_that_connect_at_once_reap_each_program_once(install: Install) -> None:
    install("exit 255")

    def fail(_: int) -> str:
        with pytest.raises(Unreachable) as refused:
            Haft.connect()
        return str(refused.value)

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(fail, range(64))} == {"ssh to me@box failed: it gave no reason"}


async def test_a_cancelled_connect_does_not_wait_for_the_machine(install: Install) -> None:
    install("exec sleep 600")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def connect() -> None:
                async with aio.connect(timeout=5):
                    raise AssertionError("nothing answers")

            nursery.start_soon(connect)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


def test_the_version_of_an_unreachable_machine_is_not_called_stopped(
    install: Install, capsys: Capture
) -> None:
    install("exit 127")
    assert main(["version"]) == 0
    assert "there is no `haft` on me@box" in capsys.readouterr().err


def test_another_protocol_there_names_no_process_of_this_machine(
    install: Install, serve: Serve, capsys: Capture
) -> None:
    install(scripted())
    daemon = serve(lambda request, peer: running())
    mismatch = {"field": "protocol", "protocol": 9, "version": "9.0", "pid": os.getpid()}

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32602, "invalid_params", "another version", **mismatch)

    daemon.answer = answer
    assert main(["stop"]) == 4
    assert "run `haft stop` there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--root", "/there"], 0, '"--host",\n        "ssh://me@box"\n'),
        ([], 2, "name the folder on the other machine"),
        (["--root", "here"], 2, "absolute path"),
    ],
)
def test_the_entry_of_a_host_of_mcp_names_the_machine_and_a_folder_there(
    install: Install, capsys: Capture, words: list[str], status: int, text: str
) -> None:
    install("exit 9")
    assert main(["mcp", "--print", "cursor", "--host", HOST, *words]) == status
    assert text in "".join(capsys.readouterr())
