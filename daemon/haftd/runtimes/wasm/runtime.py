"""Runs a module's worker as a tool on pipes, and caches compiled modules: the process that compiles
runs no module, so that no module can change another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import msgspec
import structlog
import trio
from msgspec.structs import replace

from haftd.host.files.regular import open_regular
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, RuntimeContext, StartFailed, is_cancellation
from haftd.runtimes.process.helper import Failed, run_helper
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.threads import run_in_thread
from haftd.tools.definitions.runtime_names import find_engine_version

from . import worker
from .plan import compile_launch, module_of
from .worker import Order

log = structlog.get_logger("haftd.runtimes.wasm.runtime")

MAX_MODULE = 256 << 20
"""Bytes of a module's file, read for its hash."""
MAX_COMPILERS = 2
"""Processes that compile into the cache at a time: each takes a processor for up to 600 s."""
_PIECE = 1 << 20
_MAX_NAMES = 64


class CompiledModules:
    """Cache of compiled modules, for launches of `plan.worker_launch`.

    No call waits for the compiler: an uncached module is compiled in the worker's memory, and into
    the cache by a process in a task of `nursery`, one for all calls of the module. It is ended when
    the last of these calls was cancelled. `make_call` makes that process's call, `clear_up`
    follows its end.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        make_call: Callable[[LaunchSpec], Call],
        clear_up: Callable[[Call, bool], None],
    ) -> None:
        self._nursery = nursery
        self._make_call = make_call
        self._clear_up = clear_up
        self._names: dict[tuple[object, ...], str] = {}
        """Compiled modules' names by file identity."""
        self._failed: set[str] = set()
        """Names of modules that are not compiled again."""
        self._compiling: dict[str, trio.CancelScope] = {}
        self._calls: Counter[str] = Counter()
        """Number of running calls by the module's name."""
        self._turns = trio.CapacityLimiter(MAX_COMPILERS)

    @asynccontextmanager
    async def use(self, call: Call) -> AsyncIterator[Call]:
        """Yield the call with the compiled module's name, for the time of the run. Raises
        `StartFailed`."""
        order = _order_of(call)
        name = await self._name(module_of(call.launch), has_fuel=order.fuel is not None)
        is_tried = name in self._failed or name in self._compiling
        if not is_tried and _is_uncached(order.cache, name):
            launch = compile_launch(call.launch, order._replace(cached=name))
            self._compiling[name] = trio.CancelScope()
            self._nursery.start_soon(self._compile, launch, name, self._compiling[name])
        self._calls[name] += 1
        is_cancelled = False
        try:
            yield _with_cached(call, name)
        except BaseException as error:
            is_cancelled = is_cancellation(error)
            raise
        finally:
            self._calls[name] -= 1
            if not self._calls[name]:
                del self._calls[name]
                if is_cancelled and name in self._compiling:
                    self._compiling[name].cancel()

    async def _compile(self, launch: LaunchSpec, name: str, scope: trio.CancelScope) -> None:
        try:
            with scope:
                async with self._turns:
                    output = await run_helper(self._make_call(launch), self._clear_up)
                if isinstance(output, Failed):
                    self._failed.add(name)
                    log.warning(
                        "a module was not compiled", module=module_of(launch), why=output.why
                    )
        finally:
            del self._compiling[name]

    async def _name(self, path: str, *, has_fuel: bool) -> str:
        try:
            facts = os.stat(path)  # noqa: PTH116
            identity = facts.st_dev, facts.st_ino, facts.st_size, facts.st_ctime_ns, has_fuel
            if (name := self._names.get(identity)) is None:
                name = await run_in_thread(lambda: _read_name(path, has_fuel=has_fuel))
                if len(self._names) >= _MAX_NAMES:
                    del self._names[next(iter(self._names))]
                self._names[identity] = name
        except OSError as error:
            why = (error.strerror or "it cannot be read").lower()
            raise StartFailed(f"There is no module {path}: {why}.", "program") from None
        return name


class WasmRuntime:
    def __init__(self, modules: CompiledModules) -> None:
        self._modules = modules
        self._processes = ProcessRuntime()

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        async with self._modules.use(call) as named:
            return await self._processes.run(named, context)


def is_module(call: Call) -> bool:
    """True if the call's process is a module's worker."""
    return worker.VARIABLE in call.launch.env


def _order_of(call: Call) -> Order:
    return Order(**msgspec.json.decode(call.launch.env[worker.VARIABLE]))


def _read_name(path: str, *, has_fuel: bool) -> str:
    with open_regular(path) as file:
        digest, size = sha256(head := file.read(worker.HEAD)), worker.HEAD
        while data := file.read(_PIECE):
            digest.update(data)
            if (size := size + len(data)) > MAX_MODULE:
                why = f"a module must have at most {MAX_MODULE:,} bytes"
                raise StartFailed(f"{path} cannot be used: {why}.", "size")
    if not worker.is_binary(head):
        why = "it does not begin with the bytes of one; text (.wat) has to be assembled first"
        raise StartFailed(f"{path} is not a WebAssembly module: {why}.", "format")
    return worker.cached_name(head, digest.hexdigest(), find_engine_version(), has_fuel=has_fuel)


def _is_uncached(folder: str, name: str) -> bool:
    """True if the cache is usable and lacks the module; makes the folder, private to this user."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        os.close(worker.open_private(folder))
    except OSError as error:
        log.warning("compiled modules are not cached", folder=folder, error=str(error))
        return False
    return not os.path.exists(f"{folder}/{name}")  # noqa: PTH110


def _with_cached(call: Call, name: str) -> Call:
    """Return the call with the compiled module's name, also for a further run."""
    env = {**call.launch.env, worker.VARIABLE: _order_of(call)._replace(cached=name).text()}
    with_answers = call.with_answers

    def with_answers_cached(answers: Mapping[str, Any]) -> Call:
        if with_answers is None:
            raise AssertionError("a call without `with_answers` was run again")
        return _with_cached(with_answers(answers), name)

    launch = call.launch._replace(env=env)
    return replace(
        call,
        launch=launch,
        with_answers=None if with_answers is None else with_answers_cached,
        explained=worker.EXPLAINED,
    )
