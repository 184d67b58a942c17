"""A crowd in a cgroup is signalled while frozen, and killed before any walk of its processes."""

from __future__ import annotations

import itertools
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from haftd.host.cgroup import Cgroup
from haftd.host.tree.process_tree import ProcessTree
from tests.faults.harness import cgroup_base, needs_cgroup
from tests.host.launch_helpers import new_mark, plan, running
from tests.subreaper import subreaper


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    with subreaper():
        yield


BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0: os.setsid()
    print(flush=True)
time.sleep(300)
"""


@needs_cgroup
async def test_P06_a_crowd_in_a_cgroup_is_never_walked_while_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four hundred forking processes held the loop for seven seconds of a walk, with a cgroup as
    well."""
    base = cgroup_base()
    assert base is not None
    mine = Cgroup.create(base, f"crowd.{secrets.token_hex(8)}")
    spec = plan(sys.executable, "-S", "-c", BOMB, mark=new_mark())
    try:
        async with running(spec, cgroup=mine) as (_, kin):
            while len(mine.procs()) < 64:
                await trio.sleep(0.01)
            walked: list[bool] = []
            look = ProcessTree._find

            def looking(one: ProcessTree) -> object:
                walked.append(not mine.is_populated() or mine.is_frozen())
                return look(one)

            monkeypatch.setattr(ProcessTree, "_find", looking)
            assert await kin.end(0.05) == ()
            assert len(walked) > 1 and all(walked)
    finally:
        mine.empty(5)
        mine.remove()


class Crowded:
    """A cgroup with a simulated crowd, and the ordered record of operations."""

    def __init__(self, *, halts_after: int = 3, ends_after: int = 3, dies_after: int = 1) -> None:
        self.done: list[str] = []
        self.left = {"halts": halts_after, "ends": ends_after, "dies": dies_after}

    def procs(self) -> list[int]:
        return list(range(1, 100))

    def _count(self, kind: str) -> bool:
        self.left[kind] -= 1
        return self.left[kind] < 0

    def is_frozen(self) -> bool:
        self.done.append("halts?")
        return self._count("halts")

    def is_populated(self) -> bool:
        return not self._count("dies" if "kill" in self.done else "ends")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.done.append("freeze")
        yield
        self.done.append("thaw")

    def kill(self) -> None:
        self.done.append("kill")

    def _walk(self) -> tuple[dict[int, object], bool]:
        self.done.append("walk")
        return {}, True

    async def end(self, monkeypatch: pytest.MonkeyPatch, grace_s: float) -> list[str]:
        """End the crowd; return the operations, without repetition."""
        it = cast(Any, SimpleNamespace(pid=1, reap=lambda: None))
        kin = ProcessTree(it, "", cast(Any, self))
        monkeypatch.setattr(ProcessTree, "_find", lambda kin: self._walk())
        monkeypatch.setattr(
            ProcessTree, "_request_stop", lambda kin, found: self.done.append("ask")
        )
        await kin.end(grace_s)
        return [one for one, _ in itertools.groupby(self.done)]


async def test_a_crowd_is_signalled_while_frozen_and_has_its_grace(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    crowd = Crowded()
    assert await crowd.end(monkeypatch, 5) == ["freeze", "halts?", "walk", "ask", "thaw", "walk"]
    assert crowd.done.count("halts?") == 4


async def test_a_crowd_is_killed_after_its_grace_before_it_is_walked(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    crowd = Crowded(ends_after=10**9, dies_after=2)
    began = trio.current_time()
    ended = await crowd.end(monkeypatch, 5)
    assert ended == ["freeze", "halts?", "walk", "ask", "thaw", "kill", "walk"]
    assert 5 <= trio.current_time() - began < 5.2


async def test_a_crowd_that_does_not_freeze_is_still_signalled(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    crowd = Crowded(halts_after=10**9)
    ended = await crowd.end(monkeypatch, 5)
    assert ended == ["freeze", "halts?", "walk", "ask", "thaw", "walk"]


async def test_a_crowd_without_grace_is_killed_at_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    crowd = Crowded(ends_after=10**9)
    assert await crowd.end(monkeypatch, 0) == ["kill", "walk"]
