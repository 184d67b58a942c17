"""`haft connect`: bytes pass unchanged both ways; each end of a stream is reported."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon

CONNECT = [sys.executable, "-m", "haft", "connect"]


def connect(daemon: RunningDaemon) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(CONNECT, stdin=pipe, stdout=pipe, stderr=pipe, env=daemon.env)


def request(number: int, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message).encode()


def test_lines_are_answered_after_the_input_has_ended(shared_daemon: RunningDaemon) -> None:
    program = {"argv": ["sleep", "0.2"]}
    spawn = request(1, "spawn", session="eof", tool="run", id="s", args=program, wait="stopped")
    done = subprocess.run(
        CONNECT,
        input=spawn + b"\n" + request(2, "ping"),
        env=shared_daemon.env,
        capture_output=True,
    )
    replies = {reply["id"]: reply["result"] for reply in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and done.stderr == b""
    assert replies[1]["state"] == "stopped" and replies[2] == {"pong": True}


def test_blocks_of_language_clients_are_answered_in_kind(shared_daemon: RunningDaemon) -> None:
    body = request(1, "ping")
    with connect(shared_daemon) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        running.stdin.flush()
        assert running.stdout.readline().startswith(b"Content-Length: ")
        running.stdin.close()
        running.stdout.read()
    assert running.returncode == 0


def test_a_daemon_is_started_when_none_answers(make_daemon: Callable[..., RunningDaemon]) -> None:
    daemon = make_daemon()
    ping, end = request(1, "ping"), request(2, "daemon/shutdown")
    done = subprocess.run(
        CONNECT, input=ping + b"\n" + end, env=daemon.env, capture_output=True, timeout=30
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert done.returncode == 0, done.stderr


def test_the_end_of_the_daemon_is_status_3(daemon: RunningDaemon) -> None:
    with connect(daemon) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(request(1, "ping") + b"\n")
        running.stdin.flush()
        running.stdout.readline()
        daemon.kill9()
        # Closed before that, stdin ends the command with status 0: the client had no more to ask.
        running.wait(20)
        out, err = running.communicate()
    assert (running.returncode, out) == (3, b"")
    assert (
        err.startswith(b"haft connect: haftd has ended, and all handles with it;")
        and err.count(b"\n") == 1
    )


def test_a_closed_reader_ends_connect_while_the_daemon_is_silent(
    shared_daemon: RunningDaemon,
) -> None:
    with connect(shared_daemon) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(request(1, "ping") + b"\n")
        running.stdin.flush()
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(20) == 141


@pytest.mark.parametrize("words", [["--json"], ["--session", "x"], ["--root", "/"]])
def test_options_that_no_byte_could_carry_are_refused(words: list[str]) -> None:
    done = subprocess.run([*CONNECT, *words], capture_output=True, text=True)
    assert done.returncode == 2 and f"connect has no {words[0]}" in done.stderr


@pytest.fixture
def echo(short_tmp: Path) -> Iterator[dict[str, str]]:
    """Return the environment of a client whose daemon echoes each byte, and then closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(short_tmp / "s"))
    listener.listen()

    def serve() -> None:
        end, _ = listener.accept()
        with end:
            while data := end.recv(1 << 16):
                end.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield {**os.environ, "HAFT_SOCKET": str(short_tmp / "s")}
    thread.join(20)
    listener.close()


@pytest.mark.parametrize("stdout", ["pipe", "socket"])
def test_large_data_passes_unchanged_and_a_slow_reader_slows_the_writer(
    echo: dict[str, str], stdout: str
) -> None:
    sent = os.urandom(1 << 16) * 64
    pair = socket.socketpair()
    sink = subprocess.PIPE if stdout == "pipe" else pair[1].fileno()
    with subprocess.Popen(CONNECT, stdin=subprocess.PIPE, stdout=sink, env=echo) as running:
        assert running.stdin is not None
        pair[1].close()
        os.set_blocking(running.stdin.fileno(), False)
        written = 0
        with pytest.raises(BlockingIOError):
            # Without a reader the bounded buffers on the way and the pipe fill.
            while True:
                written += _fill(running.stdin.fileno(), sent[written:])
        assert written < len(sent)
        os.set_blocking(running.stdin.fileno(), True)
        writer = threading.Thread(target=_write_rest, args=(running, sent[written:]))
        writer.start()
        received = b"".join(_chunks(running, pair[0]))
        writer.join()
    pair[0].close()
    assert received == sent and running.returncode == 0


def _fill(fd: int, data: bytes) -> int:
    """Write until the reader takes nothing; then raise `BlockingIOError`."""
    import select

    if not select.select([], [fd], [], 0.3)[1]:
        raise BlockingIOError
    return os.write(fd, data[:4096])


def _write_rest(running: subprocess.Popen[bytes], data: bytes) -> None:
    assert running.stdin is not None
    running.stdin.write(data)
    running.stdin.close()


def _chunks(running: subprocess.Popen[bytes], end: socket.socket) -> Iterator[bytes]:
    def read() -> bytes:
        return (
            end.recv(1 << 16)
            if running.stdout is None
            else os.read(running.stdout.fileno(), 1 << 16)
        )

    while chunk := read():
        yield chunk
