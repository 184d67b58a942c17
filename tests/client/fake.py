"""A scripted daemon for the clients' tests: JSON and sockets only. Each connection has a thread;
a test's `answer` gets a request and returns a result, raises `Refuse`, or returns `LATER` and
replies later."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

LATER = object()


class Refuse(Exception):
    """An error reply."""

    def __init__(self, code: int, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": {"kind": kind, **data}}


class Peer:
    """The daemon's end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def send(self, message: Any) -> None:
        self.end.sendall(json.dumps(message).encode() + b"\n")

    def reply(self, request: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def signal(self, number: int) -> None:
        """Send a signal to the client's process."""
        credentials = self.end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        os.kill(struct.unpack("3i", credentials)[0], number)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()


Answer = Callable[[dict[str, Any], Peer], Any]


class FakeDaemon:
    """Listens at `path` until `close`; keeps every request in `requests`."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path = path
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.peers: list[Peer] = []
        self.accepted = threading.Semaphore(0)
        """Released for each of `peers`."""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stop_listening(self) -> None:
        """Take the socket away; connections stay."""
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            os.unlink(self.path)

    def close(self) -> None:
        """End everything; may be called from an answer, and twice."""
        self.stop_listening()
        # A connection that is just being accepted is closed with the others.
        if self._threads[0] is not threading.current_thread():
            self._threads[0].join(5)
        for peer in self.peers:
            peer.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)

    def calls(self, method: str) -> list[dict[str, Any]]:
        """The params of all calls of a method."""
        return [r["params"] for r in self.requests if r["method"] == method]

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self.listener.accept()
            except OSError:
                return
            peer = Peer(end)
            self.peers.append(peer)
            self.accepted.release()
            thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: Peer) -> None:
        with contextlib.suppress(OSError, ValueError), peer.end, peer.end.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if isinstance(message, list):
                    replies = [self._one(one, peer) for one in message]
                    peer.send([reply for reply in replies if reply is not None])
                elif (reply := self._one(message, peer)) is not None:
                    peer.send(reply)

    def _one(self, message: dict[str, Any], peer: Peer) -> dict[str, Any] | None:
        if "id" not in message or "method" not in message:
            (self.notifications if "method" in message else self.replies).append(message)
            return None
        self.requests.append(message)
        envelope = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = self.answer(message, peer)
        except Refuse as refused:
            return {**envelope, "error": refused.error}
        return None if result is LATER else {**envelope, "result": result}


def hello(request: dict[str, Any], started_at: float = 1.0) -> Any:
    """Answer `initialize` and `ping`; None for any other method."""
    if request["method"] == "ping":
        return {"pong": True}
    if request["method"] != "initialize":
        return None
    limits = {"max_message": 1 << 23} | dict.fromkeys(
        [
            "max_nesting",
            "max_values",
            "max_batch",
            "max_connections",
            "max_in_flight",
            "max_handles_session",
            "max_handles",
            "max_queued",
        ],
        1,
    )
    return {
        "server": {"name": "haftd", "version": "0.1.0"},
        "protocol": 1,
        "session": "default",
        "limits": limits,
        "pid": os.getpid(),
        "started_at": started_at,
    }


def _state(id: str, **fields: Any) -> dict[str, Any]:
    base = {"id": id, "tool": "run", "session": "default", "generation": 1, "elapsed_ms": 1200}
    return {**base, "cursor": 0, **fields}


def running(id: str = "a", content: str = "", **fields: Any) -> dict[str, Any]:
    """A running handle."""
    return _state(id, state="running", content=content, **fields)


def waiting(id: str = "a", content: str = "", **fields: Any) -> dict[str, Any]:
    """A handle that asks a question."""
    question = {"id": "q", "text": "Go?", "answer_type": {"type": "boolean"}}
    return _state(id, state="waiting", content=content, question=question, **fields)


def stopped(id: str = "a", result: str | None = "", **fields: Any) -> dict[str, Any]:
    """A stopped handle; with `result=None` a failure described by `fields`."""
    ended = {"ended_by": {"by": "exit"}, "output_complete": True, **fields}
    return _state(id, state="stopped", **({} if result is None else {"result": result}), **ended)


def _main() -> None:
    """Run as a daemon that holds a lock, notes its start, and exits 75 if the lock is held."""
    import fcntl

    path = Path(sys.argv[sys.argv.index("--socket") + 1])
    lock = os.open(path.parent / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o600)
    with open(path.parent / "begun", "a") as begun:
        begun.write(f"{os.getpid()}\n")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another daemon holds the lock", file=sys.stderr)
        sys.exit(75)
    facts = {
        "ppid": os.getppid(),
        "sid": os.getsid(0),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "fds": [os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)],
        "more": [fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and int(fd) != lock],
    }
    (path.parent / "facts").write_text(json.dumps(facts))
    # Before a client can connect, and read the log.
    print('{"event": "starting"}', file=sys.stderr, flush=True)
    FakeDaemon(path, lambda request, peer: hello(request))
    threading.Event().wait(60)


if __name__ == "__main__":
    _main()
