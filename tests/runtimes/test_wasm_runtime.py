"""Files that are to be modules, as the daemon looks at them."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, StartFailed
from haftd.runtimes.process.helper import Failed
from haftd.runtimes.wasm import runtime, worker
from haftd.runtimes.wasm.plan import module_of, worker_argv
from haftd.runtimes.wasm.runtime import CompiledModules

from . import modules


def name_of(path: Path | str) -> str:
    return runtime._read_name(str(path), has_fuel=False)


def test_another_file_than_a_regular_one_is_not_read() -> None:
    """A FIFO would hold the thread for ever, and a device has no end."""
    with pytest.raises(OSError, match="not a regular file") as caught:
        name_of("/dev/null")
    assert caught.value.errno == errno.EINVAL


def test_a_module_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = modules.write(tmp_path / "a.wasm", "")
    size = module.stat().st_size
    monkeypatch.setattr(runtime, "MAX_MODULE", size)
    assert name_of(module).endswith(".module")
    monkeypatch.setattr(runtime, "MAX_MODULE", size - 1)
    with pytest.raises(StartFailed) as caught:
        name_of(module)
    assert caught.value.reason == "size" and f"at most {size - 1:,} bytes" in caught.value.message


class Compilers:
    """The running compilers, by the module's path, in place of processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, cache: Path) -> None:
        self.running: list[str] = []
        self.ended: dict[str, trio.Event] = {}
        self.starts = 0
        self.fails = False
        self._cache = str(cache)
        self.modules = CompiledModules(nursery, lambda launch: Call("t", launch, "m"), print)
        monkeypatch.setattr(runtime, "run_helper", self._run)
        monkeypatch.setattr(runtime, "_read_name", lambda path, has_fuel: f"{Path(path).name}-1-x")

    async def _run(self, call: Call, clear_up: object) -> bytes | Failed:
        path = module_of(call.launch)
        self.starts += 1
        self.running.append(path)
        try:
            await self.ended.setdefault(path, trio.Event()).wait()
        finally:
            self.running.remove(path)
        return Failed("time", "took too long") if self.fails else b""

    @asynccontextmanager
    async def call(self, module: Path) -> AsyncIterator[trio.CancelScope]:
        """Run a call of a module; the scope aborts the call."""
        order = worker.Order(engine="", cache=self._cache, folders=(), env=(), has_call=False)
        argv = worker_argv(str(module), ())
        launch = LaunchSpec(argv, "/", {worker.VARIABLE: order.text()})
        with trio.CancelScope() as scope:
            async with self.modules.use(Call("t", launch, "m")):
                await wait_all_tasks_blocked()
                yield scope
                await trio.lowlevel.checkpoint()


async def test_an_abort_of_the_last_call_of_a_module_ends_its_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "a.wasm"
    module.touch()
    async with trio.open_nursery() as nursery:
        compilers = Compilers(monkeypatch, nursery, tmp_path / "cache")
        async with compilers.call(module) as first:
            async with compilers.call(module) as second:
                second.cancel()
            await wait_all_tasks_blocked()
            assert compilers.running == [str(module)] and compilers.starts == 1
            first.cancel()
        await wait_all_tasks_blocked()
        assert compilers.running == []
        # The next call tries again, and its regular end leaves the compiler to finish.
        async with compilers.call(module):
            pass
        await wait_all_tasks_blocked()
        assert compilers.running == [str(module)] and compilers.starts == 2
        compilers.fails = True
        compilers.ended[str(module)].set()
        await wait_all_tasks_blocked()
        async with compilers.call(module):
            assert compilers.starts == 2


async def test_compilers_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{n}.wasm" for n in range(runtime.MAX_COMPILERS + 2)]
    async with trio.open_nursery() as nursery:
        compilers = Compilers(monkeypatch, nursery, tmp_path / "cache")
        for path in paths:
            path.touch()
            async with compilers.call(path):
                pass
        await wait_all_tasks_blocked()
        assert len(compilers.running) == runtime.MAX_COMPILERS
        # One that waits for its turn is ended, too.
        async with compilers.call(paths[-1]) as scope:
            scope.cancel()
        for path in paths:
            compilers.ended.setdefault(str(path), trio.Event()).set()
        await wait_all_tasks_blocked()
        assert compilers.starts == len(paths) - 1


def test_a_compiler_runs_at_the_lowest_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lowered(Exception):
        pass

    def nice(increment: int) -> Any:
        raise Lowered(increment)

    order = worker.Order(engine="", cache="", folders=(), env=(), has_call=False, compile=True)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("os.nice", nice)
    monkeypatch.setenv(worker.VARIABLE, order.text())
    with pytest.raises(Lowered, match="19"):
        worker.main(["a.wasm"])
