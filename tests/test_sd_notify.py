from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from haftd.sd_notify import Notifier, feed_watchdog, read_watchdog_interval_s


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, short_tmp: Path) -> Iterator[tuple[socket.socket, str]]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"haft-test-{os.getpid()}"
    address = str(short_tmp / "n") if request.param == "path" else "@" + name
    sock.bind(address if request.param == "path" else "\0" + name)
    sock.setblocking(False)
    yield sock, address
    sock.close()


def test_the_manager_gets_each_notification(manager: tuple[socket.socket, str]) -> None:
    sock, address = manager
    with closing(Notifier.from_environment({"NOTIFY_SOCKET": address})) as notifier:
        notifier.ready("serving\nWATCHDOG=trigger")
        notifier.reloading(12.5)
        notifier.watchdog()
        notifier.stopping()
    assert [sock.recv(1000).decode() for _ in range(4)] == [
        "READY=1\nSTATUS=serving WATCHDOG=trigger",
        "RELOADING=1\nMONOTONIC_USEC=12500000",
        "WATCHDOG=1",
        "STOPPING=1",
    ]
    assert notifier.failed == 0


@pytest.mark.parametrize("address", [None, "", "vsock:2:1", "relative"])
def test_without_a_manager_nothing_is_sent(address: str | None) -> None:
    with closing(Notifier(address)) as notifier:
        notifier.ready()
    assert notifier.failed == 0


def test_a_lost_manager_is_counted(short_tmp: Path) -> None:
    with closing(Notifier(str(short_tmp / "none"))) as notifier:
        notifier.ready()
    assert notifier.failed == 1


@pytest.mark.parametrize(
    ("env", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "9" * 400}, None),
    ],
)
def test_the_watchdog_is_fed_only_on_request(env: dict[str, str], interval: float | None) -> None:
    assert read_watchdog_interval_s(env, 7) == interval


async def test_P35_watchdog_messages_come_from_the_loop(
    manager: tuple[socket.socket, str], autojump_clock: object
) -> None:
    sock, address = manager
    with closing(Notifier(address)) as notifier:
        with trio.move_on_after(10):
            await feed_watchdog(notifier, 3)
    assert [sock.recv(100) for _ in range(4)] == [b"WATCHDOG=1"] * 4
    with pytest.raises(BlockingIOError):
        sock.recv(100)
