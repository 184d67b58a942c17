"""What a start loads: whoever opens an editor waits for it, and so does each activation by a socket.

The interpreter tells it itself, in the order of loading; the daemon has executed itself in between.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.running import RunningDaemon

LATER = [
    "asyncio.events",
    "h11",
    "haft",
    "httpcore",
    "httpx",
    "http.server",
    "importlib.metadata",
    "importlib.resources",
    "jsonschema",
    "mcp",
    "psutil",
    "pyghostty",
    "pygments",
    "referencing",
    "rich.console",
    "trio_websocket",
    "wsproto",
]
"""What is loaded when it is first needed, or never."""

AGAIN = ("haftd.config.settings", "haftd.app", "structlog", "trio")
"""What is loaded once: not by a process that is about to execute itself again."""


@pytest.fixture
def loaded(make_daemon: Callable[..., RunningDaemon]) -> list[set[str]]:
    """The modules of each of the two programs that a start is, when the daemon has answered."""
    daemon = make_daemon(env={"PYTHONPROFILEIMPORTTIME": "1"}).start()
    with daemon.connect() as wire:
        wire.call("initialize", client={"name": "test", "version": "1"}, protocol=1)
        wire.call("ping")
    programs: list[set[str]] = []
    for name in re.findall(r"^import time:.*\| *(\S+)$", daemon.log_text(), re.M):
        if name == "encodings":  # the first of every interpreter, but for what it is itself made of
            programs.append(set())
        if programs:
            programs[-1].add(name)
    return programs


def test_a_start_loads_nothing_that_the_first_answer_does_not_need(
    loaded: list[set[str]],
) -> None:
    first, second = loaded
    assert "haftd.config.options" in first and {"haftd.app", "trio", "msgspec"} <= second
    assert {name for name in LATER if name in second} == set()
    assert {name for name in AGAIN if name in first} == set()


_SERVES = """
import gc, os, haftd.app
from haftd.config.options import find_paths, read_options

async def serve(*_):
    print(gc.isenabled(), gc.get_freeze_count() > 0, flush=True)
    os._exit(0)

haftd.app.serve_unix = serve
gc.disable()
options = read_options([])
haftd.app.run(options, find_paths(os.environ, os.getuid(), options), "0" * 12)
"""


def test_garbage_is_looked_for_again_once_it_serves(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    env = make_daemon().env
    done = subprocess.run([sys.executable, "-c", _SERVES], env=env, capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr
