"""The command line, but its drawing never comes to an end once the program has printed `forever`."""

from __future__ import annotations

from haft.__main__ import main
from haft.cli.terminal import own_terminal
from haft.cli.terminal.drawing import Drawing

_draw = Drawing.draw


def _without_end(drawing: Drawing, data: bytes) -> bytes:
    while b"forever" in data:
        pass
    return _draw(drawing, data)


if __name__ == "__main__":
    Drawing.draw = _without_end  # type: ignore[assignment, method-assign]
    own_terminal._OVERDUE_S = 0.5
    raise SystemExit(main())
