"""The transport of `haft mcp` over standard input and output."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from haft.mcp.bridge import Bridge
from haft.mcp.stdio import DaemonLink, StdioTransport

REPLIES = b"x" * (1 << 20)


@pytest.fixture
def sink() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def serve_at_the_end_of_input(sink: int) -> Bridge:
    """Serve a host that has closed its input with replies queued."""

    def unreachable() -> Any:
        raise AssertionError("no request needs the daemon")

    link = DaemonLink(unreachable)
    bridge = Bridge(link.connect, {}, capabilities={}, instructions="")
    bridge.to_host += REPLIES
    source = os.open(os.devnull, os.O_RDONLY)
    try:
        StdioTransport(source, sink, link).serve(bridge)
    finally:
        os.close(source)
    return bridge


def test_replies_that_are_ready_are_sent_after_the_end_of_the_input(sink: tuple[int, int]) -> None:
    received = bytearray()

    def read() -> None:
        while data := os.read(sink[0], 1 << 16):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    serve_at_the_end_of_input(sink[1])
    os.close(sink[1])
    reader.join()
    assert received == REPLIES


def test_a_host_that_reads_nothing_after_the_end_is_left(
    sink: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haft.mcp.stdio.MAX_LAST_WAIT_S", 0.0)
    assert serve_at_the_end_of_input(sink[1]).to_host


def test_a_host_that_has_closed_the_output_too_ends_the_flush(sink: tuple[int, int]) -> None:
    os.close(sink[0])
    with pytest.raises(BrokenPipeError):
        serve_at_the_end_of_input(sink[1])
