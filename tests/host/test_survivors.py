"""What could not be ended is held only while it is the handle's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from haftd.host.tree.survivors import Remains

MARK = "aaaaaaaaaaaa.bbbbbbbbbbbb.7"


@pytest.fixture(params=[MARK, f"{MARK}1", ""], ids=["ours", "another handle's", "a stranger"])
def marked(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[bytes], bool]]:
    """A process, and whether it is of the handle."""
    env = {**os.environ, "HAFT_HANDLE": request.param}
    with subprocess.Popen(["sleep", "300"], env=env) as child:
        yield child, request.param == MARK
        child.kill()


def test_a_number_that_another_process_has_by_now_is_not_held(
    marked: tuple[subprocess.Popen[bytes], bool],
) -> None:
    child, is_ours = marked
    remains = Remains([child.pid], MARK)
    try:
        assert [one.pid for one in remains.living()] == [child.pid] * is_ours
        remains.kill()
        if is_ours:
            assert child.wait(20) == -signal.SIGKILL
        else:
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == -signal.SIGTERM
        assert remains.living() == ()
    finally:
        remains.close()
