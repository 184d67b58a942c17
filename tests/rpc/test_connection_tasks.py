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
