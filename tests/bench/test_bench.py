from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running_daemon import RunningDaemon

from . import host_calls, roundtrips, spawns, wasm
from .commits import Side, interval, ratios
from .interleaved_timer import Case, interleave, percentile, ratio
from .report import Section, markdown, replaced, spell, timings


def test_every_case_runs_in_every_round_and_clears_up_after_each_step() -> None:
    done: list[str] = []
    cases = [
        Case(name, lambda name=name: done.append(name), per_round=2, after=lambda: done.append("."))  # type: ignore[misc]
        for name in "ab"
    ]
    interleave(cases, rounds=4, seconds=60)
    assert [len(case.rounds) for case in cases] == [4, 4]
    assert done[:4] == ["a", ".", "b", "."]  # once each, to warm up
    assert {tuple(done[at : at + 8]) for at in range(4, len(done), 8)} <= {
        ("a", ".", "a", ".", "b", ".", "b", "."),
        ("b", ".", "b", ".", "a", ".", "a", "."),
    }


def test_at_least_three_rounds_run_even_when_time_is_over() -> None:
    case = Case("slow", lambda: None)
    interleave([case], rounds=10, seconds=0)
    assert len(case.rounds) == 3


def test_a_ratio_is_taken_within_rounds() -> None:
    base, other = Case("base", lambda: None), Case("other", lambda: None)
    # The machine got ten times slower for the second round.
    base.rounds = [[1.0, 1.0, 9.0], [10.0], [1.0]]
    other.rounds = [[2.0], [20.0], [3.0]]
    assert ratio(other, base) == 2
    assert percentile([3, 1, 2], 0.99) == 3


def test_a_table_has_its_baseline_in_it_and_keeps_its_columns() -> None:
    base, other = Case("a | b", lambda: None), Case("c", lambda: None)
    base.rounds, other.rounds = [[2e-6]], [[5e-3]]
    text = markdown(["a machine"], [timings("Title", "Note.", [base, other], base)])
    assert text.splitlines()[0] == "- a machine"
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == ["| a \\| b | 2 µs | 2 µs | 1 |", "| c | 5 ms | 5 ms | 2500 |"]
    assert spell(1.5) == "1.50 s"


def test_a_table_measured_alone_replaces_its_predecessor() -> None:
    old = [Section(title, "Old.", ["", "time"], [["a", "1 s"]]) for title in ("First", "Second")]
    page = markdown(["a machine"], old)
    assert replaced(page, old) == page
    new = [Section(title, "New.", ["", "time"], [["b", "2 s"]]) for title in ("First", "Third")]
    assert replaced(page, new) == markdown(["a machine"], [new[0], old[1], new[1]])


@pytest.fixture
def bench_daemon(make_daemon: Callable[..., RunningDaemon]) -> RunningDaemon:
    daemon = make_daemon("[websocket]\nport = 0\n")
    daemon.tools(spawns.TOOL)
    return daemon.start()


@pytest.mark.parametrize(
    "measure",
    [
        lambda daemon, folder: roundtrips.calls(daemon, folder, 0),
        lambda daemon, folder: roundtrips.lines_to_cat(daemon, folder, 0),
        lambda daemon, folder: spawns.one(daemon, 0),
        lambda daemon, folder: wasm.call(folder, 0, functions=2),
        lambda daemon, folder: host_calls.calls(folder, 0),
    ],
    ids=["calls", "lines", "spawns", "wasm", "mediated"],
)
def test_the_daemon_answers_the_benchmarks_requests(
    measure: Callable[[RunningDaemon, Path], Section], bench_daemon: RunningDaemon, short_tmp: Path
) -> None:
    section = measure(bench_daemon, short_tmp)
    assert len({len(row) for row in section.rows}) == 1
    assert "1" in [row[3] for row in section.rows]


def test_two_commits_are_compared_within_rounds() -> None:
    base, head = Case("a", lambda: None), Case("a", lambda: None)
    base.rounds = [[1.0], [10.0], [2.0]]
    head.rounds = [[2.0], [20.0], [4.0]]
    assert ratios(base, head) == [2, 2, 2] and interval(ratios(base, head)) == (2, 2)
    low, high = interval([0.9, 1.0, 1.1, 1.0, 0.95, 1.05, 1.0, 1.2, 0.8])
    assert 0.9 <= low < 1 < high <= 1.2


def test_each_side_runs_its_own_sources(tmp_path: Path) -> None:
    side = Side("HEAD", tmp_path)
    assert side.run("-c", "import haftd; print(haftd.__file__)").startswith(str(side.tree))
