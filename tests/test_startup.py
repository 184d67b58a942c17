from __future__ import annotations

import contextlib
import errno
import fcntl
import sys
from pathlib import Path
from typing import cast

import pytest
import trio

from haft_protocol.methods import Problem
from haftd import __main__ as entry
from haftd import startup
from haftd.config.options import find_paths
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
from haftd.host.recovery.recovery import Recovery, Report
from haftd.startup import CannotStart


@pytest.mark.parametrize(
    ("code", "starts"),
    [(errno.ENOLCK, True), (errno.EOPNOTSUPP, True), (errno.EIO, False), (errno.EACCES, False)],
)
def test_a_state_folder_without_locks_is_named_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, starts: bool
) -> None:
    """A network home may have no locks; nothing else may prevent a start."""
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    paths = find_paths(env, 7)
    startup.prepare_folders(paths)
    flock = fcntl.flock

    def on_the_network(fd: int, operation: int) -> None:
        if "/.local/state/" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            raise OSError(code, "No locks available")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", on_the_network)
    problems: list[Problem] = []
    with contextlib.ExitStack() as stack:
        if starts:
            assert len(startup.take_locks(paths, problems, stack)) == 1
            (problem,) = problems
            assert problem.file.startswith(paths.state) and "second daemon" in problem.message
        else:
            with pytest.raises(CannotStart, match=paths.state):
                startup.take_locks(paths, problems, stack)


async def test_what_the_second_scan_finds_is_recorded_beside_running_handles(
    tmp_path: Path,
) -> None:
    """The scan comes once clients are served, so that the journal has live records by then."""

    def record(n: int, pid: int) -> Record:
        return Record(n, pid, 1, 2, "boot", 3, pid, 4, f"{'a' * 12}.{'b' * 12}.{n}")

    class Unkillable:
        steps = iter([0.0, 0.0])
        is_closed = False

        def report(self) -> Report:
            return Report(keep=(record(7, 20),), unconfirmed=(20,))

        def close(self) -> None:
            self.is_closed = True

    recovery, journal = Unkillable(), Journal.open(tmp_path / "handles.lock")
    journal.compact()
    journal.start(record(1, 10))
    with trio.CancelScope() as scope:
        scope.cancel()  # a stop waits for the scan
        report = await startup.finish_recovery(cast(Recovery, recovery), journal)
    assert next(recovery.steps, None) is None, "every step was taken"
    assert report.unconfirmed == (20,) and recovery.is_closed
    journal.close()
    assert [each.n for each in Journal.open(tmp_path / "handles.lock").records] == [1, 7]


def test_a_start_without_all_of_proc_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> str:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/b")

    def started(*_: object) -> str:
        raise AssertionError("it may not go on")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["haftd"])
    monkeypatch.setattr(entry, "boot_id", missing)
    monkeypatch.setattr(entry, "exec_with_tag", started)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    err = capsys.readouterr().err
    assert ended.value.code and "haftd: /proc/b: No such file" in err and "mount -t proc" in err
