"""The outbound queue: everything leaves in order and whole, or the peer is given up."""

from __future__ import annotations

from typing import Literal

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.rpc.outbox import LOW, Outbox
from haftd.rpc.wire import Disconnected
from tests.effort import examples
from tests.patience import PATIENCE_S


class Trickle:
    """A wire that takes `at_once` bytes per write, then `later` per send."""

    transport: Literal["unix", "websocket"] = "unix"
    fault: RpcError | None = None

    def __init__(self, at_once: list[int], later: list[int]) -> None:
        self.taken = bytearray()
        self.at_once = at_once
        self.later = later
        self.go = trio.Event()

    def frame(self, message: bytes, *more: bytes) -> bytes:
        return b"".join((message, *more))

    def _take(self, data: bytes | memoryview, amount: int) -> int:
        if amount < 0:
            raise Disconnected("planted")
        self.taken += bytes(data[:amount])
        return min(amount, len(data))

    def write(self, data: bytes | memoryview) -> int:
        return self._take(data, self.at_once.pop(0) if self.at_once else 0)

    async def send(self, data: bytes | memoryview) -> int:
        await self.go.wait()
        await trio.lowlevel.checkpoint()
        return self._take(data, self.later.pop(0) if self.later else len(data))

    async def receive(self) -> list[bytes] | None:
        return None

    async def writable(self) -> None: ...

    async def hung_up(self) -> None: ...

    async def discard_input(self) -> None: ...

    async def close(self, *, graceful: bool) -> None: ...


@settings(max_examples=examples(24), deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=12),
    st.lists(st.integers(0, 40), max_size=12),
    st.lists(st.integers(1, 40), max_size=30),
)
def test_taken_frames_arrive_whole_and_in_order(
    frames: list[bytes], at_once: list[int], later: list[int]
) -> None:
    async def main() -> None:
        wire = Trickle(at_once, later)
        async with trio.open_nursery() as nursery:
            outbox = Outbox(wire, nursery, 1 << 20, lambda why: pytest.fail(why))
            for number, frame in enumerate(frames):
                outbox.send(frame)
                if number == 3:
                    wire.go.set()
                    await trio.lowlevel.checkpoint()
            wire.go.set()
            await outbox.empty()
            assert outbox.queued == 0
        assert wire.taken == b"".join(frames)

    trio.run(main)


async def test_nothing_is_queued_for_a_peer_that_takes_all_at_once(nursery: trio.Nursery) -> None:
    wire = Trickle([100] * 5, [])
    outbox = Outbox(wire, nursery, 1000, pytest.fail)
    for _ in range(5):
        outbox.send(b"x" * 10)
    assert (outbox.queued, len(nursery.child_tasks)) == (0, 0)


async def test_a_producer_waits_for_room(nursery: trio.Nursery) -> None:
    wire = Trickle([], [])
    outbox = Outbox(wire, nursery, 1 << 30, pytest.fail)
    outbox.send(b"x" * (LOW + 1))
    assert not outbox.has_room
    waited = trio.Event()

    async def produce() -> None:
        await outbox.room()
        waited.set()

    nursery.start_soon(produce)
    await trio.testing.wait_all_tasks_blocked()
    assert not waited.is_set()
    wire.go.set()
    await waited.wait()


async def test_one_frame_may_be_larger_than_the_bound(nursery: trio.Nursery) -> None:
    wire = Trickle([], [])
    outbox = Outbox(wire, nursery, 100, pytest.fail)
    outbox.send(b"x" * 5000)
    wire.go.set()
    await outbox.empty()
    assert len(wire.taken) == 5000


async def test_a_queue_over_its_bound_gives_up_the_peer(nursery: trio.Nursery) -> None:
    given_up: list[str] = []
    outbox = Outbox(Trickle([], []), nursery, 100, given_up.append)
    for _ in range(3):
        outbox.send(b"x" * 90)
    assert outbox.queued <= 180
    assert ["max_queued" in why for why in given_up] == [True]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("at_once", [[-1], [0]])
async def test_a_disconnected_peer_is_reported(nursery: trio.Nursery, at_once: list[int]) -> None:
    given_up: list[str] = []
    wire = Trickle(at_once, [-1])
    outbox = Outbox(wire, nursery, 100, given_up.append)
    outbox.send(b"x")
    wire.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert given_up == ["planted"]


async def test_half_of_a_small_bound_frees_room(
    nursery: trio.Nursery,
) -> None:
    """Not only when all is written: making and taking replies overlap."""
    wire = Trickle([], [40, 1])
    outbox = Outbox(wire, nursery, 100, pytest.fail)
    outbox.send(b"x" * 50)
    has_room = [outbox.has_room]
    outbox.send(b"x" * 40)
    assert [*has_room, outbox.has_room] == [True, False]
    with trio.fail_after(PATIENCE_S):
        wire.go.set()
        await outbox.room()
    assert 0 < outbox.queued <= 50
    await outbox.empty()
