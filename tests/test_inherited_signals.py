"""Children of the tests and of the bench heed C-c, however the run was started."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SHOW = "import subprocess; subprocess.run(['grep', 'SigIgn', '/proc/self/status'])"


def _ignored(code: str) -> set[int]:
    """Return the signals that a child of `code` ignores, where `code` is run with SIGINT and SIGHUP ignored."""
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT HUP; exec "$0" "$@"', sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
    )
    mask = int(done.stdout.split()[-1], 16)
    return {number for number in range(1, 32) if mask >> number - 1 & 1}


@pytest.mark.parametrize(
    ("before", "ignored"),
    [
        ("", {signal.SIGINT, signal.SIGHUP}),
        (
            "from tests.inherited_signals import accept_terminal_signals as a; a();",
            set[signal.Signals](),
        ),
    ],
    ids=["as it is", "accepted"],
)
def test_children_of_a_run_under_nohup(before: str, ignored: set[signal.Signals]) -> None:
    assert _ignored(before + SHOW) & {signal.SIGINT, signal.SIGHUP} == ignored


def test_children_of_a_run_under_perf() -> None:
    code = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
        "from tests.inherited_signals import accept_terminal_signals as a; a()\n"
    ) + SHOW.replace("SigIgn", "SigBlk")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(done.stdout.split()[-1], 16) == 0
