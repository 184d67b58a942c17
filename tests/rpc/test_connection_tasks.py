"""The tasks of one connection, in the nursery of all."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from haftd.rpc.connection_tasks import ConnectionTasks


def fail_test(fault: Exception) -> None:
    pytest.fail(repr(fault))


async def test_the_end_cancels_all_tasks_and_waits_until_they_have_cleared_up() -> None:
    cleared: list[str] = []

    async def clear_up(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            await trio.lowlevel.cancel_shielded_checkpoint()
            cleared.append(name)

    async with trio.open_nursery() as nursery:
        tasks = ConnectionTasks(nursery, fail_test)
        for name in "ab":
            tasks.start_soon(clear_up, name)
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await tasks.end()
        assert sorted(cleared) == ["a", "b"]
        tasks.start_soon(clear_up, "late")
        await tasks.end()
        assert cleared[2:] == ["late"]
        assert not nursery.child_tasks


async def test_a_task_that_starts_after_the_end_is_cancelled() -> None:
    async with trio.open_nursery() as nursery:
        tasks = ConnectionTasks(nursery, fail_test)
        await tasks.end()
        tasks.start_soon(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_the_end_waits_for_a_task_that_starts_as_the_last_one_exits() -> None:
    cleared: list[str] = []
    gate, may_clear_up = trio.Event(), trio.Event()

    async def clear_up() -> None:
        with trio.CancelScope(shield=True):
            await may_clear_up.wait()
        cleared.append("late")

    class StartLate(trio.abc.Instrument):
        """Start a task once the only one has exited, before the waiting end goes on."""

        def task_exited(self, task: trio.lowlevel.Task) -> None:
            trio.lowlevel.remove_instrument(self)
            tasks.start_soon(clear_up)

    async def last() -> None:
        with trio.CancelScope(shield=True):
            await gate.wait()
        trio.lowlevel.add_instrument(StartLate())

    async def end() -> None:
        await tasks.end()
        cleared.append("end")

    async with trio.open_nursery() as nursery:
        tasks = ConnectionTasks(nursery, fail_test)
        tasks.start_soon(last)
        nursery.start_soon(end)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        may_clear_up.set()
    assert cleared == ["late", "end"]


async def test_without_tasks_the_end_is_no_checkpoint() -> None:
    async with trio.open_nursery() as nursery:
        with trio.testing.assert_no_checkpoints():
            await ConnectionTasks(nursery, fail_test).end()


async def test_a_fault_is_reported_and_leaves_the_tasks_of_others_alone() -> None:
    faults: list[Exception] = []

    async def fail() -> None:
        raise ValueError("planted")

    async with trio.open_nursery() as nursery:
        ours, others = (ConnectionTasks(nursery, faults.append) for _ in range(2))
        others.start_soon(trio.sleep_forever)
        ours.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        assert [str(fault) for fault in faults] == ["planted"]
        assert len(nursery.child_tasks) == 1
        await others.end()
