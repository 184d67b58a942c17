"""A process on pipes."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import trio

from haftd.host import readiness
from haftd.host.tree.process_tree import ProcessTree
from haftd.runtimes.base import Call, Input, InputRefused, StartFailed
from haftd.runtimes.process import child
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.testing import Performance, Recorder, perform
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit

stdio = ProcessRuntime()
_HOLDS = "import time; x = bytes(1) * 40_000_000; time.sleep(60)"


async def run(call: Call) -> Recorder:
    """Run `call` to its end."""
    port = Recorder()
    with trio.fail_after(PATIENCE_S):
        await stdio.run(call, port)
    return port


async def started(nursery: trio.Nursery, call: Call, ready: bytes = b"") -> Performance:
    """Start `call` and wait for `ready`."""
    performance = await perform(nursery, stdio, call)
    await performance.port.until(lambda: ready in performance.port.output)
    return performance


async def test_both_streams_keep_their_order() -> None:
    port = await run(kit.shell("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"))
    expected = "".join(f"out {i}\nerr {i}\n" for i in range(1, 6))
    assert port.output.decode() == expected


async def test_RB_006_final_output_of_a_short_run_is_kept() -> None:
    for _ in range(100):
        port = await run(kit.shell("echo boom >&2; exit 1"))
        assert port.output == b"boom\n"
        assert port.end == termination(code=1)
    port = await run(kit.python("import no_such_module_x"))
    assert b"no_such_module_x" in port.output


async def test_RB_001_a_child_that_holds_the_pipe_does_not_delay_the_end() -> None:
    for script in ("sleep 30 & echo done", "sleep 30 </dev/null >/dev/null & echo done"):
        before = kit.fds()
        began = time.monotonic()
        async with trio.open_nursery() as nursery:
            performance = await started(nursery, kit.shell(script))
            await performance.port.until(lambda: performance.port.end)  # noqa: B023
            assert time.monotonic() - began < 10
            assert performance.port.output == b"done\n"
            assert performance.port.end == termination(code=0)
            assert not performance.port.is_end_complete
            await performance.port.until(lambda: performance.port.is_complete)  # noqa: B023
            (left,) = performance.control.left_behind()
            with trio.fail_after(PATIENCE_S):
                while left.command.startswith("sh "):  # forked, and not executed yet
                    await trio.sleep(0.001)
                    (left,) = performance.control.left_behind()
            assert left.command == "sleep 30"
            # Two pidfds are held, of the leader and of the process left behind, and no pipe.
            assert kit.fds() <= before + 2
            performance.scope.cancel()
            await performance.finish()
        assert kit.lives(performance.call) == []
        assert kit.fds() == before


async def test_RB_002_a_ticker_left_behind_adds_nothing_after_detachment() -> None:
    script = "(while :; do echo tick; sleep 0.1; done) & sleep 0.3; echo fg-done"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script))
        await performance.port.until(lambda: performance.port.is_complete)
        assert b"fg-done\n" in performance.port.output
        assert performance.port.end == termination(code=0)
        size = len(performance.port.output)
        # Its next tick meets a closed pipe and ends the ticker, and with that the handle.
        await performance.finish()
        assert len(performance.port.output) == size
    assert kit.lives(performance.call) == []


async def test_no_closed_descriptor_is_unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another handle's by then, whose output would be read no more."""
    unwatched = []
    unwatch = readiness.unwatch

    def checked(fd: int) -> None:
        os.fstat(fd)
        unwatched.append(fd)
        unwatch(fd)

    monkeypatch.setattr(readiness, "unwatch", checked)
    port = await run(kit.shell("sleep 0.05 & echo up"))
    assert port.end == termination(code=0) and unwatched


async def test_output_before_and_during_an_abort_is_kept() -> None:
    script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script), b"ready\n")
        performance.scope.cancel()
        await performance.finish()
    assert performance.port.output.startswith(b"ready\n")
    assert performance.port.output.endswith(b"cleaned\n")
    assert performance.port.end == termination(code=0, by="lost")


async def test_an_abort_reads_on_while_cleanup_output_exceeds_the_pipe() -> None:
    script = (
        "import os, signal\n"
        "def leave(*_):\n"
        "    for _ in range(3000): os.write(1, b'x' * 1000)\n"
        "    os._exit(5)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.python(script), b"ready\n")
        performance.port.grace_s = 10
        performance.scope.cancel()
        await performance.finish()
    assert len(performance.port.output) == 3_000_006
    assert performance.port.end == termination(code=5, by="lost")


async def test_a_stopped_process_receives_TERM() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.shell("echo ready; kill -STOP $$; sleep 60")
        performance = await started(nursery, call, b"ready\n")
        performance.port.grace_s = 10
        with trio.fail_after(PATIENCE_S):
            performance.scope.cancel()
            await performance.finish()
    assert performance.port.end == termination(signal="TERM", by="lost")


async def test_an_abort_ends_processes_in_their_own_sessions() -> None:
    script = (
        "setsid sh -c 'trap \"\" TERM; sleep 1000' & (sleep 1000 & sleep 1000 &) ; echo ready; wait"
    )
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script), b"ready\n")
        assert len(performance.control.members()) >= 4
        performance.port.grace_s = 0.2
        performance.scope.cancel()
        await performance.finish()
    assert kit.lives(performance.call) == []
    assert performance.port.end is not None
    assert performance.port.end.unconfirmed == ()


async def test_RB_043_an_abort_that_races_with_the_exit_gives_one_or_the_other() -> None:
    seen = set()
    for pause in itertools.chain(range(20), (0, 0, 0)):
        async with trio.open_nursery() as nursery:
            performance = await perform(nursery, stdio, kit.shell("sleep 0.01; exit 7"))
            await trio.sleep(pause / 1000)
            performance.scope.cancel()
            await performance.finish()
        end = performance.port.end
        assert end is not None
        seen.add(end)
    assert seen <= {termination(code=7), termination(signal="TERM", by="lost")}


async def test_a_process_that_exited_before_the_signal_has_ended_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell blocks TERM for a moment after its command, and looks as if it handled the signal."""
    end = ProcessTree.end

    async def late(group: ProcessTree, grace_s: float) -> tuple[int, ...]:
        while not group.leader.is_exiting():
            await trio.sleep(0.001)
        return await end(group, grace_s)

    monkeypatch.setattr(child, "_masks_with_term", lambda pid: {b"SigCgt"})
    monkeypatch.setattr(ProcessTree, "end", late)
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell("echo up; sleep 0.2; exit 7"), b"up")
        performance.scope.cancel()
        await performance.finish()
    assert performance.port.end == termination(code=7)


@pytest.mark.parametrize("limits", [{}, {"memory": 1e9}])
async def test_an_abort_signals_once_and_reports_survivors(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, float]
) -> None:
    """An unkillable process costs the bound of one attempt, also with summed limits."""
    attempts: list[float] = []
    end = ProcessTree.end

    async def refused(group: ProcessTree, grace_s: float) -> tuple[int, ...]:
        attempts.append(grace_s)
        await end(group, grace_s)
        return (group.leader.pid,)

    monkeypatch.setattr(ProcessTree, "end", refused)
    async with trio.open_nursery() as nursery:
        call = kit.shell("echo up; exec sleep 1000", limits=limits)
        performance = await started(nursery, call, b"up")
        performance.port.grace_s = 1.5
        performance.scope.cancel()
        await performance.finish()
    pid = performance.control.pid
    assert pid is not None and attempts == [1.5]
    assert performance.port.end == termination(signal="TERM", by="lost", unconfirmed=(pid,))


async def test_a_start_cancelled_before_it_began_leaves_nothing() -> None:
    before = kit.fds()
    for pause in range(12):
        call = kit.shell("sleep 1000")
        port = Recorder(grace_s=0.1)
        with trio.move_on_after(pause / 4000):
            await stdio.run(call, port)
        assert port.control is None or port.end is not None
        assert kit.lives(call) == []
    assert kit.fds() == before


async def test_large_output_is_kept_whole() -> None:
    script = "import sys\nfor n in range(200_000): sys.stdout.write(f'{n}\\n')"
    port = await run(kit.python(script))
    assert port.output == "".join(f"{n}\n" for n in range(200_000)).encode()


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.soak)])
async def test_many_short_runs_leave_no_descriptor_and_no_process(count: int) -> None:
    await run(kit.shell("true"))
    before = kit.fds()
    calls = [kit.shell("true", stdin="pipe") for _ in range(count)]
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(run, call)
    for _ in range(5):
        with pytest.raises(StartFailed):
            await run(kit.call("/no/such/program"))
    assert kit.fds() == before
    assert not any(kit.lives(call) for call in calls)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"argv": ("no-such-program-anywhere",)}, "program"),
        ({"argv": ("true",), "cwd": "/no/such/folder"}, "folder"),
        ({"argv": ("true", "x" * 200_000)}, "size"),
    ],
)
async def test_a_failed_start_has_a_reason_in_a_sentence(
    fields: dict[str, object], reason: str
) -> None:
    argv = fields.pop("argv")
    assert isinstance(argv, tuple)
    with pytest.raises(StartFailed) as failed:
        await run(kit.call(*argv, **fields))  # type: ignore[arg-type]
    assert failed.value.reason == reason
    assert failed.value.message.endswith(".")


async def test_a_program_without_permission_is_distinguished(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    with pytest.raises(StartFailed) as failed:
        await run(kit.call(str(program)))
    assert failed.value.reason == "permission"


async def test_an_unrecordable_start_runs_nothing() -> None:
    def full(identity: object) -> None:
        raise OSError(28, "No space left on device")

    before = kit.fds()
    call = kit.shell("echo never", record=full)
    with pytest.raises(StartFailed, match="recorded") as failed:
        await run(call)
    assert failed.value.reason == "record"
    assert kit.lives(call) == []
    assert kit.fds() == before


# -- input


async def test_lines_texts_and_end_of_input_are_written() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.call("cat", stdin="pipe"))
        control = performance.control
        assert control.write(Input("text", "a\tb")) == 1
        assert control.write(Input("line", "é")) == 2
        assert control.write(Input("paste", "c\nd\n")) == 3
        assert control.write(Input("keys", keys=("y", "Enter", "C-d"))) == 4
        await performance.finish()
        assert performance.port.number == 4
    assert performance.port.output.decode() == "a\tbé\nc\nd\ny\n"
    assert performance.port.end == termination(code=0)


async def test_keys_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.call("cat", stdin="pipe"))
        with pytest.raises(InputRefused, match=r"after C-d.*nothing was written"):
            performance.control.write(Input("keys", keys=("a", "C-d", "b")))
        with pytest.raises(InputRefused, match="needs a terminal"):
            performance.control.write(Input("keys", keys=("a", "Up")))
        performance.control.write(Input("line", "x"))
        performance.control.write(Input("keys", keys=("y", "C-d", "C-d")))
        await performance.finish()
    assert performance.port.output == b"x\ny"
    go = tmp_path / "go"
    script = f"trap : INT; echo ready; until [ -e {go} ]; do sleep 0.02; done; exec wc -c"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script, stdin="pipe"), b"ready\n")
        performance.control.write(Input("text", "x" * 1_100_000))
        with pytest.raises(InputRefused, match="does not read"):
            performance.control.write(Input("keys", keys=("a", "C-c", *"b" * 20_000)))
        performance.control.write(Input("eof"))
        go.touch()
        await performance.finish()
    assert performance.port.output == b"ready\n1100000\n"


async def test_keys_around_an_interrupt_keep_their_order() -> None:
    script = "trap 'read b; echo $a-$b; exit' INT; read a; echo got; while :; do sleep 0.05; done"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script, stdin="pipe"))
        performance.control.write(Input("line", "one"))
        await performance.port.until(lambda: performance.port.output == b"got\n")
        performance.control.write(Input("keys", keys=("C-c", "2", "Enter")))
        await performance.finish()
    assert performance.port.output == b"got\none-2\n"


async def test_control_c_on_a_pipe_interrupts_the_group() -> None:
    script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell(script), b"ready\n")
        performance.control.write(Input("keys", keys=("C-c",)))
        await performance.finish()
    assert performance.port.output == b"ready\ncaught\n"
    assert performance.port.end == termination(code=3)


async def test_a_users_signal_is_a_natural_end() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell("echo ready; exec sleep 60"), b"ready\n")
        performance.control.write(Input("signal", signal="HUP"))
        await performance.finish()
    assert performance.port.end == termination(signal="HUP")


async def test_RB_020_input_to_a_closed_stdin_is_refused() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.shell("exec <&-; echo ready; sleep 1; exit 3", stdin="pipe")
        performance = await started(nursery, call, b"ready\n")
        with pytest.raises(InputRefused, match="closed its input"):
            performance.control.write(Input("line", "x"))
        with pytest.raises(InputRefused, match="closed"):
            performance.control.write(Input("line", "x"))
        with pytest.raises(InputRefused, match="closed"):
            performance.control.write(Input("eof"))
        await performance.finish()
        assert performance.port.end == termination(code=3)
        for kind in ("line", "eof", "signal", "keys"):
            with pytest.raises(InputRefused, match="has ended"):
                performance.control.write(Input(kind, "x", ("C-c",), "INT"))


async def test_an_empty_input_accepts_none_and_reads_as_empty() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.shell("cat; echo end; sleep 1"), b"end\n")
        with pytest.raises(InputRefused, match="takes no input"):
            performance.control.write(Input("text", "x"))
        with pytest.raises(InputRefused, match="no terminal"):
            performance.control.write(Input("resize", rows=2, cols=2))
        assert performance.control.screen() is None
        await performance.finish()


async def test_unread_input_is_bounded_and_never_cut(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with trio.open_nursery() as nursery:
        script = f"echo ready; until [ -e {go} ]; do sleep 0.02; done; exec cat"
        call = kit.shell(script, stdin="pipe")
        performance = await started(nursery, call, b"ready\n")
        line = "x" * 100_000
        taken = 0
        with pytest.raises(InputRefused, match="does not read"):
            for _ in range(100):
                performance.control.write(Input("line", line))
                taken += 1
        assert 10 <= taken <= 13
        go.touch()
        await performance.port.until(lambda: performance.port.number >= taken)
        performance.control.write(Input("eof"))
        await performance.finish()
    assert performance.port.output.decode() == "ready\n" + (line + "\n") * taken


async def test_never_read_input_counts_as_resolved() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.shell("echo ready; sleep 0.2", stdin="pipe")
        performance = await started(nursery, call, b"ready\n")
        number = performance.control.write(Input("text", "x" * 500_000))
        await performance.finish()
        assert performance.port.number == number


async def test_a_child_has_three_descriptors_and_the_default_signals() -> None:
    script = (
        "import os\n"
        "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line[:6] in ('SigBlk',)])\n"
        "print(os.environ['HAFT_HANDLE'])\n"
    )
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        call = kit.python(script)
        port = await run(call)
    finally:
        signal.signal(signal.SIGHUP, old)
    fds, blocked, mark = port.output.decode().split("\n")[:3]
    assert fds == "[0, 1, 2]"
    assert blocked == "['0000000000000000']"
    assert mark == call.mark


# -- limits


async def test_the_wall_time_limit_ends_a_handle() -> None:
    began = time.monotonic()
    port = await run(kit.shell("echo before; sleep 60", limits={"wall_s": 0.3}))
    assert time.monotonic() - began < 20
    assert port.output == b"before\n"
    assert port.end == termination(signal="TERM", by="limit", limit="wall_s")


async def test_the_output_limit_ends_a_handle_and_the_excess_is_dropped() -> None:
    port = await run(kit.shell("yes", limits={"output": 1_000_001}))
    assert len(port.output) == 1_000_001
    assert port.end is not None
    assert port.end.limit == "output"
    exact = await run(kit.shell("printf 12345", limits={"output": 5}))
    assert exact.end == termination(code=0)
    over = await run(kit.shell("printf 123456", limits={"output": 5}))
    assert over.output == b"12345"
    assert over.end is not None
    assert over.end.limit == "output"


async def test_the_cpu_limit_ends_a_handle() -> None:
    port = await run(kit.shell("while :; do :; done", limits={"cpu_s": 1}))
    assert port.end == termination(signal="XCPU", by="limit", limit="cpu_s")


async def test_a_handles_processes_are_bounded_together() -> None:
    """Each process for itself stays within the limit; the kernel bounds no sum, and not root."""
    each = {
        "processes": (3, "for i in 1 2 3 4 5 6; do sleep 60 & done; wait"),
        "cpu_s": (0.4, "for i in 1 2 3; do (while :; do :; done) & done; wait"),
        "memory": (60_000_000, f"for i in 1 2 3; do {sys.executable} -c '{_HOLDS}' & done; wait"),
    }
    for name, (most, script) in each.items():
        port = await run(kit.shell(script, limits={name: most}))
        assert port.end is not None
        assert port.end.limit == name


async def test_pages_that_a_fork_has_not_copied_count_once() -> None:
    script = (
        "import os, time\nx = bytes(1) * 40_000_000\n"
        "for _ in range(4):\n    if os.fork() == 0: time.sleep(0.7); os._exit(0)\n"
        "for _ in range(4): os.wait()"
    )
    port = await run(kit.python(script, limits={"memory": 100_000_000, "processes": 5, "cpu_s": 9}))
    assert port.end == termination(code=0)


async def test_the_memory_limit_ends_a_handle() -> None:
    script = "x = bytearray(400_000_000)\nprint('had it')"
    port = await run(kit.python(script, limits={"memory": 100_000_000}))
    assert port.end is not None
    assert port.end.limit == "memory"
    assert b"had it" not in port.output
    port = await run(kit.python("print('MemoryError')", limits={"memory": 100_000_000}))
    assert port.end == termination(code=0)


@pytest.mark.parametrize("limits", [{"processes": 100}, {"wall_s": 60}])
async def test_processes_that_no_group_counts_go_to_the_end_of_the_queue(
    limits: dict[str, float],
) -> None:
    """A daemon that was put before them has no need of it: the tests' priority is inherited."""
    port = await run(kit.shell("nice", limits=limits))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(port.output) == (19 if "processes" in limits else own)
