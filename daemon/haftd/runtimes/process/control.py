"""Control of a process, also after its end."""

from __future__ import annotations

from haft_protocol.states import LeftBehind
from haftd.core.text import STRIPPED, Rendering
from haftd.host.process.ancestry import is_suspended
from haftd.launch_spec import shown_command
from haftd.runtimes.base import Call, InputRefused

from .child import Child


class ChildControl:
    """Part of `base.ExecutionControl` shared by pipes and terminals."""

    def __init__(self, call: Call, child: Child) -> None:
        self.child = child
        self._command = shown_command(call.launch.argv)

    @property
    def pid(self) -> int | None:
        return self.child.pid

    @property
    def command(self) -> str:
        return self._command

    @property
    def rendering(self) -> Rendering:
        return STRIPPED

    def kill(self) -> None:
        self.child.kill()

    def left_behind(self) -> tuple[LeftBehind, ...]:
        return self.child.left_behind()

    def members(self) -> tuple[int, ...]:
        return self.child.members()

    def is_suspended(self) -> bool:
        return not self.child.ended and is_suspended(self.child.pid, self.child.pid)

    def hides_input(self) -> bool:
        return False

    def refuse_if_ended(self) -> None:
        if self.child.ended:
            raise InputRefused("The program has ended; it takes no input.")
