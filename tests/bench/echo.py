"""Round trips without a daemon: blocking loops on a Unix socket, each in its own process. `raw`
echoes bytes, `msgspec` decodes and answers a typed envelope, `relay` passes each line through
`cat`, `keep` holds idle connections."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec


class _Request(msgspec.Struct):
    method: str
    id: int
    params: msgspec.Raw = msgspec.Raw(b"{}")


def _raw(client: socket.socket) -> None:
    while data := client.recv(1 << 16):
        client.sendall(data)


def _msgspec(client: socket.socket) -> None:
    decode = msgspec.json.Decoder(_Request).decode
    encode = msgspec.json.Encoder().encode
    buffer = b""
    while data := client.recv(1 << 16):
        *whole, buffer = (buffer + data).split(b"\n")
        for line in whole:
            request = decode(line)
            reply = {"jsonrpc": "2.0", "id": request.id, "result": {"pong": True}}
            client.sendall(encode(reply) + b"\n")


def _relay(client: socket.socket) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, bufsize=0) as cat:
        assert cat.stdin is not None and cat.stdout is not None
        while data := client.recv(1 << 16):
            cat.stdin.write(data)
            client.sendall(cat.stdout.read(1 << 16))


_KINDS = {"raw": _raw, "msgspec": _msgspec, "relay": _relay}


def _main(kind: str, path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(256)
    print("listening", flush=True)
    kept = []
    while True:
        client, _ = listener.accept()
        if kind == "keep":
            kept.append(client)
        else:
            _KINDS[kind](client)


@contextlib.contextmanager
def server(kind: str, path: Path) -> Iterator[int]:
    """Run an echo server; yield its pid."""
    process = subprocess.Popen(
        [sys.executable, __file__, kind, str(path)], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "listening\n":
                raise RuntimeError(f"the {kind} server does not start")
            yield process.pid
        finally:
            process.kill()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
