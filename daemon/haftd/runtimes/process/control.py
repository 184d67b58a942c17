"""What every grip on a process can do, whatever it is attached to.

Rules: a question is answered as of now, also when the process has ended. What a pipe and a terminal
do differently is not known here.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from haft_protocol.states import LeftBehind
from haftd.core.text import STRIPPED, Rendering
from haftd.host.process.ancestry import is_suspended
from haftd.runtimes.base import Call, InputRefused

from .child import Child

_MAX_COMMAND_LENGTH = 200


class ChildGrip:
    """What every grip on a process knows; see `base.ExecutionControl`."""

    def __init__(self, call: Call, child: Child) -> None:
        self.child = child
        self._command = _command_of(call.argv)

    @property
    def pid(self) -> int | None:
        """See `base.ExecutionControl`."""
        return self.child.pid

    @property
    def command(self) -> str:
        """See `base.ExecutionControl`."""
        return self._command

    @property
    def rendering(self) -> Rendering:
        """See `base.ExecutionControl`."""
        return STRIPPED

    def kill(self) -> None:
        """See `base.ExecutionControl`."""
        self.child.kill()

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """See `base.ExecutionControl`."""
        return self.child.left_behind()

    def members(self) -> tuple[int, ...]:
        """See `base.ExecutionControl`."""
        return self.child.members()

    def is_suspended(self) -> bool:
        """See `base.ExecutionControl`."""
        return not self.child.ended and is_suspended(self.child.pid, self.child.pid)

    def hides_input(self) -> bool:
        """See `base.ExecutionControl`. A pipe shows nothing by itself."""
        return False

    def refuse_if_ended(self) -> None:
        """Raise `InputRefused` when nobody is there any more."""
        if self.child.ended:
            raise InputRefused("The program has ended; it takes no input.")


def _command_of(argv: Sequence[str]) -> str:
    """What runs, for a person to read."""
    text = shlex.join(argv)
    return text if len(text) <= _MAX_COMMAND_LENGTH else text[: _MAX_COMMAND_LENGTH - 1] + "…"
