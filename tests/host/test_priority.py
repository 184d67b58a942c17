"""The daemon goes before its handles where the kernel grants it; children have the usual priority."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

SHOW = """
import json, os, subprocess, sys
from pathlib import Path
from haftd.host.priority import prefer_daemon
os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[1]))
if len(sys.argv) > 2:
    os.setuid(int(sys.argv[2]))
raised = prefer_daemon()
child = ["sh", "-c", "nice"]
group = Path("/proc/self/autogroup")
print(json.dumps({
    "raised": raised,
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "child": int(subprocess.run(child, capture_output=True, check=True).stdout),
    "group": int(group.read_text().split()[-1]) if group.exists() else None,
}))
"""


def shown(nice: int, *user: int) -> dict[str, Any]:
    argv = [sys.executable, "-c", SHOW, str(nice), *map(str, user)]
    done = subprocess.run(argv, capture_output=True, check=True, start_new_session=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can raise a priority")
def test_the_daemon_goes_before_its_children() -> None:
    now = shown(0)
    assert (now["raised"], now["nice"], now["child"]) == (True, -10, 0)
    assert now["group"] in (-10, None)


def test_a_chosen_priority_is_kept_and_inherited() -> None:
    now = shown(5)
    assert (now["raised"], now["nice"], now["child"]) == (False, 5, 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_the_right_nothing_changes() -> None:
    now = shown(0, 65534)
    assert (now["raised"], now["nice"], now["child"]) == (False, 0, 0)


DEFER = """
import os, subprocess, sys
from haftd.host import priority
if sys.argv[1] == "preferred":
    os.setpriority(os.PRIO_PROCESS, 0, 0)  # the tests may run at another
    assert priority.prefer_daemon()
child = subprocess.Popen(["sh", "-c", "read go; nice; sh -c nice"], stdin=-1, start_new_session=True)
priority.defer_process(child.pid)
child.communicate(b"go\\n")
"""


@pytest.mark.parametrize("how", ["usual", "preferred"])
def test_a_process_and_its_children_go_to_the_end_of_the_queue(how: str) -> None:
    """Also beside a daemon that goes before: thousands would outweigh it in one group."""
    if how == "preferred" and os.geteuid() != 0:
        pytest.skip("only root can raise a priority")
    argv = [sys.executable, "-c", DEFER, how]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["19", "19"]
