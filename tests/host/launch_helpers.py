"""Helpers to start and inspect processes for the tests of the host room."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import trio

from haftd.host.cgroup import Cgroup
from haftd.host.launch import gate_child
from haftd.host.launch.connect_supervisor import supervise
from haftd.host.launch.gate import Gate
from haftd.host.launch.launched_process import LaunchedProcess
from haftd.host.launch.spawn import launch
from haftd.host.process.identity import Identity
from haftd.host.pump import pump
from haftd.host.tree.process_tree import ProcessTree
from haftd.launch_spec import LaunchSpec
from tests.patience import PATIENCE_S

PATH = "/usr/local/bin:/usr/bin:/bin"
_COUNT = iter(range(1, 1 << 18))
INSTANCE = os.urandom(6).hex()


def new_mark() -> str:
    """A mark that no other test has."""
    return f"{os.getpid():012x}.{INSTANCE}.{next(_COUNT)}"


def no_record(_: Identity) -> None:
    """Record nothing."""


def plan(
    *argv: str,
    cwd: str | Path = "/",
    env: Mapping[str, str] | None = None,
    mark: str = "",
    terminal: bool = False,
    rows: int = 24,
    cols: int = 80,
    stdin: Literal["pipe", "null"] = "null",
    output: Literal["raw", "outcome", "events"] = "raw",
    limits: Mapping[str, float] | None = None,
    nofile: int | None = None,
) -> LaunchSpec:
    """A plan with everything usual."""
    whole = {"PATH": PATH, "LANG": "C.UTF-8", **(env or {})}
    if mark:
        whole["HAFT_HANDLE"] = mark
    return LaunchSpec(
        argv=argv,
        cwd=str(cwd),
        env=whole,
        terminal=terminal,
        rows=rows,
        cols=cols,
        stdin=stdin,
        output=output,
        limits=limits or {},
        nofile=nofile,
    )


@asynccontextmanager
async def running(
    spec: LaunchSpec,
    *,
    gate: Gate | None = None,
    record: Callable[[Identity], None] = no_record,
    cgroup: Cgroup | None = None,
) -> AsyncIterator[tuple[LaunchedProcess, ProcessTree]]:
    """Run a program for the block, and nothing of the program afterwards."""
    launched = launch(spec, record, gate, cgroup)
    kin = ProcessTree(launched, spec.env.get("HAFT_HANDLE", ""), cgroup)
    try:
        await launched.finish_start()
        yield launched, kin
    finally:
        with trio.CancelScope(shield=True):
            await kin.end(0)
        launched.close()


def output_of(launched: LaunchedProcess) -> int:
    """Return the read end of the output."""
    fd = launched.stdout if launched.master is None else launched.master
    assert fd is not None
    return fd


async def read_line(launched: LaunchedProcess) -> str:
    """Read a line of output, without its end and without reading ahead."""
    fd, line = output_of(launched), b""
    while not line.endswith(b"\n"):
        try:
            part = os.read(fd, 1)
        except BlockingIOError:
            with trio.fail_after(PATIENCE_S):
                await trio.lowlevel.wait_readable(fd)
            continue
        assert part, f"the output ended within a line: {line!r}"
        line += part
    return line.decode().rstrip("\r\n")


async def read_all(launched: LaunchedProcess) -> str:
    data = bytearray()
    await pump(output_of(launched), data.extend)
    return data.decode().replace("\r\n", "\n")


async def run(spec: LaunchSpec, gate: Gate | None = None) -> str:
    """Run a program to its end; return the output. A supervised one connects to no proxy."""
    async with running(spec, gate=gate) as (launched, _), trio.open_nursery() as nursery:
        if launched.listener is not None:
            nursery.start_soon(supervise, launched.listener, launched.proxy_port)
        text = await read_all(launched)
        await launched.wait_exit()
        nursery.cancel_scope.cancel()
    return text


def open_fds() -> set[str]:
    """Return the descriptors of this process and their targets, but those of a spare child."""
    found = set()
    spare = gate_child._spare.child
    own = () if spare is None else (spare._socket.fileno(), spare._words, spare.pidfd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) in own:
            continue
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the descriptor of the listing
    return found


def status_of(pid: int) -> dict[str, str]:
    """/proc/<pid>/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}
