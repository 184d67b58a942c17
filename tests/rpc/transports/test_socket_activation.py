"""Sockets from the service manager."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from haftd.config.values import is_loopback
from haftd.rpc.transports.socket_activation import take

Give = Callable[..., tuple[dict[str, str], int]]


@pytest.fixture
def give() -> Iterator[Give]:
    """Put sockets at descriptors in a row, inheritable, as a manager does."""
    with ExitStack() as stack:

        def put(*named: tuple[str, socket.socket]) -> tuple[dict[str, str], int]:
            first = 200
            for offset, (_, sock) in enumerate(named):
                os.dup2(sock.fileno(), first + offset, inheritable=True)
                sock.close()
                stack.callback(_close, first + offset)
            env = {
                "LISTEN_PID": "77",
                "LISTEN_FDS": str(len(named)),
                "LISTEN_FDNAMES": ":".join(name for name, _ in named),
                "PATH": "/bin",
            }
            return env, first

        yield put


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass


def unix(folder: Path, name: str = "s") -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(folder / name))
    sock.listen()
    return sock


def tcp(host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET)
    sock.bind((host, 0))
    sock.listen()
    return sock


def test_rpc_and_ws_are_taken_by_name(give: Give, short_tmp: Path) -> None:
    env, first = give(("ws", tcp()), ("rpc", unix(short_tmp)), ("rpc", unix(short_tmp, "t")))
    taken = take(env, 77, first)
    assert taken.problems == ()
    assert [sock.getsockname() for sock in taken.rpc] == [
        str(short_tmp / "s"),
        str(short_tmp / "t"),
    ]
    assert [sock.getsockname()[0] for sock in taken.ws] == ["127.0.0.1"]
    assert env == {"PATH": "/bin"}
    for sock in (*taken.rpc, *taken.ws):
        assert not sock.get_inheritable()
        assert not sock.getblocking()
        sock.close()


def test_sockets_meant_for_another_process_are_left_alone(give: Give, short_tmp: Path) -> None:
    env, first = give(("rpc", unix(short_tmp)))
    assert take(env, 78, first) == take({}, 78)
    assert env == {"PATH": "/bin"}
    os.fstat(first)


def test_an_unnamed_socket_is_identified_by_its_kind(give: Give, short_tmp: Path) -> None:
    env, first = give(("unknown", unix(short_tmp)), ("", tcp()))
    del env["LISTEN_FDNAMES"]
    taken = take(env, 77, first)
    assert (len(taken.rpc), len(taken.ws), taken.problems) == (1, 1, ())
    for sock in (*taken.rpc, *taken.ws):
        sock.close()


def test_U03_unsupported_sockets_are_not_served(give: Give, short_tmp: Path) -> None:
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0haft-test-{os.getpid()}")
    abstract.listen()
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    silent = socket.socket(socket.AF_UNIX)
    env, first = give(
        ("rpc", abstract),
        ("rpc", datagram),
        ("rpc", silent),
        ("rpc", tcp()),
        ("ws", unix(short_tmp)),
        ("ws", tcp("0.0.0.0")),
        ("http", tcp()),
    )
    taken = take(env, 77, first)
    assert (taken.rpc, taken.ws) == ((), ())
    for problem, word in zip(
        taken.problems,
        ["abstract", "stream", "stream", "Unix", "TCP", "loopback", "neither"],
        strict=True,
    ):
        assert word in problem
    for fd in range(first, first + 7):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize("count", ["", "x", "-1", "65", "99999999999", "9" * 5000])
def test_an_invalid_count_is_ignored(count: str) -> None:
    assert take({"LISTEN_PID": "1", "LISTEN_FDS": count}, 1) == take({}, 1)


def test_a_missing_descriptor_is_a_problem() -> None:
    taken = take({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "rpc"}, 1, 250)
    assert "250" in taken.problems[0]


@pytest.mark.parametrize(
    ("host", "yes"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::1%lo", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognised(host: str, yes: bool) -> None:
    assert is_loopback(host) is yes
