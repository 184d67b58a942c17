"""Pipe from a handle's output into the input of another handle's process (`stdin_from`).

The source waits while the reader lags more than `execution.MAX_BACKLOG` bytes. Dropped output ends
the reader: a pipe loses nothing silently.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy
from haftd.core.handles import Handle
from haftd.runtimes.base import Input, InputRefused

from .execution import Execution

_CHUNK = 65_536

log = structlog.get_logger("haftd.executions.pipe")


class Pipe:
    """Copies `source` from `offset` into `reader`; `end` ends the reader."""

    def __init__(
        self,
        source: Handle,
        writer: Execution | None,
        reader: Execution,
        offset: int,
        end: Callable[[Execution, EndedBy], None],
    ) -> None:
        self._source = source
        self._writer = writer
        self._reader = reader
        self._offset = offset
        self._end = end
        self._changed = trio.Event()
        if writer is not None:
            writer.add_backlog(self._backlog)

    def _backlog(self) -> int:
        return self._source.spool.end - self._offset

    def _wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        source, reader = self._source, self._reader
        source.listen(self._wake)
        reader.handle.listen(self._wake)
        try:
            await reader.begun.wait()
            await self._copy()
        except (InputRefused, RpcError):
            log.debug("the reader takes no more", handle=reader.handle.id)
        finally:
            source.unlisten(self._wake)
            reader.handle.unlisten(self._wake)
            if self._writer is not None:
                self._writer.remove_backlog(self._backlog)

    async def _copy(self) -> None:
        source, reader = self._source, self._reader
        while not reader.handle.stopped:
            self._changed = trio.Event()
            if source.spool.start > self._offset:
                client = (
                    f"haftd, as output of the handle {source.id!r} that it reads is no longer kept"
                )
                self._end(reader, EndedBy("abort", client))
                return
            data = source.spool.read(self._offset, self._offset + _CHUNK)
            if data:
                await self._feed(data)
            elif source.stopped and source.output_complete:
                reader.write(Input("eof"))
                return
            else:
                await self._changed.wait()

    async def _feed(self, data: bytes) -> None:
        reader = self._reader
        number = reader.feed(data)
        while reader.written_to < number and not reader.handle.stopped:
            self._changed = trio.Event()
            await self._changed.wait()
        self._offset += len(data)
        if self._writer is not None:
            self._writer.backlog_changed()
