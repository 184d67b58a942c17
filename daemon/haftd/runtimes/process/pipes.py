"""Control of a process on pipes: C-c sends INT to the leader's group, C-d closes the input."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from haftd.host import pump
from haftd.host.input_state import read_state
from haftd.host.readiness import LateEvent
from haftd.runtimes import keys
from haftd.runtimes.base import Call, Input, InputRefused, InputState, RuntimeContext, WithoutScreen

from .child import Child
from .control import ChildControl, translate


class _Room:
    """Repeatable event: each written chunk wakes the tasks that wait for room."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: LateEvent | None = None

    def report(self) -> None:
        if self._event is not None:
            event, self._event = self._event, None
            event.set()

    async def wait(self) -> None:
        if self._event is None:
            self._event = LateEvent()
        await self._event.wait()


class PipeControl(WithoutScreen, ChildControl):
    """Control of a process on pipes. When a one-shot tool is run again, `attach` joins the new
    process and the input numbers continue."""

    terminal = False

    def __init__(self, call: Call, context: RuntimeContext, child: Child) -> None:
        super().__init__(call, child)
        self._context = context
        self._number = 0
        self._writer: pump.Writer | None = None
        self._room = _Room()
        self.attach(child)

    def attach(self, child: Child) -> None:
        self.child = child
        stdin = child.launched.stdin
        if stdin is None:
            self._writer = None
            return
        context, room, head = self._context, self._room, child.stdin_head
        # Writers number from 1. The head (a WebAssembly module's call) is the first item, but no
        # caller's input: no number in the context.
        has_head = bool(head)
        offset = self._number - has_head

        # A closure over `self` would make a reference cycle.
        def written(number: int) -> None:
            if number > has_head:
                context.written(offset + number)
            room.report()

        self._writer = pump.Writer(
            stdin, written, child.launched.close_stdin, on_waiting=child.start_io
        )
        if head:
            self._writer.put(head)

    async def wait_put(self, data: bytes) -> None:
        """Queue `data` once there is room. Raises `InputRefused` if the input closes."""
        while True:
            writer = self.open_writer()
            if not writer.waiting or writer.waiting + len(data) <= writer.limit:
                self.put(data)
                return
            await self._room.wait()

    def close(self) -> None:
        """Report queued input as written, after the process's end. Closes no descriptor."""
        if self._writer is not None and self._writer.waiting:
            self._context.written(self._number)

    def input_state(self) -> InputState:
        """Return `reads` if the process sleeps in a read of standard input, with all input and
        output read."""
        child, writer = self.child, self._writer
        if writer is None or writer.closed or writer.waiting or child.ended:
            return InputState("busy")
        if self._has_printed():
            return InputState("busy")
        stdin = child.launched.stdin
        try:
            if stdin is None or pump.count_unread(stdin):
                return InputState("busy")
            wait = read_state.read_pipe_state(
                (child.pid,), os.fstat(stdin).st_ino, child.launched.began_s
            )
        except OSError:
            return InputState("busy")
        # The process may have printed and begun to wait since.
        return InputState("busy") if self._has_printed() else translate(wait)

    def _has_printed(self) -> bool:
        launched = self.child.launched
        return any(
            fd is not None and pump.is_readable(fd) for fd in (launched.stdout, launched.stderr)
        )

    def write(self, item: Input) -> int:
        self.refuse_if_ended()
        match item.kind:
            case "signal":
                self.child.tree.signal(signal.Signals[f"SIG{item.signal}"])
            case "resize":
                raise InputRefused("There is no terminal to resize: the handle is on a pipe.")
            case "mouse":
                raise InputRefused("There is no terminal for the mouse: the handle is on a pipe.")
            case "eof":
                self.open_writer().end()
            case "keys":
                self._press(item.keys)
            case _:
                self.put(self.encode(item))
        return self._number

    def feed(self, data: bytes) -> int:
        self.refuse_if_ended()
        self.put(data)
        return self._number

    def encode(self, item: Input) -> bytes:
        return item.data or item.text.encode() + b"\n" * (item.kind == "line")

    def put(self, data: bytes) -> None:
        """Queue `data`. Raises `InputRefused`, also once the process has closed its input."""
        writer = self.open_writer()
        self._number += 1
        try:
            writer.put(data)
        except (pump.InputFull, pump.Closed) as refused:
            self._number -= 1
            raise InputRefused(str(refused)) from None
        if writer.closed:  # found by this write
            raise InputRefused("The program has closed its input.")

    def open_writer(self) -> pump.Writer:
        """Return the writer of standard input. Raises `InputRefused` if it is empty or closed."""
        if self._writer is None:
            raise InputRefused(
                "The handle takes no input: its standard input is empty. Use a tool that takes "
                "input, or start it on a terminal."
            )
        if self._writer.closed:
            raise InputRefused("The input is closed, by the program or by an earlier `eof`.")
        return self._writer

    def _press(self, names: tuple[str, ...]) -> None:
        # Text of adjacent keys, a signal's name, or `eof`.
        steps: list[bytearray | str] = []
        text: bytearray | None = None
        for effect in map(keys.on_pipe, names):
            if isinstance(effect, str):
                text = None
                steps.append(effect)
                continue
            if "eof" in steps:
                raise InputRefused(
                    "There is text after C-d, which closes the input for good; nothing was written. Give C-d as the last key.",
                    malformed=True,
                )
            if text is None:
                text = bytearray()
                steps.append(text)
            text += self.encode(Input("text", effect.decode()))
        self._admit(steps)
        for index, step in enumerate(steps):
            if step == "eof":
                with contextlib.suppress(InputRefused):  # closed by an earlier C-d
                    self.open_writer().end()
            elif isinstance(step, str):
                self.child.tree.signal_group(signal.Signals[f"SIG{step}"])
            else:
                try:
                    self.put(bytes(step))
                except InputRefused:
                    if not index:
                        raise
                    return  # an earlier signal has ended the program

    def _admit(self, steps: Sequence[bytearray | str]) -> None:
        texts = [len(step) for step in steps if isinstance(step, bytearray)]
        if not texts and "eof" not in steps:
            return
        writer = self.open_writer()
        # As in `Writer.put`, a single text may exceed the limit of an empty queue.
        if (writer.waiting or len(texts) > 1) and writer.waiting + sum(texts) > writer.limit:
            raise InputRefused(str(pump.InputFull(writer.waiting, writer.limit)))
