"""Control of a process, also after its end; its input state, from the kernel's wait state."""

from __future__ import annotations

from haft_protocol.states import LeftBehind
from haftd.core.text import STRIPPED, Rendering
from haftd.host.input_state.read_state import ReadState
from haftd.host.process.ancestry import is_suspended
from haftd.launch_spec import shown_command
from haftd.runtimes.base import Call, InputRefused, InputState

from .child import Child


class ChildControl:
    """Part of `base.ExecutionControl` shared by pipes and terminals."""

    def __init__(self, call: Call, child: Child) -> None:
        self.child = child
        self.command = shown_command(call.launch.argv, call.tool)

    @property
    def pid(self) -> int | None:
        return self.child.pid

    @property
    def rendering(self) -> Rendering:
        return STRIPPED

    def kill(self) -> None:
        self.child.kill()

    def left_behind(self) -> tuple[LeftBehind, ...]:
        return self.child.left_behind()

    def members(self) -> tuple[int, ...]:
        return self.child.members()

    def read_output(self) -> None:
        self.child.read_output()

    def is_suspended(self) -> bool:
        return not self.child.ended and is_suspended(self.child.pid, self.child.pid)

    def hides_input(self) -> bool:
        return False

    def refuse_if_ended(self) -> None:
        if self.child.ended:
            raise InputRefused("The program has ended; it takes no input.")


_PATIENT_MS = 1500


def translate(wait: ReadState) -> InputState:
    """Return the input state of a wait state.

    A wait without timeout, or of `_PATIENT_MS` or more, is for input: a question with a time limit,
    a redraw (vim, top), a garbage collection (node). A shorter wait is routine: the rest of an
    escape, a poll of the keyboard. Unknown are relays of input, and event loops that work beside,
    or have a timer while the terminal is canonical: the loop may still watch the terminal since an earlier
    question.
    """
    unknown = InputState("unknown", wait.kind, processes=wait.processes, is_stable=wait.is_stable)
    if wait.state != "reads":
        return InputState("busy", wait.kind) if wait.state == "busy" and wait.certain else unknown
    is_short = wait.within_ms is not None and wait.within_ms < _PATIENT_MS
    may_be_stale = wait.within_ms is not None and not is_short and wait.kind != "key"
    if wait.relays or (wait.loops and (wait.at_work or may_be_stale)):
        return unknown
    if not is_short:
        return InputState("reads", wait.kind)
    return InputState("reads", wait.kind, wait.within_ms, wait.at_work)
