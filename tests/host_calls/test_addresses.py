"""Names are resolved in threads of their own; a name without an address is an OSError."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host_calls.addresses import resolve_addresses
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
