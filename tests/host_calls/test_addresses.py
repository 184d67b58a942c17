"""Names are resolved in threads of their own; a name without an address is an OSError."""

from __future__ import annotations

import errno
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host_calls.addresses import is_of_this_machine, resolve_addresses
from tests.patience import PATIENCE_S


async def test_a_silent_name_server_holds_up_no_other_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()

    def wait(*_: object, **__: object) -> list[object]:
        answer.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    async with trio.open_nursery() as nursery:
        try:
            for _ in range(100):
                nursery.start_soon(resolve_addresses, "silent.org", 80)
            await wait_all_tasks_blocked()
            with trio.fail_after(PATIENCE_S):
                assert await trio.to_thread.run_sync(threading.active_count) < 100
            assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        finally:
            answer.set()


def fails(error: Exception) -> Callable[..., object]:
    def getaddrinfo(*_: object, **__: object) -> object:
        raise error

    return getaddrinfo


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        UnicodeError("label too long"),
    ],
)
async def test_a_name_without_an_address_is_an_error_of_the_network(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", fails(error))
    with pytest.raises(OSError, match=r"not known|not the name of a host"):
        await resolve_addresses("a" * 70, 80)


async def test_addresses_keep_their_order_and_stand_once() -> None:
    assert await resolve_addresses("127.0.0.1", 80) == ("127.0.0.1",)


_ADDED = """
import contextlib, fcntl, ipaddress, socket, struct, sys
from haftd.host_calls.addresses import is_public
V4, V6, FAR = "93.184.216.34", "2606:2800:220:1::1", "93.184.216.35"
forms = V4, V6, f"::ffff:{V4}", f"64:ff9b::{V4}", f"2002:5db8:d822::1"
print([is_public(form) for form in (*forms, FAR)])
request = lambda *parts: struct.pack("16s", b"lo") + b"".join(parts)
with socket.socket() as four, socket.socket(socket.AF_INET6) as six:
    address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(V4))
    fcntl.ioctl(four, 0x8916, request(address))  # SIOCSIFADDR, netdevice(7)
    fcntl.ioctl(four, 0x8914, request(struct.pack("H14x", 0x49)))  # SIOCSIFFLAGS: up, loopback, running
    fcntl.ioctl(four, 0x891C, request(struct.pack("HH4s8x", socket.AF_INET, 0, b"\\xff" * 4)))
    index = socket.if_nametoindex("lo")
    fcntl.ioctl(six, 0x8916, socket.inet_pton(socket.AF_INET6, V6) + struct.pack("Ii", 128, index))
# The kernel adds the route a moment later, and reports that to nobody.
while True:
    with socket.socket(socket.AF_INET6) as bound, contextlib.suppress(OSError):
        bound.bind((V6, 0))
        break
print([is_public(form) for form in (*forms, FAR)])
"""


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_unshare(), reason="no namespaces of our own to make")
def test_each_address_of_this_machine_is_not_public() -> None:
    """A desktop's IPv6 address, or a server's IPv4 address: what listens at all of them is reached there."""
    printed = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", _ADDED],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout.splitlines()
    assert printed == [str([True] * 6), str([*[False] * 5, True])]


def test_an_address_counts_as_this_machines_if_no_socket_can_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(number: int) -> Callable[..., object]:
        return fails(OSError(number, "refused"))

    monkeypatch.setattr(socket, "socket", refuse(errno.EMFILE))
    assert is_of_this_machine("93.184.216.34")
    monkeypatch.setattr(socket, "socket", refuse(errno.EAFNOSUPPORT))
    assert not is_of_this_machine("2606:2800:220:1::1")
