from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import trio
import trio.testing

from haftd.host.tree.survivors import Survivors
from tests.patience import PATIENCE_S
from tests.processes import wait_for_environment

MARK = "aaaaaaaaaaaa.bbbbbbbbbbbb.7"


@pytest.fixture(params=[MARK, f"{MARK}1", ""], ids=["ours", "another handle's", "a stranger"])
def marked(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[bytes], bool]]:
    """A process, and its membership in the handle."""
    env = {**os.environ, "HAFT_HANDLE": request.param}
    with subprocess.Popen(["sleep", "300"], env=env) as child:
        wait_for_environment(child.pid)
        yield child, request.param == MARK
        child.kill()


def test_a_reused_pid_is_not_held(
    marked: tuple[subprocess.Popen[bytes], bool],
) -> None:
    child, is_ours = marked
    remains = Survivors([child.pid], MARK)
    try:
        assert list(remains.find_living()) == [child.pid] * is_ours
        remains.kill()
        if is_ours:
            assert child.wait(20) == -signal.SIGKILL
        else:
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == -signal.SIGTERM
        assert remains.find_living() == {}
    finally:
        remains.close()


def pidfds() -> int:
    """Count this process's open pidfds."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum("pidfd" in link for link in links)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start programs of the handle, which end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def one(*argv: str, mark: str = MARK) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv, env={**os.environ, "HAFT_HANDLE": mark}))
        wait_for_environment(started[-1].pid)
        return started[-1]

    yield one
    for child in started:
        child.kill()
        child.wait()


async def test_the_end_of_all_survivors_is_awaited_and_gone_ones_are_skipped(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    before = pidfds()
    gone, stranger = start("true"), start("sleep", "300", mark="")
    first, last = start("sleep", "300"), start("sleep", "300")
    gone.wait()
    remains = Survivors([gone.pid, stranger.pid, first.pid, last.pid], MARK)
    assert remains.find_living().keys() == {first.pid, last.pid}
    ended: list[bool] = []

    async def wait() -> None:
        await remains.wait_ended()
        ended.append(True)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for child in (first, last):
                await trio.testing.wait_all_tasks_blocked()
                assert not ended
                child.kill()
                child.wait()
    assert ended and remains.find_living() == {}
    remains.close()
    assert pidfds() == before
