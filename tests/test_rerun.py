"""The second run of tests that failed: few, alone, each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import rerun


def failed(folder: Path, *names: str) -> Path:
    """Write the cache of a run in which these tests failed."""
    cache = folder / "lastfailed"
    cache.write_text(json.dumps(dict.fromkeys(names, True)))
    return cache


def runner(*statuses: int) -> tuple[Callable[[Sequence[str]], int], list[Sequence[str]]]:
    """Make a run that ends with each of these in turn, and the list of its calls."""
    calls: list[Sequence[str]] = []

    def run(tests: Sequence[str]) -> int:
        calls.append(tests)
        return statuses[len(calls) - 1]

    return run, calls


def test_tests_that_pass_alone_each_time_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, calls = runner(*[0] * rerun.REPETITIONS)
    assert rerun.main(1, failed(tmp_path, "a::one", "b::two"), run) == 0
    assert calls == [["a::one", "b::two"]] * rerun.REPETITIONS
    out = capsys.readouterr().out
    assert "UNSTEADY: a::one" in out and "UNSTEADY: b::two" in out


@pytest.mark.parametrize("passes", range(rerun.REPETITIONS))
def test_tests_that_fail_once_more_fail_the_run(tmp_path: Path, passes: int) -> None:
    run, calls = runner(*[0] * passes, 1)
    assert rerun.main(1, failed(tmp_path, "a"), run) == 1
    assert len(calls) == passes + 1


@pytest.mark.parametrize(
    ("status", "names"),
    [(1, [str(number) for number in range(rerun.MAX_TESTS + 1)]), (1, []), (2, ["a"])],
)
def test_another_failed_run_keeps_its_status(tmp_path: Path, status: int, names: list[str]) -> None:
    run, calls = runner()
    assert rerun.main(status, failed(tmp_path, *names), run) == status
    assert rerun.main(status, tmp_path / "none", run) == status
    assert not calls


def test_a_test_that_fails_alone_is_seen(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(): assert 0\n")
    assert rerun.run_alone([f"{test}::test_it"]) == 1
