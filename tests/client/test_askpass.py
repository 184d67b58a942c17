from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from haft import askpass

Sent = queue.Queue[bytes]


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    """Return the bytes sent to a socket peer that answers `s3cret` to everything."""
    path, received = tmp_path / "s", queue.Queue[bytes]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            end, _ = listener.accept()
            with end:
                data = end.recv(4096)
                received.put(data)
                if data:
                    end.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"answer":"s3cret"}}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("HAFT_SOCKET", str(path))
        monkeypatch.setenv("HAFT_HANDLE", "mark")
        monkeypatch.setattr("sys.argv", ["haft-askpass", "Password: "])
        yield received
        thread.join(20)


def peer(monkeypatch: pytest.MonkeyPatch, *, mine: int, theirs: int) -> None:
    """Fake the kernel's peer and listener credentials."""
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    told = SimpleNamespace(calcsize=struct.calcsize, unpack=lambda form, data: (1, theirs, theirs))
    monkeypatch.setattr("haft.askpass.struct", told)


def test_an_unknown_peer_is_sent_nothing(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    peer(monkeypatch, mine=1000, theirs=1001)
    assert askpass.main() == 1
    out, err = capfd.readouterr()
    assert out == "" and "belongs to the user with uid 1001" in err
    assert sent.get(timeout=20) == b""


@pytest.mark.parametrize("theirs", [1000, 0])
def test_the_user_and_root_are_asked(
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    theirs: int,
) -> None:
    peer(monkeypatch, mine=1000, theirs=theirs)
    assert askpass.main() == 0
    assert capfd.readouterr().out == "s3cret\n" and b"Password: " in sent.get(timeout=20)


def test_the_listener_is_read_from_the_kernel(sent: Sent) -> None:
    """No fake: the listener is this process."""
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(os.environ["HAFT_SOCKET"])
        askpass._check_peer(end)
