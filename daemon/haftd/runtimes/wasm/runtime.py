"""Runtime of WebAssembly modules: compiles a module once, then runs its worker as a tool on pipes.

The compiled form is made by a process that runs no module, so that no module can change another's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from haftd.runtimes.base import Call, RuntimeContext, StartFailed
from haftd.runtimes.process.helper import Failed, run_helper
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.threads import run_in_thread
from haftd.tools.definitions.wasm_engine import engine_version

from . import worker
from .plan import compile_launch, module_of
from .worker import Order

log = structlog.get_logger("haftd.runtimes.wasm.runtime")

_MAX_NAMES = 64


class CompiledModules:
    """The cache of compiled modules, for calls whose launch `plan.worker_launch` has made."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, ...], str] = {}
        """Names of compiled modules, by the files' identity."""

    async def prepared(self, call: Call) -> Call:
        """Compile the call's module unless the cache has it; return the call with its name in the cache.

        Raises `StartFailed`.
        """
        order = _order_of(call)
        name = await self._name(module_of(call.launch), has_fuel=order.fuel is not None)
        if _is_wanting(order.cache, name):
            await _compile(call, order._replace(cached=name))
        return _with_cached(call, name)

    async def _name(self, path: str, *, has_fuel: bool) -> str:
        try:
            facts = os.stat(path)  # noqa: PTH116
            identity = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, has_fuel
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
    """The runtime `wasm`."""

    def __init__(self, modules: CompiledModules) -> None:
        self._modules = modules
        self._processes = ProcessRuntime()

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        return await self._processes.run(await self._modules.prepared(call), context)


def is_module(call: Call) -> bool:
    """Return whether the call's process is the worker of a module."""
    return worker.VARIABLE in call.launch.env


def _order_of(call: Call) -> Order:
    return Order(**msgspec.json.decode(call.launch.env[worker.VARIABLE]))


def _read_name(path: str, *, has_fuel: bool) -> str:
    with open(path, "rb") as file:
        source = file.read()
    if not worker.is_binary(source):
        why = "it does not begin with the bytes of one; text (.wat) has to be assembled first"
        raise StartFailed(f"{path} is no WebAssembly module: {why}.", "format")
    return worker.cached_name(source, engine_version(), has_fuel=has_fuel)


def _is_wanting(folder: str, name: str) -> bool:
    """Return whether the cache can be used and lacks that module; makes the folder, for this user alone."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        os.close(worker.open_private(folder))
    except OSError as error:
        log.warning("no cache of compiled modules", folder=folder, error=str(error))
        return False
    return not os.path.exists(f"{folder}/{name}")  # noqa: PTH110


async def _compile(call: Call, order: Order) -> None:
    """Fill the cache. Raises `StartFailed` for a file that is no module."""
    compiler = replace(call, launch=compile_launch(call.launch, order))
    made = await run_helper(compiler, lambda call, confirmed: None)
    if not isinstance(made, Failed):
        return
    if made.kind == "start":
        raise StartFailed(made.why, "resources")
    lines = made.stderr_tail.decode(errors="replace").strip()
    why = f"The compiler of the module {made.why}. {lines}".strip()
    raise StartFailed(why, "format" if made.kind == "exit" else "resources")


def _with_cached(call: Call, name: str) -> Call:
    """Return the call with the name of the compiled module, also when run again."""
    env = {**call.launch.env, worker.VARIABLE: _order_of(call)._replace(cached=name).text()}
    again = call.again

    def once_more(answers: Mapping[str, Any]) -> Call:
        if again is None:
            raise AssertionError("a call that cannot be run again was")
        return _with_cached(again(answers), name)

    launch = replace(call.launch, env=env)
    return replace(call, launch=launch, again=None if again is None else once_more)
