"""The launch of a module's worker. Pure but for real paths.

The worker has the limits, sandbox and tag of the module's launch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from haftd.launch_spec import Grant, LaunchSpec, Sandbox, is_within
from haftd.tools.definitions.runtime_names import find_engine_folder

from . import worker
from .worker import Order

WORKER_MEMORY = 256 << 20
"""Bytes of the worker beside the module's memory, mostly to compile."""
WORKER_THREADS = 8
_OF_COMPILER = {"wall_s": 600.0, "memory": float(4 << 30)}
"""Limits of the process that compiles into the cache, outside any call."""

_WRITE = frozenset({"create", "update", "delete"})
_READ_EXECUTE = frozenset({"read", "execute"})


def worker_launch(
    launch: LaunchSpec,
    grants: Sequence[Grant],
    env: Iterable[str],
    cache: str,
    call: str,
) -> LaunchSpec:
    """Return the launch of the worker for the module `launch.argv[0]`.

    `grants` are the module's rights at absolute paths, `env` names of variables, `call` the call's
    JSON, `cache` the folder of compiled modules.
    """
    program = os.path.join(launch.cwd, launch.argv[0])  # noqa: PTH118
    limits = launch.limits
    is_live = launch.output == "events"
    order = Order(
        engine=find_engine_folder() or "",
        cache=os.path.realpath(cache),
        folders=folders_of(grants, launch.cwd),
        env=tuple(sorted(env)),
        has_call=launch.stdin == "null" and not is_live,
        fuel=_int_or_none(limits.get("fuel")),
        memory=_int_or_none(limits.get("memory")),
    )
    head = "" if order.has_call or is_live else f"{call}\n"
    return launch._replace(
        argv=worker_argv(os.path.realpath(program), launch.argv[1:]),
        env={**launch.env, worker.VARIABLE: order.text()},
        stdin_head=head.encode(),
        limits=_with_worker(limits),
        sandbox=_with_worker_files(launch.sandbox, order, program),
    )


def compile_launch(launch: LaunchSpec, order: Order) -> LaunchSpec:
    """Return the launch of a compiling worker from a running one's."""
    program = launch.argv[len(_INTERPRETER)]
    sandbox = launch.sandbox
    if sandbox is not None:
        writes = Grant(order.cache, _WRITE | {"read"})
        sandbox = _with_worker_files(Sandbox(sandbox.root, (writes,)), order, program)
    return launch._replace(
        argv=worker_argv(program, ()),
        env={**launch.env, worker.VARIABLE: order._replace(compile=True).text()},
        stdin="null",
        stdin_head=b"",
        output="outcome",
        splits_stderr=False,
        limits=_OF_COMPILER,
        sandbox=sandbox,
    )


def module_of(launch: LaunchSpec) -> str:
    """Return the module's path of a worker's launch."""
    return launch.argv[len(_INTERPRETER)]


def worker_argv(program: str, words: Sequence[str]) -> tuple[str, ...]:
    return (*_INTERPRETER, program, *words)


# Real paths: a sandbox follows no link in a folder that the tool may change.
_INTERPRETER = (os.path.realpath(sys.executable), "-I", "-S", os.path.realpath(worker.__file__))


def folders_of(grants: Iterable[Grant], cwd: str) -> tuple[tuple[str, str, bool], ...]:
    """Return the module's folders: path, name for the module, may be changed.

    The name is the path; the working folder and those below also have relative names.
    """
    folders: dict[str, tuple[str, bool]] = {}
    covering = ""
    for grant in grants:
        is_writable = bool(grant.rights & _WRITE)
        folders[grant.path] = grant.path, is_writable
        if is_within(cwd, grant.path) and len(grant.path) > len(covering):
            covering = grant.path
            folders["."] = cwd, is_writable
        elif is_within(grant.path, cwd):
            folders[os.path.relpath(grant.path, cwd)] = grant.path, is_writable
    return tuple((path, name, is_writable) for name, (path, is_writable) in folders.items())


def _int_or_none(value: float | None) -> int | None:
    return None if value is None else int(value)


def _with_worker(limits: Mapping[str, float]) -> Mapping[str, float]:
    more = {"memory": WORKER_MEMORY, "processes": WORKER_THREADS}
    return {name: value + more.get(name, 0) for name, value in limits.items()}


def _with_worker_files(sandbox: Sandbox | None, order: Order, program: str) -> Sandbox | None:
    """Let the worker read libraries, module and cache; the module has its folders only."""
    if sandbox is None:
        return None
    prefixes = {sys.base_prefix, sys.base_exec_prefix}
    paths = [f"{prefix}/{name}" for prefix in sorted(prefixes) for name in ("lib", "lib64")]
    paths += [order.engine, str(Path(worker.__file__).parent)]
    paths = [os.path.realpath(path) for path in paths]
    read = [Grant(path, _READ_EXECUTE) for path in paths]
    read += [Grant(path, frozenset({"read"})) for path in (os.path.realpath(program), order.cache)]
    return sandbox._replace(grants=(*(sandbox.grants or ()), *read))
