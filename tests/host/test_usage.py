"""What processes use: own pages once, however many share them; who cannot be read uses nothing."""

from __future__ import annotations

import os
import subprocess
import sys

from haftd.host import usage

_GONE = 4_190_000
_HELD = 30_000_000
_FORKS = f"""
import os, sys
x = bytes(1) * {_HELD}
pids = [os.getpid()]
for _ in range(3):
    if (pid := os.fork()) == 0:
        sys.stdin.read()
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
"""


def test_shared_pages_count_once_and_only_where_it_matters() -> None:
    command = [sys.executable, "-c", _FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forks:
        assert forks.stdin is not None and forks.stdout is not None
        pids = [int(one) for one in forks.stdout.readline().split()]
        assert usage.memory(pids, 1 << 40) > 4 * _HELD, (
            "the quick sum, where it is far from the bound"
        )
        assert _HELD < usage.memory(pids, _HELD) < 2 * _HELD
        forks.stdin.close()
    assert usage.memory(pids, 0) == 0 and usage.cpu_s(pids) == 0.0


def test_processor_time_is_counted_with_that_of_children_that_were_waited_for() -> None:
    before = usage.cpu_s([os.getpid(), _GONE])
    subprocess.run([sys.executable, "-c", "sum(range(6_000_000))"], check=True)
    assert usage.cpu_s([os.getpid(), _GONE]) > before
