"""`haft-askpass`: SUDO_ASKPASS, SSH_ASKPASS and GIT_ASKPASS of a tool that haftd runs.

The prompt is the first argument; the answer goes to stdout only. A `confirm` answers by exit
status. Each question starts this process, which therefore imports little.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Mapping, Sequence


class _Failed(Exception):
    """No answer; the message gives the reason."""


def main() -> int:
    """Ask the daemon that runs this tool; return the exit status."""
    try:
        answer = _ask(sys.argv[1:], os.environ)
        if isinstance(answer, bool):
            return 0 if answer else 1
        if answer is not None:
            _print(answer)
    except KeyboardInterrupt:
        return 1
    except _Failed as fault:
        print(f"haft-askpass: {fault}", file=sys.stderr)
        return 1
    except OSError as fault:
        print(f"haft-askpass: haftd cannot be asked: {fault.strerror or fault}", file=sys.stderr)
        return 1
    return 0


def _ask(arguments: Sequence[str], env: Mapping[str, str]) -> str | bool | None:
    path, mark = env.get("HAFT_SOCKET"), env.get("HAFT_HANDLE")
    if not path or not mark:
        raise _Failed("only programs that haftd runs can ask a question with it")
    prompt = os.fsencode(arguments[0] if arguments else "Password: ").decode("utf-8", "replace")
    params = {"mark": mark, "prompt": prompt}
    hint = env.get("SSH_ASKPASS_PROMPT")
    if hint in ("confirm", "none"):
        params["hint"] = hint
    call = {"jsonrpc": "2.0", "id": 1, "method": "askpass", "params": params}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.connect(path)
        _check_peer(end)
        end.sendall(json.dumps(call).encode() + b"\n")
        reply = json.loads(_line(end))
    if "error" in reply:
        raise _Failed(reply["error"]["message"])
    answer: str | bool | None = reply["result"]["answer"]
    return answer


def _check_peer(end: socket.socket) -> None:
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    if uid not in (os.geteuid(), 0):
        raise _Failed(f"the socket belongs to the user with uid {uid}")


def _line(end: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        more = end.recv(65_536)
        if not more:
            raise _Failed("haftd has ended, so no answer can come")
        received += more
    return received


def _print(answer: str) -> None:
    data = memoryview(answer.encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main())
