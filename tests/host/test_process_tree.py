"""All processes of a handle are found, ended and known gone; no other is touched."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host.cgroup import Cgroup
from haftd.host.launch.launched_process import Exit, LaunchedProcess, leaders
from haftd.host.process import ancestry, rlimit_tag, usage
from haftd.host.process.identity import read_environ, read_stat
from haftd.host.pump import drain
from haftd.host.tree import process_tree
from haftd.host.tree.process_tree import ProcessTree
from haftd.host.tree.reaper import Reaper
from haftd.launch_spec import LaunchSpec
from tests.faults.harness import cgroup_base, needs_cgroup, until
from tests.host.launch_helpers import (
    new_mark,
    output_of,
    plan,
    read_all,
    read_line,
    running,
)
from tests.patience import PATIENCE_S
from tests.processes import is_running
from tests.subreaper import subreaper

ESCAPE = "(setsid {0} sleep 60 & echo $!) ; "
"""A shell that starts a process in a session of its own and ends: a double fork."""


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    with subreaper():
        yield
    for child in ancestry.list_children(os.getpid()):
        stat = read_stat(child)
        assert (stat is not None and stat.state == "Z") or child in _POPENS, f"{child} is left"
        if child not in _POPENS:
            os.waitpid(child, 0)


_POPENS: set[int] = set()


@pytest.fixture
def decoy() -> Iterator[subprocess.Popen[bytes]]:
    """A child of this process outside the handle's tree."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    _POPENS.add(child.pid)
    yield child
    assert child.poll() is None, "a stranger was hit"
    child.kill()
    child.wait()
    _POPENS.discard(child.pid)


def script(text: str, mark: str | None = None, terminal: bool = False) -> LaunchSpec:
    """A shell script with an input, of its own handle."""
    mark = new_mark() if mark is None else mark
    return plan("sh", "-c", text, mark=mark, terminal=terminal, stdin="pipe")


async def read_to(launched: LaunchedProcess, last: str) -> None:
    """Read up to a line; a shell may first report that its command was terminated."""
    while await read_line(launched) != last:
        pass


@pytest.mark.usefixtures("lists", "decoy")
async def test_the_whole_tree_is_ended_and_nothing_else() -> None:
    async with running(script("sleep 60 & sh -c 'sleep 60 & echo up; wait'; wait")) as (it, kin):
        assert await read_line(it) == "up"
        members = kin.members()
        assert len(members) == 4 and it.pid in members
        assert await kin.end(5) == ()
        assert not any(map(is_running, members)) and kin.members() == ()
        assert it.exit == Exit(signal="TERM") and it.pid not in leaders


@pytest.mark.usefixtures("lists", "decoy")
@pytest.mark.parametrize("clear", ["", "env -i"])
async def test_P03_P04_an_orphan_in_its_own_session_is_found(clear: str) -> None:
    """With a cleared environment too: the rlimit tag stays."""
    async with running(script(ESCAPE.format(clear) + "read x")) as (it, kin):
        escaped = int(await read_line(it))
        stat = read_stat(escaped)
        while stat is not None and (stat.session != escaped or stat.parent != os.getpid()):
            await trio.sleep(0.001)
            stat = read_stat(escaped)
        assert stat is not None
        assert kin.members() == tuple(sorted((it.pid, escaped)))
        assert await kin.end(5) == ()
        assert not is_running(escaped)


@pytest.mark.usefixtures("no_brand")
async def test_without_an_rlimit_tag_the_environment_tag_decides() -> None:
    async with running(script(ESCAPE.format("") + "exit 3")) as (it, kin):
        escaped = int(await read_line(it))
        assert await it.wait_exit() == Exit(code=3)
        while kin.members() != (escaped,):
            await trio.sleep(0.001)  # until its session exists: then the group decides no more
            assert is_running(escaped)
        assert await kin.end(5) == ()
        assert not is_running(escaped)


@pytest.mark.usefixtures("no_brand")
async def test_without_tags_the_session_decides() -> None:
    """P13 with a cleared environment."""
    async with running(script("env -i sleep 60 & echo $!; exit 3")) as (it, kin):
        left = int(await read_line(it))
        assert await it.wait_exit() == Exit(code=3)
        assert list(kin.left_behind()) == [left]
        assert await kin.end(5) == ()
        assert not is_running(left)


@pytest.mark.usefixtures("no_brand")
async def test_without_any_evidence_an_earlier_sighting_suffices() -> None:
    inner = "setsid env -i sleep 60 & echo $!; read x"
    async with running(script(f"sh -c '{inner}'; exit 3")) as (it, kin):
        hidden = int(await read_line(it))
        while (stat := read_stat(hidden)) is not None and stat.session != hidden:
            await trio.sleep(0.001)
        while read_environ(hidden):  # until `env` has executed `sleep`
            await trio.sleep(0.001)
        assert len(kin.members()) == 3
        it.close_stdin()
        assert await it.wait_exit() == Exit(code=3)
        assert kin.members() == (hidden,)
        key = kin._seen[hidden]
        kin._seen[hidden] = key + 1  # as of an earlier process of this pid
        assert kin.members() == ()
        kin._seen[hidden] = key
        assert await kin.end(5) == ()
        assert not is_running(hidden)


@needs_cgroup
@pytest.mark.usefixtures("no_brand")
async def test_a_process_in_the_cgroup_belongs_to_the_tree() -> None:
    base = cgroup_base()
    assert base is not None
    mine = Cgroup.create(base, f"kin{os.getpid()}")
    text = ESCAPE.format("env -i") + "exit 3"
    try:
        spec = plan("sh", "-c", text, mark=new_mark(), stdin="pipe")
        async with running(spec, cgroup=mine) as (it, kin):
            escaped = int(await read_line(it))
            assert await it.wait_exit() == Exit(code=3)
            assert kin.members() == (escaped,)
            assert await kin.end(5) == ()
            assert not is_running(escaped) and not mine.is_populated()
    finally:
        mine.empty(5)
        until(mine.remove, "its dead are reaped")


async def test_P13_processes_left_by_the_leader_are_named_and_ended() -> None:
    async with running(script("sleep 61 & echo $!; sleep 62 & echo $!; exit 4")) as (it, kin):
        left = [int(await read_line(it)) for _ in range(2)]
        assert await it.wait_exit() == Exit(code=4)
        named = kin.left_behind()
        assert list(named) == sorted(left)
        while set(kin.left_behind().values()) != {"sleep 61", "sleep 62"}:
            await trio.sleep(0.001)  # until exec
        assert await kin.end(5) == ()
        assert kin.left_behind() == {}
        assert it.exit == Exit(code=4)


@pytest.mark.parametrize("how", ["default", "ignores", "nohup"])
async def test_P23_a_survivor_of_its_terminals_hangup_is_ended(how: str) -> None:
    text = {
        "default": "echo up; exec sleep 60",
        "ignores": "trap '' HUP; echo up; exec sleep 60",
        "nohup": "echo up; exec nohup sleep 60 2>/dev/null </dev/null >/dev/null",
    }[how]
    async with running(script(text, terminal=True)) as (it, kin):
        assert await read_line(it) == "up"
        if how != "default":
            ignored = b"SigIgn:\t0000000000000001"
            while ignored not in Path(f"/proc/{it.pid}/status").read_bytes():
                await trio.sleep(0.001)
        it.close_output()
        if how == "default":
            assert await it.wait_exit() == Exit(signal="HUP")
        else:
            assert kin.members() == (it.pid,)
        assert await kin.end(5) == ()
        assert it.exit == Exit(signal="HUP" if how == "default" else "TERM")


async def test_P26_the_end_is_reported_while_a_process_holds_the_output() -> None:
    async with running(script(ESCAPE.format("") + "exit 0")) as (it, kin):
        escaped = int(await read_line(it))
        with trio.fail_after(PATIENCE_S):
            assert await it.wait_exit() == Exit(code=0)
        assert not drain(output_of(it), lambda _: None), "the output is still held"
        assert list(kin.left_behind()) == [escaped]
        assert await kin.end(5) == ()
        assert await read_all(it) == ""


async def test_P27_a_process_that_ignores_TERM_is_killed_after_the_grace() -> None:
    text = "trap '' TERM; sleep 60 & echo up; while :; do wait; done"
    async with running(script(text)) as (it, kin):
        assert await read_line(it) == "up"
        before = trio.current_time()
        assert await kin.end(0.3) == ()
        assert trio.current_time() - before >= 0.3
        assert it.exit == Exit(signal="KILL")


async def test_without_a_grace_the_tree_is_killed_at_once() -> None:
    async with running(script("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done")) as (
        it,
        kin,
    ):
        assert await read_line(it) == "up"
        assert await kin.end(0) == ()
        assert it.exit == Exit(signal="KILL")


async def test_a_process_that_handles_TERM_has_its_grace() -> None:
    text = "trap 'sleep 0.05; echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done"
    async with running(script(text)) as (it, kin):
        assert await read_line(it) == "up"
        assert await kin.end(10) == ()
        assert it.exit == Exit(code=9)
        await read_to(it, "bye")


async def test_P29_a_stopped_process_ends_within_the_grace() -> None:
    """TERM alone would wait for a SIGCONT."""
    async with running(script("trap 'exit 9' TERM; echo up; kill -STOP $$; sleep 60")) as (it, kin):
        assert await read_line(it) == "up"
        while (stat := read_stat(it.pid)) is not None and stat.state != "T":
            await trio.sleep(0.001)
        before = trio.current_time()
        assert await kin.end(60) == ()
        assert trio.current_time() - before < 30
        assert it.exit == Exit(code=9)


@pytest.mark.parametrize("shell", ["bash", "sh"])
async def test_an_interactive_shell_does_not_use_up_the_grace(shell: str) -> None:
    """It ignores TERM; a hangup ends the shell."""
    async with running(plan(shell, "-i", mark=new_mark(), terminal=True)) as (it, kin):
        assert it.master is not None
        os.write(it.master, b"echo $((40+2))\n")
        while not (await read_line(it)).endswith("42"):
            pass
        before = trio.current_time()
        assert await kin.end(60) == ()
        assert trio.current_time() - before < 30


async def test_of_two_handles_only_the_chosen_one_is_ended() -> None:
    """Both with an escaped process, side by side."""
    text = ESCAPE.format("env -i") + ESCAPE.format("") + "read x"
    async with running(script(text)) as (one, one_kin), running(script(text)) as (two, two_kin):
        for it in (one, two):
            await read_line(it)
            await read_line(it)
        while len(one_kin.members()) > 3 or len(two_kin.members()) > 3:
            await trio.sleep(0.001)  # until the shells between have ended
        mine, theirs = one_kin.members(), two_kin.members()
        assert len(mine) == len(theirs) == 3 and not set(mine) & set(theirs)
        assert await one_kin.end(5) == ()
        assert not any(map(is_running, mine)) and all(map(is_running, theirs))
        assert two_kin.members() == theirs


async def test_no_signal_reaches_a_process_outside_the_tree(
    decoy: subprocess.Popen[bytes],
) -> None:
    """Not even when its pid is on the list: the pid may have been reused."""
    async with running(script("read x")) as (it, kin):
        own = kin._find()[0][it.pid]
        assert kin._send({decoy.pid: own._replace(pid=decoy.pid)}, (signal.SIGKILL,)) == 0
        assert kin._send({it.pid: own}, (signal.SIGCONT,)) == 1
        assert kin._send({it.pid: own._replace(key=own.key - 1)}, (signal.SIGKILL,)) == 0
        assert is_running(it.pid)


WAITING = {"cmdline", "environ", "exe", "io", "smaps_rollup", "stat", "syscall", "wchan"}
"""Files of /proc that wait for a process in execve(2) or fork(2)."""


async def test_nothing_waits_for_a_starved_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stat` of a bomb's process that was in execve(2) once took 13 s (Linux 6.18)."""
    opened: set[str] = set()

    def recording(opener: Callable[..., Any]) -> Callable[..., Any]:
        def open_recorded(path: object, *args: object, **options: object) -> Any:
            opened.add(str(path))
            return opener(path, *args, **options)

        return open_recorded

    text = "(sleep 60 & echo $!); sh -c 'sleep 60; :' & read x"
    async with running(script(text)) as (it, kin):
        orphan = int(await read_line(it))
        while len(kin.members()) < 4:
            await trio.sleep(0.001)  # until the second shell has forked
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", recording(os.open))
            patch.setattr("builtins.open", recording(open))
            with monkeypatch.context() as counting:
                counting.setitem(usage.ended, 1, 0.0)
                assert it.reap() is None
            members = kin.members()
            assert orphan in members and usage.count_threads(members) == len(members)
            assert usage.read_clocks_s(members) > 0
            assert not it.is_exiting() and not ancestry.is_suspended(it.pid, it.pid)
            assert kin.signal(signal.SIGCONT) == len(members)
            assert kin.signal_group(signal.SIGCONT) == len(members)
            Reaper().reap()
            assert await kin.end(5) == ()
    assert f"/proc/{orphan}/task/{orphan}/children" in opened
    assert not [path for path in opened if path.rpartition("/")[2] in WAITING]


async def test_a_signal_goes_to_all_or_to_one_group() -> None:
    trap = "trap 'echo $0; exit' USR1; echo up; while :; do sleep 0.005; done"
    text = 'setsid sh -c "$1" far & sh -c "$1" near & read x'
    spec = plan("sh", "-c", text, "sh", trap, mark=new_mark(), stdin="pipe")
    async with running(spec) as (it, kin):
        signal_at = [await read_line(it), await read_line(it)]
        assert signal_at == ["up", "up"]
        assert kin.signal(signal.SIGCONT) >= 3
        far = [p for p in kin.members() if (s := read_stat(p)) and s.group != it.pid]
        leader = next(p for p in far if (s := read_stat(p)) and s.group == p)
        assert kin.signal_group(signal.SIGUSR1, leader) >= 1
        await read_to(it, "far")
        assert kin.signal_group(signal.SIGCONT) >= 2


async def test_gone_waits_for_the_last_process() -> None:
    async with running(script("sleep 60 & echo $!; sleep 60 & echo $!; exit")) as (it, kin):
        left = [int(await read_line(it)) for _ in range(2)]
        await it.wait_exit()
        done: list[bool] = []

        async def wait() -> None:
            await kin.wait_ended()
            done.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for pid in left:
                await wait_all_tasks_blocked()
                assert not done
                os.kill(pid, signal.SIGKILL)
        assert kin.members() == ()


async def test_a_single_look_without_a_process_is_not_believed_beside_a_stranger(
    monkeypatch: pytest.MonkeyPatch, decoy: subprocess.Popen[bytes]
) -> None:
    """A stranger without a tag may be the handle's process that has just left a child."""
    async with running(script("sleep 60 & echo $!; exit 0")) as (it, kin):
        left = int(await read_line(it))
        await it.wait_exit()
        misses = 1

        def only_the_decoy(pid: int, threads: Sequence[int | str] = ()) -> list[int]:
            return [decoy.pid]

        def miss() -> ancestry.ChildLister:
            nonlocal misses
            misses -= 1
            return ancestry.list_children if misses < 0 else only_the_decoy

        monkeypatch.setattr(process_tree, "make_child_lister", miss)
        with trio.move_on_after(0.05) as scope:
            await kin.wait_ended()
        assert scope.cancelled_caught and is_running(left)
        misses = 1
        assert await kin.end(0) == ()
        assert not is_running(left)


@pytest.mark.usefixtures("lists")
async def test_a_single_look_is_enough_among_the_processes_of_other_handles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[str]()
    look = ProcessTree._find

    def count(self: ProcessTree) -> object:
        looks.append(self.mark)
        return look(self)

    mark = new_mark()
    beside = mark.rpartition(".")[0] + ".77"
    helper = subprocess.Popen(["sleep", "60"])
    _POPENS.add(helper.pid)
    ancestry.helpers.add(helper.pid)
    async with (
        running(script(ESCAPE.format("") + "read x", beside)) as (other, others),
        running(script("exit 3", mark)) as (it, kin),
    ):
        escaped = int(await read_line(other))
        await it.wait_exit()
        monkeypatch.setattr(ProcessTree, "_find", count)
        await kin.wait_ended()
        assert kin.members() == () and kin.left_behind() == {}
        assert looks.count(mark) == 3, "one that looks, and two that know"
        monkeypatch.undo()
        assert escaped in others.members()
        assert await others.end(0) == ()
    ancestry.helpers.discard(helper.pid)
    helper.kill()
    helper.wait()
    _POPENS.discard(helper.pid)


class Steps(trio.abc.Instrument):
    """The number of steps that tasks have taken."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@pytest.mark.parametrize("call", ["gone", "end"])
async def test_between_two_looks_other_tasks_have_a_turn(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, looks = Steps(), list[int]()

    def nothing(_: object) -> tuple[dict[int, object], bool]:
        looks.append(steps.count)
        return {}, True

    async with running(script("exit 0")) as (it, kin):
        await it.wait_exit()
        with monkeypatch.context() as patched:
            patched.setattr(process_tree.ProcessTree, "_find", nothing)
            trio.lowlevel.add_instrument(steps)
            await (kin.wait_ended() if call == "gone" else kin.end(0))
            trio.lowlevel.remove_instrument(steps)
    assert len(looks) >= 2
    assert len(set(looks)) >= 2, "both looks within one step"


async def test_two_trees_are_not_searched_in_one_pass_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten of a hundred processes each would hold up the loop for the sum of their searches."""
    looks: list[tuple[int, ProcessTree]] = []
    look = ProcessTree._find

    class Passes(trio.abc.Instrument):
        count = 0

        def after_io_wait(self, timeout: float) -> None:
            self.count += 1

    def note(tree: ProcessTree) -> Any:
        looks.append((passes.count, tree))
        return look(tree)

    passes = Passes()
    async with running(script("read x")) as (_, one), running(script("read x")) as (_, other):
        trio.lowlevel.add_instrument(passes)
        with monkeypatch.context() as patch:
            patch.setattr(ProcessTree, "_find", note)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.end, 5)
                nursery.start_soon(other.end, 5)
        trio.lowlevel.remove_instrument(passes)
    assert {tree for _, tree in looks} == {one, other}
    assert len({number for number, _ in looks}) == len(looks)


async def test_gone_takes_the_leaders_status() -> None:
    async with running(script("exit 6")) as (it, kin):
        await kin.wait_ended()
        assert it.exit == Exit(code=6)


async def test_nothing_is_inspected_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = ProcessTree._find

    def count(self: ProcessTree) -> object:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(ProcessTree, "_find", count)
    async with running(script("read x")) as (it, kin):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kin.wait_ended)
            await wait_all_tasks_blocked(0.05)
            assert looks == 1
            it.close_stdin()
        assert looks <= 4


async def test_an_unsignallable_process_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a program of another user (setuid)."""

    def refuse(*_: object) -> bool:
        raise PermissionError

    async with running(script("sleep 60 & echo $!; read x")) as (it, kin):
        other = int(await read_line(it))
        with monkeypatch.context() as patch:
            patch.setattr(process_tree, "send_signal", refuse)
            before = trio.current_time()
            assert await kin.end(0.1) == tuple(sorted((it.pid, other)))
            assert trio.current_time() - before < 2
        assert await kin.end(5) == ()


async def test_an_unkillable_process_is_named_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in an uninterruptible sleep."""
    async with running(script("read x")) as (it, kin):
        with monkeypatch.context() as patch:
            patch.setattr(process_tree, "send_signal", lambda *_: True)
            assert await kin.end(0.05, kill_s=0.3) == (it.pid,)
        assert it.exit is None


async def test_the_slow_ends_of_killed_processes_are_awaited(
    monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    """Of a hundred at the end of a busy processor's queue, one ended in each second."""
    async with running(script("read x")) as (it, kin):
        (found,) = kin._find()[0].values()
        left = [dict.fromkeys(range(count), found) for count in (3, 2, 1, 0, 0)]

        async def wait(*_: object) -> None:
            mock_clock.jump(4)

        with monkeypatch.context() as patch:
            patch.setattr(ProcessTree, "_find", lambda _: (left.pop(0), True))
            patch.setattr(ProcessTree, "_send", lambda *_: 1)
            patch.setattr(ProcessTree, "_wait", wait)
            kin._seen = dict.fromkeys(range(3), 0)
            assert await kin.end(0) == () and not left
        assert it.exit is None


async def test_P32_without_descriptors_an_unseen_end_is_not_reported_gone() -> None:
    async with running(script("sleep 60 & echo $!; read x")) as (it, kin):
        other = int(await read_line(it))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with trio.move_on_after(0.05) as scope:
                await kin.wait_ended()
            assert scope.cancelled_caught
            assert await kin.end(0, kill_s=0.1) != ()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert it.exit == Exit(signal="KILL"), "the leader's descriptor was there all along"
        assert is_running(other)
        assert await kin.end(5) == ()


async def test_a_large_tree_is_ended_at_once() -> None:
    text = "i=0; while [ $i -lt 150 ]; do sleep 60 & i=$((i+1)); done; echo up; wait"
    async with running(script(text)) as (it, kin):
        assert await read_line(it) == "up"
        assert len(kin.members()) == 151
        assert await kin.end(10) == ()
        assert kin.members() == ()


async def test_P05_an_endless_fork_chain_is_ended_or_named(tmp_path: Path) -> None:
    """Without a cgroup a fork chain can escape; then the tree must not be reported gone."""
    hop = tmp_path / "hop"
    hop.write_text('#!/bin/sh\n"$0" &\n')
    hop.chmod(0o755)
    mark = new_mark()
    async with running(plan(str(hop), mark=mark)) as (it, kin):
        async with trio.open_nursery() as nursery:
            await nursery.start(Reaper().run)
            await it.wait_exit()
            left = await kin.end(0, kill_s=5)
            alive = [
                pid
                for pid in ancestry.list_children(os.getpid())
                if rlimit_tag.read_tag(pid) == rlimit_tag.encode(mark)
            ]
            assert left or not any(map(is_running, alive))
            hop.unlink()
            assert await kin.end(0, kill_s=5) == ()
            nursery.cancel_scope.cancel()


async def test_processes_of_a_daemon_within_a_handle_end_with_the_handle() -> None:
    """Its own handles carry their own tags."""
    inner = (
        "import os, sys, time\n"
        "from haftd.host.process.ancestry import become_subreaper\n"
        "from haftd.host.launch.spawn import launch\n"
        "from haftd.launch_spec import LaunchSpec\n"
        "become_subreaper()\n"
        "env = {'PATH': '/bin:/usr/bin', 'HAFT_HANDLE': '00000000000a.00000000000b.1'}\n"
        "it = launch(LaunchSpec(('sleep', '60'), '/', env), lambda _: None)\n"
        "print(it.pid, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    spec = plan(sys.executable, "-c", inner, mark=new_mark(), stdin="pipe")
    async with running(spec) as (it, kin):
        nested = int(await read_line(it))
        assert kin.members() == tuple(sorted((it.pid, nested)))
        assert await kin.end(10) == ()
        assert not is_running(nested)


@pytest.mark.parametrize("count", [3, 9])
async def test_of_several_processes_at_work_only_the_names_are_read(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line of a bomb's process that was forking once took 8 s."""
    text = f"i=0; while [ $i -lt {count} ]; do sleep 60 & i=$((i+1)); done; echo up; read x"
    async with running(script(text)) as (it, kin):
        assert await read_line(it) == "up"
        while set(kin.left_behind().values()) != {"sleep 60"}:
            await trio.sleep(0.001)
        monkeypatch.setattr(process_tree, "_is_at_work", lambda pid: True)
        command = "[sleep]" if count == 9 else "sleep 60"
        assert [*kin.left_behind().values()] == [command] * count


def test_a_command_is_one_short_printable_line() -> None:
    child = subprocess.Popen(
        ["sh", "-c", "read x; exit", "a\n\x1b[31m" + "x" * 1000], stdin=subprocess.PIPE
    )
    try:
        while not (line := process_tree.read_command(child.pid)).startswith("sh"):
            time.sleep(0.001)
        assert line.isprintable() and len(line) == 120
    finally:
        child.communicate()
    assert process_tree.read_command(child.pid) == ""
