from __future__ import annotations

import contextlib
import errno
import fcntl
from pathlib import Path

import pytest

from haft_protocol.methods import Problem
from haftd import startup
from haftd.config.options import find_paths
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
    startup.private_folders(paths)
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
