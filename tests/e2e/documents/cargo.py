"""A fake cargo, first in the path of its tools; each run goes on when the test releases the run."""

from __future__ import annotations

import os
from pathlib import Path

_CARGO = """#!/bin/sh
case $1 in
check) echo "    Checking $3 v0.1.0"; read go <"$GATES/check"; echo "ok, 0 warnings" ;;
test) echo "running 2 tests"; read go <"$GATES/test"
    echo "test reads ... ok"; echo "test writes ... FAILED"; exit 101 ;;
esac
"""

_TOOL = """
[tools.cargo_{what}]
source = "local"
stateful = true
actions = ["spawn", "fetch", "abort"]
output = "raw"
command = ["cargo", "{what}", "--package", "{{{{ tool.arguments.package | default('jp_cli') }}}}"]
env = {{ PATH = "{bin}:/usr/bin:/bin", GATES = "{gates}" }}
parameters.package = {{ type = "string" }}
"""


class Cargo:
    """The programs below `folder`, and the definitions of `cargo_check` and `cargo_test`."""

    def __init__(self, folder: Path) -> None:
        self.gates = folder / "gates"
        program = folder / "bin" / "cargo"
        for one in (self.gates, program.parent):
            one.mkdir()
        program.write_text(_CARGO)
        program.chmod(0o755)
        self.tools = ""
        for name in ("check", "test"):
            os.mkfifo(self.gates / name)
            self.tools += _TOOL.format(what=name, bin=program.parent, gates=self.gates)

    def go_on(self, kind: str) -> None:
        """Let a run go on, once that run is waiting."""
        (self.gates / kind).write_text("go\n")
