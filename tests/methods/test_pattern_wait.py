"""A wait for a costly pattern: what is matched in the loop and in threads, and in which order."""

from __future__ import annotations

import threading
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haft_protocol.states import EndedBy
from haftd.core.handles import Handle
from haftd.core.patterns import OutputMatcher
from haftd.core.termination import Termination
from haftd.methods import pattern_wait
from haftd.methods.base import DeferredReply, HandleWait
from haftd.methods.pattern_wait import PatternWait
from haftd.regex import Match, compile_expression
from tests.core.disks import make
from tests.patience import PATIENCE_S
from tests.pending_replies import result_of


class Costly:
    """A pattern whose every match is too costly for the loop, and waits for `go`."""

    programsize = 4_000

    def __init__(self, text: str = "needle") -> None:
        self.pattern = f"(?m){text}"
        self.begun, self.go = threading.Event(), threading.Event()
        self.threads: list[int] = []
        self._pattern = compile_expression(text)

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        self.threads.append(threading.get_ident())
        self.begun.set()
        assert self.go.wait(PATIENCE_S), "the loop has no turn during the match"
        return self._pattern.search(text, pos)


def handle(output: bytes = b"") -> Handle:
    handle = Handle(
        id="h", tool="t", session="s", generation=1, spool=make(memory=1 << 22), now=0.0
    )
    handle.start(0.0)
    handle.append_output(output, 0.0)
    return handle


class Client:
    """A caller; only its identity counts."""


def wait(
    handle: Handle,
    pattern: Any,
    *,
    timeout_s: float = PATIENCE_S,
    client: object = None,
    echo: bytes = b"",
    is_reader: bool = True,
) -> PatternWait:
    def reply(waited: str) -> Any:
        return waited

    return PatternWait(
        handle,
        pattern,
        OutputMatcher(pattern, echo=echo),
        client or Client(),
        trio.current_time() + timeout_s,
        reply,
        reply,
        is_reader=is_reader,
    )


async def run(reply: Any) -> Any:
    assert isinstance(reply, DeferredReply)
    return await reply.run()


async def begun(pattern: Costly) -> None:
    await trio.to_thread.run_sync(pattern.begun.wait, PATIENCE_S)


async def test_an_ordinary_pattern_is_matched_without_a_thread(fast_matching: None) -> None:
    target, pattern = handle(b"x\n" * 50_000), compile_expression("need+le")
    reply = wait(target, pattern).begin()
    assert isinstance(reply, HandleWait) and reply.holds() is None
    target.append_output(b"needle\n", 0.0)
    assert reply.then(reply.holds()) == "matched"


async def test_a_costly_pattern_holds_no_other_call_up_and_misses_no_output() -> None:
    target, pattern, replies = handle(b"nothing\nnee"), Costly(), []

    async def match() -> None:
        replies.append(await run(wait(target, pattern).begin()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(match)
        await begun(pattern)
        target.append_output(b"dle\n", 0.0)
        pattern.go.set()
    assert replies == ["matched"]
    assert threading.get_ident() not in pattern.threads and len(pattern.threads) == 2


async def test_after_output_without_a_match_more_is_awaited() -> None:
    target, pattern = handle(b"nothing\n"), Costly()
    pattern.go.set()
    reply = await run(wait(target, pattern).begin())
    assert isinstance(reply, HandleWait) and reply.holds() is None
    target.append_output(b"needle\n", 0.0)
    assert await run(reply.then(reply.holds())) == "matched"


async def test_the_end_during_a_match_is_reported_by_the_call_once_all_is_matched() -> None:
    target, pattern, replies = handle(b"nothing\n"), Costly(), []

    async def match() -> None:
        replies.append(await run(wait(target, pattern).begin()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(match)
        await begun(pattern)
        assert target.is_awaited, "else its end becomes a notice"
        target.append_output(b"last\n", 0.0)
        target.end(Termination(by=EndedBy("exit")), 1.0)
        pattern.go.set()
    assert replies == ["stopped"] and len(pattern.threads) == 2
    assert target._await_count == 0 and not target._listeners


async def test_the_deadline_ends_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_wait, "_MIN_MATCHING_S", 0.0)
    target, pattern = handle(b"needle\n"), Costly()
    assert await run(wait(target, pattern, timeout_s=0.01).begin()) == "deadline"
    assert not target.is_awaited
    pattern.go.set()


async def test_known_output_is_matched_without_time_to_wait(fast_matching: None) -> None:
    target, pattern = handle(b"x" * 10_000 + b"needle\n"), Costly()
    pattern.go.set()
    assert await run(wait(target, pattern, timeout_s=0).begin()) == "matched"
    ordinary = compile_expression("needle")
    for output, waited in ((b"a needle\n", "matched"), (b"", "deadline")):
        reply: Any = wait(handle(output), ordinary, timeout_s=0).begin()
        assert reply == waited


async def test_a_cancelled_match_replies_nothing() -> None:
    target, pattern, replies = handle(b"needle\n"), Costly(), []

    async def match() -> None:
        replies.append(await run(wait(target, pattern).begin()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(match)
        await begun(pattern)
        nursery.cancel_scope.cancel()
    pattern.go.set()
    assert replies == [] and not target.is_awaited and not target._listeners


async def test_a_call_that_is_cancelled_at_the_end_of_a_match_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reply would take the output from the session."""
    target, pattern, replies = handle(b"needle\n"), Costly(), []
    pattern.go.set()
    take = OutputMatcher.take
    with trio.CancelScope() as scope:

        def take_and_cancel(self: OutputMatcher, *taken: Any) -> bool:
            scope.cancel()
            return take(self, *taken)

        monkeypatch.setattr(OutputMatcher, "take", take_and_cancel)
        replies.append(await run(wait(target, pattern).begin()))
    assert scope.cancelled_caught and replies == []


async def test_a_wait_that_is_not_a_readers_leaves_the_notice_of_the_end() -> None:
    target, pattern = handle(b"nothing\n"), Costly()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, wait(target, pattern, is_reader=False).begin())
        await begun(pattern)
        assert target._listeners and not target.is_awaited
        pattern.go.set()
    assert not target._listeners and target._await_count == 0


async def test_output_is_matched_in_the_loop_for_a_moment(
    fast_matching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=partial(next, count(0.0, pattern_wait._TURN_S)))
    monkeypatch.setattr(pattern_wait, "time", clock)
    waiting = wait(handle(b"x\n" * 500_000), compile_expression("need+le"))
    assert isinstance(waiting.begin(), DeferredReply)
    assert 0 < waiting._matcher.offset <= waiting._matcher.size


class Recorded:
    """A pattern that never matches and records the sizes of the texts that the loop matches."""

    programsize = 10
    pattern = "(?m)needle"

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._thread = threading.get_ident()

    def search(self, text: bytes, pos: int | None = None) -> None:
        if threading.get_ident() == self._thread:
            self.sizes.append(len(text))


async def test_the_carried_line_counts_for_the_size_of_a_text_in_the_loop(
    fast_matching: None,
) -> None:
    target, pattern = handle(b"x" * 20_000), Recorded()
    reply: Any = wait(target, pattern).begin()
    target.append_output(b"x" * 20_000, 0.0)
    reply.then(reply.holds())
    assert pattern.sizes == [20_000, 25_000]


async def test_a_released_echo_is_matched_without_time_to_wait() -> None:
    pattern = Costly("need")
    pattern.go.set()
    reply = wait(handle(b"echo need"), pattern, timeout_s=0, echo=b"echo needle").begin()
    assert await result_of(reply) == "matched"


async def test_a_match_at_the_end_of_known_output_is_decided_on_without_time_to_wait() -> None:
    """Output that comes meanwhile may change such a match."""
    pattern = Costly()
    pattern.go.set()
    target = handle(b"needle".rjust(1_024))
    reply = wait(target, pattern, timeout_s=0).begin()
    target.append_output(b" and more", 0.0)
    assert await run(reply) == "matched" and len(pattern.threads) == 2


async def test_a_line_in_known_output_does_not_end_at_a_slice(fast_matching: None) -> None:
    target = handle(b"<p>item 1423</p>\n" * 100_000)
    target.end(Termination(by=EndedBy("exit")), 1.0)
    for name, waited in (("[0-9]$", "stopped"), (r"item \d+$", "stopped"), (r"\d</p>$", "matched")):
        assert await result_of(wait(target, compile_expression(name)).begin()) == waited


async def test_the_waits_of_a_client_hold_no_other_clients_up() -> None:
    """One text of each client is in the queue for threads."""
    greedy, order, patterns = Client(), list[str](), [Costly() for _ in range(12)]

    async def match(name: str, pattern: Costly, client: object) -> None:
        await run(wait(handle(b"needle\n"), pattern, client=client).begin())
        order.append(name)

    async with trio.open_nursery() as nursery:
        for pattern in patterns[:-1]:
            nursery.start_soon(match, "greedy", pattern, greedy)
        await wait_all_tasks_blocked()
        nursery.start_soon(match, "other", patterns[-1], Client())
        patterns[-1].go.set()
        await begun(patterns[-1])
        while not order:
            await trio.sleep(0)
        for pattern in patterns:
            pattern.go.set()
    assert order[0] == "other" and len(order) == 12


@pytest.mark.parametrize("is_costly", [False, True])
async def test_an_echo_that_breaks_off_is_matched_at_the_end(
    fast_matching: None, is_costly: bool
) -> None:
    pattern: Any = Costly("need") if is_costly else compile_expression("need")
    if isinstance(pattern, Costly):
        pattern.go.set()
    target = handle(b"echo need")
    target.end(Termination(by=EndedBy("exit")), 1.0)
    assert await result_of(wait(target, pattern, echo=b"echo needle").begin()) == "matched"
