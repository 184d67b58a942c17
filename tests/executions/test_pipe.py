"""A pipe loses nothing silently: output that is gone before the reader had it ends the reader."""

from __future__ import annotations

from typing import Any, cast

import trio

from haft_protocol.states import EndedBy
from haftd.core.handles import Handle
from haftd.executions.execution import Execution
from haftd.executions.pipe import Pipe
from haftd.runtimes.base import Input
from tests.core.disks import make


def started(id: str, memory: int = 1 << 20) -> Handle:
    handle = Handle(id=id, tool="t", session="s", generation=1, spool=make(memory), now=0.0)
    handle.start(0.0)
    return handle


class Reads:
    """A control of a program that takes all input at once."""

    def __init__(self, reader: Execution) -> None:
        self.fed = b""
        self.inputs: list[Input] = []
        self._reader = reader

    def feed(self, data: bytes) -> int:
        self.fed += data
        self._reader.written(len(self.fed))
        return len(self.fed)

    def write(self, item: Input) -> int:
        self.inputs.append(item)
        return 0


async def copied(output: bytes, memory: int) -> tuple[Reads, list[EndedBy]]:
    """Pipe the output of a source that keeps `memory` bytes and runs on, until the pipe waits or ends."""
    source, reader = started("source", memory), Execution(started("reader"), 1.0)
    control, ends = Reads(reader), list[EndedBy]()
    reader.control = cast(Any, control)
    reader.begun.set()
    source.append_output(output, 0.0)
    pipe = Pipe(source, None, reader, 0, lambda _, by: ends.append(by))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return control, ends


async def test_kept_output_is_copied_and_ends_nothing() -> None:
    control, ends = await copied(b"0123456789", memory=1 << 16)
    assert (control.fed, control.inputs, ends) == (b"0123456789", [], [])


async def test_output_no_longer_kept_ends_the_reader_and_copies_nothing() -> None:
    control, (end,) = await copied(b"0123456789" * 1000, memory=100)
    assert end.by == "abort" and "'source'" in str(end.client)
    assert not control.fed and not control.inputs
