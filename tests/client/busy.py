"""The command line, with drawing that never ends once the program has printed `forever`."""

from __future__ import annotations

from haft.__main__ import main
from haft.cli.terminal import own_terminal
from haft.cli.terminal.terminal_modes import TerminalModes

_note = TerminalModes.note


def _without_end(modes: TerminalModes, data: bytes) -> bytes:
    while b"forever" in data:
        pass
    return _note(modes, data)


if __name__ == "__main__":
    TerminalModes.note = _without_end  # type: ignore[assignment, method-assign]
    own_terminal._OVERDUE_S = 0.5
    raise SystemExit(main())
