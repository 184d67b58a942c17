from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

from tests.running_daemon import RunningDaemon

SECRET = "hunter2-of-the-user"
READS = """
for file in environ mem maps; do
    head -c 1 /proc/$PPID/$file >/dev/null 2>&1 && echo "read $file"
done
readlink /proc/$PPID/fd/0 && echo "read a descriptor"
tr '\\0' '\\n' </proc/$PPID/environ
grep -E "^(Pid|PPid)" /proc/$PPID/status
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs util-linux's setpriv")
def test_a_tool_cannot_read_the_daemons_environment(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    # Root may inspect every process unless these capabilities are dropped.
    drop = () if os.geteuid() else ("setpriv", "--bounding-set", "-sys_ptrace,-perfmon,-sys_admin")
    daemon = make_daemon(env={"SOME_TOKEN": SECRET}).start(prefix=drop)
    with daemon.connect() as wire:
        args = {"argv": ["sh", "-c", READS]}
        state = wire.call("spawn", tool="run", id="r", args=args, wait="stopped")
        text = state.get("result") or state["content"]
        assert f"Pid:\t{daemon.pid}\n" in text
        assert SECRET not in text and "read " not in text
        assert wire.call("daemon/status")["descriptors"] > 5
