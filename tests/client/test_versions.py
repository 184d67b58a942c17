"""A daemon of another protocol version can be named and stopped, and is sent nothing else."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haft import Haft, VersionMismatch, aio
from haft.__main__ import main
from haft.daemon_socket import _machine
from haft_protocol.paths import machine_lock
from tests.client.fake import FakeDaemon, Peer, Refuse
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

Answer = Callable[[dict[str, Any], Peer], Any]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Fake a daemon's process for `haft stop`."""
    with subprocess.Popen(["sleep", "600"]) as one:
        yield one
        one.kill()


def refusing(pid: int) -> Answer:
    """A daemon that refuses the version, as the current one does."""

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "initialize":
            data = {"field": "protocol", "protocol": 2, "version": "3.1", "pid": pid}
            raise Refuse(-32602, "invalid_params", "no", **data)
        return {"unheard": "of"}

    return answer


def answering(pid: int) -> Answer:
    """A daemon that answers in its own version."""

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "initialize":
            return {"protocol": 2, "server": {"version": "3.1"}, "pid": pid, "more": {}}
        return {"unheard": "of"}

    return answer


def silent(pid: int) -> Answer:
    """A daemon that only reports a wrong version."""

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "initialize":
            raise Refuse(-32602, "invalid_params", "no", field="protocol")
        return {"unheard": "of"}

    return answer


@pytest.fixture
def serve(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], None]]:
    daemons: list[FakeDaemon] = []
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp / "state"))
    yield lambda answer: daemons.append(FakeDaemon(short_tmp / "s", answer))
    for one in daemons:
        one.close()


@pytest.mark.parametrize("kind", [refusing, answering])
@pytest.mark.parametrize(
    "words", ["ps", "fetch x", "spawn run --id x -- true", "status", "stop --if-idle"]
)
def test_every_command_names_both_versions_and_the_remedy(
    serve: Callable[[Answer], None],
    capsys: pytest.CaptureFixture[str],
    kind: Callable[[int], Answer],
    words: str,
) -> None:
    serve(kind(1))
    assert main(words.split()) == 4
    output = capsys.readouterr().err
    if words.startswith("stop"):
        assert "haftd 3.1" in output and "without --if-idle" in output
    else:
        for part in ("haftd 3.1", "version 2", "this haft version 1", "`haft stop`"):
            assert part in output


@pytest.mark.parametrize("kind", [refusing, answering])
def test_stop_and_version_still_work(
    serve: Callable[[Answer], None],
    capsys: pytest.CaptureFixture[str],
    process: subprocess.Popen[bytes],
    kind: Callable[[int], Answer],
) -> None:
    serve(kind(process.pid))
    assert main(["version"]) == 0
    assert "haftd 3.1 (protocol 2)" in capsys.readouterr().out
    assert main(["stop"]) == 0
    assert process.wait(20) == -15


def test_a_silent_daemon_is_found_by_its_lock(
    serve: Callable[[Answer], None],
    short_tmp: Path,
    capsys: pytest.CaptureFixture[str],
    process: subprocess.Popen[bytes],
) -> None:
    serve(silent(0))
    assert main(["stop"]) == 4
    assert "end it by hand" in capsys.readouterr().err
    lock = Path(machine_lock(str(short_tmp / "state" / "haft"), _machine()))
    lock.parent.mkdir(parents=True)
    ours = str(short_tmp / "s")
    here = Path("/proc/self/ns/pid").stat().st_ino
    for socket, ns, is_held, status in (
        ("/another", here, True, 4),
        (ours, here + 1, True, 4),
        (ours, here, False, 4),
        (ours, here, True, 0),
    ):
        lock.write_text(json.dumps({"pid": process.pid, "socket": socket, "ns": ns}))
        with open(lock, "rb") as file:
            if is_held:
                fcntl.flock(file, fcntl.LOCK_EX)
            assert main(["stop"]) == status
        assert (process.poll() is None) == (status != 0)
    assert process.wait(20) == -15


def test_the_daemon_names_the_required_version(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon().start()
    client = {"name": "t", "version": "9"}
    with daemon.connect() as wire, pytest.raises(Refused) as refused:
        wire.call("initialize", client=client, protocol=2)
    data = refused.value.data
    assert (data["field"], data["protocol"], data["pid"]) == ("protocol", 1, daemon.pid)
    for part in ("version 1", "this client 2", "haft stop"):
        assert part in refused.value.message


async def test_both_clients_raise_a_version_error(serve: Callable[[Answer], None]) -> None:
    serve(answering(7))
    with Haft.connect() as wire, pytest.raises(VersionMismatch) as raised:
        wire.ping()
    assert (raised.value.protocol, raised.value.version, raised.value.pid) == (2, "3.1", 7)
    async with aio.connect() as other:
        with pytest.raises(VersionMismatch):
            await other.ping()
