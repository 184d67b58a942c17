"""The second run of tests that failed: few, alone, each time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import rerun


def failed(folder: Path, *names: str) -> Path:
    """Write the failed tests' names as a run does."""
    file = folder / "failed"
    file.write_text("".join(f"{name}\n" for name in names))
    return file


def runner(*statuses: int) -> tuple[Callable[[Sequence[str]], int], list[Sequence[str]]]:
    """Return a run that ends with each of these in turn, and the list of its calls."""
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


def test_a_run_writes_the_names_of_its_failed_tests(tmp_path: Path) -> None:
    root = Path(__file__).parent
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken(): assert 0\n"
        "def test_a(): pass\ndef test_b(): assert 0\ndef test_c(broken): pass\n"
    )
    env = {
        **os.environ,
        "FAILED_TESTS": str(tmp_path / "failed"),
        "PYTHONPATH": str(root.parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.workers",
        "--workers",
        "1",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    end = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert end.returncode == 1, end.stdout
    names = (tmp_path / "failed").read_text().splitlines()
    assert names == ["test_it.py::test_b", "test_it.py::test_c"]


def test_a_test_that_fails_alone_is_reported(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(): assert 0\n")
    assert rerun.run_alone([f"{test}::test_it"]) == 1
