from __future__ import annotations

import threading
from collections.abc import Collection
from itertools import pairwise
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from haft_protocol.states import EndedBy
from haftd.core.handles import Handle, HandleSettings
from haftd.core.termination import Termination
from haftd.notice_settings import NoticePattern, NoticeSettings
from haftd.notices import pattern_scanner
from haftd.notices.output_watcher import BETWEEN_S, OutputWatcher
from haftd.notices.pattern_scanner import PatternMatches
from haftd.regex import Match, compile_expression
from tests.core.disks import make
from tests.patience import PATIENCE_S

Told = list[tuple[float, dict[str, int]]]


def handle(switches: NoticeSettings) -> Handle:
    handle = Handle(
        id="h",
        tool="t",
        session="s",
        generation=1,
        spool=make(1 << 22),
        now=0.0,
        settings=HandleSettings(notify=switches),
    )
    handle.start(0.0)
    return handle


def told_by(reports: Told, began: float) -> object:
    def tell(handle: Handle, matches: Collection[PatternMatches]) -> None:
        found = {match.pattern.name: match.count for match in matches}
        reports.append((round(trio.current_time() - began, 3), found))

    return tell


PATTERNS = NoticeSettings(patterns=(NoticePattern("e", "error"), NoticePattern("w", "warning")))


async def test_a_handle_without_rules_is_not_listened_to(nursery: trio.Nursery) -> None:
    watching = OutputWatcher(nursery, lambda handle, matches: None)
    target = handle(NoticeSettings(on_success=False))
    watching.follow(target)
    assert len(watching) == 0 and target._listeners == ()


async def test_matches_in_quick_succession_are_notified_together(
    nursery: trio.Nursery, autojump_clock: MockClock, fast_matching: None
) -> None:
    reports: Told = []
    watching = OutputWatcher(nursery, told_by(reports, trio.current_time()))  # type: ignore[arg-type]
    target = handle(PATTERNS)
    watching.follow(target)
    for _ in range(50):
        target.append_output(b"an error\na warning\n", 0.0)
        await trio.sleep(0.01)
    await trio.sleep(1)
    assert sum(found["e"] for _, found in reports) == sum(found["w"] for _, found in reports) == 50
    times = [at for at, _ in reports]
    assert times[0] == 0.0 and len(times) <= 7
    assert all(b - a >= BETWEEN_S - 0.001 for a, b in pairwise(times))


async def test_the_end_is_scanned_before_the_handle_is_released(
    nursery: trio.Nursery, autojump_clock: MockClock, fast_matching: None
) -> None:
    reports: Told = []
    watching = OutputWatcher(nursery, told_by(reports, trio.current_time()))  # type: ignore[arg-type]
    target = handle(PATTERNS)
    watching.follow(target)
    target.append_output(b"error\n", 0.0)
    await trio.sleep(0.01)
    target.append_output(b"x\n" * 400_000 + b"last error", 0.0)
    target.end(Termination(by=EndedBy("exit")), 1.0)
    await trio.sleep(1)
    assert sum(found["e"] for _, found in reports) == 2
    assert len(watching) == 0 and target._listeners == ()


async def test_a_flood_does_not_prevent_scans_of_other_handles(
    nursery: trio.Nursery,
) -> None:
    reports: list[Handle] = []
    watching = OutputWatcher(nursery, lambda handle, matches: reports.append(handle))
    flood, other = handle(PATTERNS), handle(PATTERNS)
    flood.append_output(b"nothing here\n" * 300_000 + b"error\n", 0.0)
    for target in (flood, other):
        watching.follow(target)
    other.append_output(b"error\n", 0.0)
    while len(reports) < 2:
        await trio.sleep(0)
    assert reports == [other, flood]


async def test_between_two_scans_of_a_flood_other_tasks_have_a_turn(nursery: trio.Nursery) -> None:
    reports: list[Handle] = []
    watching = OutputWatcher(nursery, lambda handle, matches: reports.append(handle))
    flood = handle(PATTERNS)
    flood.append_output(b"nothing here\n" * 300_000 + b"error\n", 0.0)
    watching.follow(flood)
    turns = 0
    while not reports:
        turns += 1
        await trio.sleep(0)
    assert turns >= flood.spool.end // 65_536


async def test_the_watcher_rests_as_long_as_it_has_scanned(
    nursery: trio.Nursery, autojump_clock: MockClock, fast_matching: None
) -> None:
    began: list[float] = []

    def tell(handle: Handle, matches: Collection[PatternMatches]) -> None:
        began.append(trio.current_time())
        autojump_clock.jump(3)

    watching = OutputWatcher(nursery, tell)
    first = trio.current_time()
    for target in (handle(PATTERNS), handle(PATTERNS), handle(PATTERNS)):
        watching.follow(target)
        target.append_output(b"error\n", 0.0)
    while len(began) < 3:
        await trio.sleep(0.25)
    assert [round(at - first) for at in began] == [0, 6, 12]


async def test_between_two_scans_of_short_outputs_other_tasks_have_a_turn(
    nursery: trio.Nursery,
) -> None:
    class Turns(trio.abc.Instrument):
        """Counts the loop's turns: in each, every runnable task runs, in any order."""

        count = 0

        def before_io_wait(self, timeout: float) -> None:
            self.count += 1

    turns, told_in = Turns(), list[int]()
    trio.lowlevel.add_instrument(turns)
    watching = OutputWatcher(nursery, lambda handle, matches: told_in.append(turns.count))
    for target in (handle(PATTERNS), handle(PATTERNS), handle(PATTERNS)):
        watching.follow(target)
        target.append_output(b"error\n", 0.0)
    while len(told_in) < 3:
        await trio.sleep(0)
    trio.lowlevel.remove_instrument(turns)
    assert told_in == sorted(set(told_in))


async def test_a_costly_pattern_holds_no_other_task_up(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    begun, go = threading.Event(), threading.Event()
    compiled = compile_expression("error")

    def search(text: bytes, pos: int) -> Match | None:
        begun.set()
        assert go.wait(PATIENCE_S), "the loop has no turn during the match"
        return compiled.search(text, pos)

    costly = SimpleNamespace(programsize=4_000, search=search)
    monkeypatch.setattr(pattern_scanner, "compile_expression", lambda text, **how: costly)
    reports: list[int] = []
    watching = OutputWatcher(
        nursery, lambda handle, matches: reports.extend(match.count for match in matches)
    )
    target = handle(NoticeSettings(patterns=(NoticePattern("e", "error"),)))
    target.append_output(b"an error\n", 0.0)
    watching.follow(target)
    await trio.to_thread.run_sync(begun.wait, PATIENCE_S)
    target.append_output(b"an error\n", 0.0)
    target.end(Termination(by=EndedBy("exit")), 1.0)
    go.set()
    with trio.fail_after(PATIENCE_S):
        while len(watching):
            await trio.sleep(0.01)
    assert sum(reports) == 2 and target._listeners == ()


async def test_the_carried_line_counts_for_the_size_of_a_slice_in_the_loop(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, fast_matching: None
) -> None:
    sizes: list[int] = []
    pattern = SimpleNamespace(programsize=10, search=lambda text, pos: sizes.append(len(text)))
    monkeypatch.setattr(pattern_scanner, "compile_expression", lambda text, **how: pattern)
    watching = OutputWatcher(nursery, lambda handle, matches: None)
    target = handle(NoticeSettings(patterns=(NoticePattern("e", "error"),)))
    target.append_output(b"x" * 100_000, 0.0)
    target.end(Termination(by=EndedBy("exit")), 1.0)
    watching.follow(target)
    with trio.fail_after(PATIENCE_S):
        while len(watching):
            await trio.sleep(0)
    assert len(sizes) > 2 and max(sizes) == 25_000


async def test_a_fault_in_notifying_affects_its_handle_only(nursery: trio.Nursery) -> None:
    good: list[Handle] = []

    def tell(handle: Handle, matches: Collection[PatternMatches]) -> None:
        if handle is bad:
            raise ZeroDivisionError
        good.append(handle)

    watching = OutputWatcher(nursery, tell)
    bad, other = handle(PATTERNS), handle(PATTERNS)
    for target in (bad, other):
        watching.follow(target)
        target.append_output(b"error\n", 0.0)
    with trio.fail_after(PATIENCE_S):
        while not good:
            await trio.sleep(0.01)
    assert good == [other] and len(watching) == 1 and bad._listeners == ()
