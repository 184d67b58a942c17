"""Hold the conversation with a daemon of its own, and return lines of JSON."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.running_daemon import RunningDaemon

from .script import CONFIG, TOOLS, converse

RECORDED = Path(__file__).with_name("recorded.jsonl")


def record() -> str:
    """Return the conversation; each line has the connection, the direction and the message."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder, config=CONFIG)
    daemon.tools(TOOLS)
    try:
        daemon.start()
        lines = [json.dumps(line, ensure_ascii=False) for line in converse(daemon)]
    finally:
        daemon.close()
        shutil.rmtree(folder, ignore_errors=True)
    return "".join(f"{line}\n" for line in lines)
