"""Resource usage of processes: shared pages count once, and an unreadable process uses nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from haftd.host.process import usage
from tests.faults.harness import until

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


def test_shared_pages_count_once_and_only_where_relevant() -> None:
    command = [sys.executable, "-c", _FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forks:
        assert forks.stdin is not None and forks.stdout is not None
        pids = [int(one) for one in forks.stdout.readline().split()]
        assert usage.measure_memory(pids, 1 << 40) > 4 * _HELD, (
            "the quick sum, where it is far from the bound"
        )
        assert _HELD < usage.measure_memory(pids, _HELD) < 2 * _HELD
        forks.stdin.close()
    # The first process is awaited; its children end a moment later.
    until(lambda: usage.measure_memory(pids, 0) == 0 and usage.read_cpu_s(pids) == 0.0, "their end")


_SHARED = f"""
import mmap, os, sys
x = mmap.mmap(-1, {_HELD})
x.write(bytes(1) * {_HELD})
if (pid := os.fork()) == 0:
    x[::4096]
    sys.stdin.read()
    os._exit(0)
print(os.getpid(), pid, flush=True)
sys.stdin.read()
"""


def test_shared_memory_counts() -> None:
    command = [sys.executable, "-c", _SHARED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shared:
        assert shared.stdin is not None and shared.stdout is not None
        pids = [int(one) for one in shared.stdout.readline().split()]
        assert usage.measure_memory(pids, 1 << 40) > _HELD
        assert _HELD < usage.measure_memory(pids, _HELD // 2) < 2 * _HELD
        shared.stdin.close()


def test_cpu_time_includes_that_of_awaited_children() -> None:
    before = usage.read_cpu_s([os.getpid(), _GONE])
    subprocess.run([sys.executable, "-c", "sum(range(6_000_000))"], check=True)
    assert usage.read_cpu_s([os.getpid(), _GONE]) > before


def told(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """Simulate this content of /proc."""

    def read(pid: int, file: str) -> bytes:
        if f"{pid}/{file}" not in files:
            raise FileNotFoundError(file)
        return files[f"{pid}/{file}"]

    monkeypatch.setattr(usage, "_read", read)


STATUS = b"VmRSS:\t%d kB\nRssAnon:\t%d kB\nRssFile:\t7 kB\n"
ROLLUP = b"Pss:\t%d kB\nPss_Anon:\t%d kB\n"


def test_memory_counts_data_and_no_mapped_file(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, {"1/status": STATUS % (90, 8), "1/smaps_rollup": ROLLUP % (80, 4)})
    assert usage.measure_memory([1, 2], 8 * 1024) == 8 * 1024, "what the bound is does not pass it"
    assert usage.measure_memory([1, 2], 8 * 1024 - 1) == 4 * 1024


def test_an_unreadable_process_counts_by_the_quick_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another user's process does not evade a limit by that."""
    files = {"1/status": STATUS % (90, 8), "2/status": STATUS % (90, 5)}
    told(monkeypatch, {**files, "2/smaps_rollup": ROLLUP % (80, 1)})
    assert usage.measure_memory([1, 2, 3], 0) == (8 + 1) * 1024


def test_a_process_that_ends_between_both_readings_uses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its quick sum has pages shared with the others, which count them as well."""
    files = {"1/status": STATUS % (90, 8), "1/smaps_rollup": ROLLUP % (80, 4)}
    told(monkeypatch, files)
    of_others = usage._read

    def read(pid: int, file: str) -> bytes:
        return ends.pop() if (pid, file) == (2, "status") and ends else of_others(pid, file)

    ends = [STATUS % (90, 8)]
    monkeypatch.setattr(usage, "_read", read)
    assert usage.measure_memory([1, 2], 0) == 4 * 1024
    assert not ends


def test_cpu_time_is_found_behind_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = b"1 (a) b (c) S " + b" ".join(b"%d" % n for n in range(4, 30))
    told(monkeypatch, {"1/stat": stat})
    assert usage.read_cpu_s([1, 2]) * os.sysconf("SC_CLK_TCK") == 14 + 15 + 16 + 17


def test_the_seconds_of_an_ended_child_go_to_the_counter_of_its_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(usage.ended, 5, 1.0)
    for tag in (5, 6, None):
        usage.count_end(tag, 0.5)
    assert usage.ended == {5: 1.5}
