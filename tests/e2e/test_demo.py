from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def test_the_demonstration_runs_to_its_end_and_leaves_nothing(short_tmp: Path) -> None:
    env = {**os.environ, "TMPDIR": str(short_tmp)}
    done = subprocess.run(
        [sys.executable, "-m", "haft.demo"], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(\d)\. ", done.stdout, re.M) == ["1", "2", "3", "4", "5", "6", "7"]
    *_, rest = done.stdout.partition("6. git has ended by itself.")
    assert re.findall(r"^     ([-+].*)$", rest, re.M) == [
        "-and the edge is what everyone sees.",
        "+and an edge is what everyone sees.",
        "-but the haft of it, friend, is mine.",
        "+but the haft of it, friend, was mine.",
    ]
    assert list(short_tmp.iterdir()) == []
