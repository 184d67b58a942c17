"""What a peer sends in one message, or is sent in one reply, leaves others their turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest
import trio

from haft_protocol.errors import RpcError
from haftd.caller import Caller
from haftd.connection import serve_connection

from .rig import Rig, limits

MIB = 1024 * 1024


@dataclass
class Told:
    """A wire with one message on it, which notes how many turns others had before each write."""

    message: bytes
    transport: Literal["unix", "websocket"] = "unix"
    fault: RpcError | None = None
    turns: int = 0
    before: list[int] = field(default_factory=list)
    written: bytes = b""

    async def receive(self) -> list[bytes] | None:
        await trio.lowlevel.checkpoint()
        message, self.message = self.message, b""
        self.turns = 0
        return [message] if message else None

    def frame(self, message: bytes) -> bytes:
        return message + b"\n"

    def write(self, data: bytes | memoryview) -> int:
        self.before.append(self.turns)
        self.written += bytes(data)
        return len(data)

    async def send(self, data: bytes | memoryview) -> int:
        await trio.lowlevel.checkpoint()
        return self.write(data)

    async def writable(self) -> None: ...

    async def hung_up(self) -> None:
        await trio.sleep_forever()

    async def close(self, *, polite: bool) -> None: ...

    async def be_served(self, rig: Rig) -> None:
        async def others() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                self.turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await serve_connection(self, Caller("unix"), rig.rim)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("unit", [b"x", b"\\n", b'","'])
async def test_others_have_their_turns_while_a_long_message_is_looked_at(unit: bytes) -> None:
    rig = Rig(limits=limits(max_message=4 * MIB, max_values=10 * MIB))
    value = b'["' + unit * (2 * MIB // len(unit)) + b'"]'
    wire = Told(b'{"jsonrpc":"2.0","id":1,"method":"none","params":{"a":' + value + b"}}")
    await wire.be_served(rig)
    assert b"no method 'none'" in wire.written
    assert wire.before[0] >= 2 * MIB // 65_536
