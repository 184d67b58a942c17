"""Fields of /proc/<pid>/status."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from haftd.host.process import identity
from haftd.host.process.status import Status, read_status
from tests.faults.harness import until

SHELL = "trap '' TERM; kill -STOP $$"


def test_each_field_is_read_whole_and_by_its_own_name() -> None:
    status = Status(b"Name:\tSigIgn:\nState:\tS (sleeping)\nTgid:\t12\nSigIgn:\t0000000000004000\n")
    assert (status.run_state, status.number(b"Tgid")) == ("S", 12)
    assert status.has_signal(b"SigIgn", signal.SIGTERM)
    assert not status.has_signal(b"SigIgn", signal.SIGHUP)
    assert status.field(b"Tgi") is None and status.number(b"SigCgt", 16) == 0


def test_a_process_is_read_alive_dead_and_gone() -> None:
    def state(pid: int) -> str | None:
        status = read_status(pid)
        return None if status is None else status.run_state

    with subprocess.Popen(["sh", "-c", SHELL]) as child:
        until(lambda: state(child.pid) == "T", "a stop")
        status = read_status(child.pid)
        assert status is not None and status.has_signal(b"SigIgn", signal.SIGTERM)
        assert status.number(b"Tgid") == child.pid and status.field(b"VmSize")
        child.kill()
        until(lambda: state(child.pid) == "Z", "the end")
        status = read_status(f"{child.pid}/task/{child.pid}")
        assert status is not None and status.field(b"VmSize") is None
    assert read_status(child.pid) is None


def test_a_status_longer_than_one_read_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be in 65,536 groups, whose line comes before the signals."""
    path = tmp_path / "status"
    path.write_bytes(b"Groups:\t" + b"1000 " * 4000 + b"\nSigIgn:\t0000000000004000\n")
    open_file: Callable[[str], int] = lambda _: os.open(path, os.O_RDONLY)  # noqa: E731
    monkeypatch.setattr(identity, "_open", open_file)
    status = read_status(1)
    assert status is not None and status.has_signal(b"SigIgn", signal.SIGTERM)
