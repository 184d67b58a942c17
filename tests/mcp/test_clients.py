"""The Python SDK's client drives a staging session with a question, across kills of `haft mcp` and
of the host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.mcp.client_host import ClientHost, drive_across_two_kills
from tests.running_daemon import RunningDaemon

_HOST = (sys.executable, str(Path(__file__).with_name("python_host.py")))


@pytest.mark.clients
@pytest.mark.parametrize(
    ("mode", "era"), [("2026-07-28", "modern"), ("auto", "modern"), ("legacy", "legacy")]
)
def test_the_python_sdks_client_drives_a_session_across_two_kills(
    shared_daemon: RunningDaemon, tmp_path: Path, mode: str, era: str
) -> None:
    drive_across_two_kills(lambda root: ClientHost(_HOST, shared_daemon, root, mode), tmp_path, era)
