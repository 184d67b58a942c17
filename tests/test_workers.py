"""Forked test workers: a run by them equals a run by pytest alone, and survives their ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]

FILES = {
    "test_results.py": """
import os, pathlib, signal, warnings
import pytest

@pytest.fixture(scope="module")
def resource():
    log("set up")
    yield 1
    log("torn down")

@pytest.fixture
def broken_at_the_end():
    yield
    raise LookupError("in the teardown")

def log(text):
    with pathlib.Path("log").open("a") as file:
        file.write(f"{text}\\n")

def test_pass(resource):
    log(f"pass in {os.getpid()}")

def test_fail(resource):
    print("printed by python")
    os.system("echo printed by a child")
    left, right = [1, 2], [1, 3]
    assert left == right

@pytest.mark.skip(reason="a reason to skip")
def test_skip(): pass

def test_teardown(broken_at_the_end): pass

def test_warn():
    warnings.warn("a warning that is an error")

def test_kill(resource):
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_the_kill():
    log(f"after the kill in {os.getpid()}")
""",
    "test_folders_a.py": """
def test_folder(tmp_path):
    assert tmp_path.parent.name.startswith("w")
    (tmp_path / "file").touch()
    assert len(list(tmp_path.iterdir())) == 1
""",
}
FILES["test_folders_b.py"] = FILES["test_folders_a.py"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of the folder by forked workers."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.workers",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, f"--rootdir={folder}", f"--basetemp={folder / 'tmp'}", *words, str(folder)],
        cwd=folder,
        # The plugins of other packages take two thirds of the time of such a run.
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_each_result_is_reported_as_by_pytest(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    end = run(tmp_path, "--workers", "2", "-ra")
    assert end.returncode == 1, end.stdout + end.stderr
    assert "3 failed, 5 passed, 1 skipped, 1 error in" in end.stdout, end.stdout
    # As pytest explains an assertion, with all output of the test.
    assert "At index 1 diff: 2 != 3" in end.stdout
    assert "printed by python" in end.stdout and "printed by a child" in end.stdout
    assert "a reason to skip" in end.stdout
    assert "LookupError: in the teardown" in end.stdout
    assert "a warning that is an error" in end.stdout
    assert "the worker of this test ended with status -9" in end.stdout
    assert end.stderr == ""
    # The file's fixture is made once; the file is finished in another worker.
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0] == "set up" and log.count("set up") == 1
    assert log[1].startswith("pass in") and log[-1].startswith("after the kill in")
    assert log[1].split()[-1] != log[-1].split()[-1]


def test_a_run_that_ends_at_the_first_failure_tears_down(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def resource():\n    yield\n    pathlib.Path('torn').touch()\n"
        "def test_a(resource): assert 0\n"
        "def test_b(resource): pass\n"
    )
    end = run(tmp_path, "--workers", "1", "-x")
    assert end.returncode == 1 and "stopping after 1 failures" in end.stdout, end.stdout
    assert "passed" not in end.stdout.splitlines()[-1]
    assert (tmp_path / "torn").exists()


AHEAD = {
    "test_ahead.py": """
import os, signal

def test_ahead():
    with open("running", "w") as running:
        running.write("ahead")

def test_kill():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_the_kill(): pass
""",
    "test_rest.py": f"""
import os, select

RUNNING = os.open("running", os.O_RDONLY | os.O_NONBLOCK)
READY = select.select([RUNNING], [], [], {PATIENCE_S})[0]

def test_rest():
    assert READY
""",
}


def test_a_file_ahead_runs_while_the_others_are_collected(tmp_path: Path) -> None:
    for name, text in AHEAD.items():
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "running")
    end = run(tmp_path, "--workers", "1", "--ahead", "test_ahead.py")
    assert "1 failed, 3 passed in" in end.stdout, end.stdout + end.stderr
    assert "the worker of this test ended with status -9" in end.stdout
    assert end.stderr == ""


def test_a_file_ahead_ends_with_a_run_that_cannot_collect(tmp_path: Path) -> None:
    (tmp_path / "test_ahead.py").write_text(
        "import pathlib\ndef test_ahead(tmp_path): pathlib.Path('ran').touch()\n"
    )
    (tmp_path / "test_rest.py").write_text("raise LookupError\n")
    end = run(tmp_path, "--workers", "2", "--ahead", "test_ahead.py")
    assert end.returncode == 2 and "1 error in" in end.stdout, end.stdout + end.stderr
    assert end.stderr == ""


@pytest.mark.parametrize("words", [["--workers", "2", "--collect-only"], []])
def test_a_run_without_workers_is_left_to_pytest(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(tmp_path): assert tmp_path.parent.name == 'tmp'\n"
    )
    end = run(tmp_path, *words)
    assert end.returncode == 0, end.stdout
