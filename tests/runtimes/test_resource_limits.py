"""Limits: counted here, and inferred from a program's end."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.host.cgroup import Cgroup
from haftd.host.launch.launched_process import Exit
from haftd.host.limit_group import LimitGroup
from haftd.host.process import usage
from haftd.runtimes.process.resource_limits import FIRST_PAUSE_S, ResourceLimits


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(0, 60))
def test_exactly_the_output_within_the_limit_is_kept(parts: list[bytes], most: int) -> None:
    bounds = ResourceLimits({"output": most})
    kept, passed = b"", False
    for part in parts:
        data, over = bounds.count(part)
        kept += data
        passed = passed or over
    whole = b"".join(parts)
    assert kept == whole[:most]
    assert passed == (len(whole) > most)


def test_without_a_limit_all_output_is_kept_and_none_is_exceeded() -> None:
    bounds = ResourceLimits({})
    assert bounds.count(b"Out of memory") == (b"Out of memory", False)
    assert bounds.exceeded(Exit(code=1)) is None
    assert bounds.wall_left is None


def test_time_is_summed_over_all_runs() -> None:
    bounds = ResourceLimits({"wall_s": 5})
    bounds.spent(2.0)
    assert bounds.wall_left == 3.0
    bounds.spent(9.0)
    assert bounds.wall_left == 0.0


def test_kernel_limits_are_inferred_from_the_end() -> None:
    assert ResourceLimits({"cpu_s": 1}).exceeded(Exit(signal="XCPU")) == "cpu_s"
    assert ResourceLimits({"cpu_s": 1}).exceeded(Exit(code=152)) == "cpu_s"
    assert ResourceLimits({"memory": 1}).exceeded(Exit(signal="XCPU")) is None
    for text, limit in (
        (b"MemoryError", "memory"),
        (b"sh: 1: Cannot fork", "processes"),
        (b"bash: fork: retry: Resource temporarily unavailable", "processes"),
        (b"memory allocation of 99 bytes failed", "memory"),
    ):
        bounds = ResourceLimits({"memory": 1, "processes": 1})
        bounds.count(b"x" * 9000)
        bounds.count(text)
        assert bounds.exceeded(Exit(code=1)) == limit
        assert bounds.exceeded(Exit(code=0)) is None


@pytest.mark.parametrize(
    ("limits", "looks", "pause_s"),
    [
        # (processor seconds, threads, bytes) of each look
        ({"cpu_s": 100}, [(0, 1, 0), (1, 1, 0)], 4.0),
        ({"cpu_s": 1}, [(0, 1, 0), (0.5, 1, 0)], 0.5),
        ({"cpu_s": 1}, [(0.5, 1, 0), (0.5, 1, 0)], 4.0),
        ({"memory": 1 << 40}, [(0, 1, 0), (1, 1, 0)], 4.0),
        ({"memory": 2 << 30}, [(0, 1, 0), (1, 1, 1 << 30)], 1.0),
        ({"memory": 1 << 30}, [(0, 1, 0), (1, 1, 1 << 29)], 0.5),
        ({"processes": 9, "memory": 1 << 40}, [(0, 1, 0), (1, 2, 0)], 0.5),
    ],
)
def test_a_look_is_late_where_little_can_have_changed(
    limits: dict[str, float],
    looks: list[tuple[float, int, int]],
    pause_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    bounds = ResourceLimits(limits)
    for cpu_s, tasks, memory in looks:
        for clock in ("read_cpu_s", "read_clocks_s"):
            monkeypatch.setattr(usage, clock, lambda pids, value=cpu_s: value)
        monkeypatch.setattr(usage, "count_threads", lambda pids, value=tasks: value)
        monkeypatch.setattr(usage, "measure_memory", lambda pids, bound, value=memory: value)
        assert bounds.passed_count((7,)) is bounds.passed_sum((7,)) is None
    assert bounds.longest_pause_s == pause_s


def test_a_growing_number_of_processes_is_counted_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forks that double themselves are found while they are few."""
    bounds = ResourceLimits({"processes": 9})
    pauses = []
    for count in (1, 1, 3, 2, 3, 4):
        monkeypatch.setattr(usage, "count_threads", lambda pids, value=count: value)
        assert bounds.passed_count((7,)) is None
        pauses.append(bounds.next_pause_s(0.1))
    assert pauses == [0.2, 0.2, FIRST_PAUSE_S, 0.2, 0.2, FIRST_PAUSE_S]


def test_the_kernel_s_counts_are_not_summed() -> None:
    bounds = ResourceLimits({"processes": 0, "output": 9})
    assert bounds.passed_count((os.getpid(),)) == "processes"
    group = LimitGroup(Cgroup(Path("/nowhere")), {"processes": 0}, is_separate=True)
    bounds.follow("", group)
    assert bounds.passed_count((os.getpid(),)) is None
    assert not bounds.are_polled
