"""Modules loaded by a start, which an editor and each socket activation wait for. The
interpreter reports them in the order of loading; the daemon has executed itself in between."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.running_daemon import RunningDaemon

LATER = [
    "asyncio.events",
    "email",
    "h11",
    "haft",
    "httpcore",
    "httpx",
    "http.server",
    "importlib.metadata",
    "importlib.resources",
    "jsonschema",
    "lzma",
    "mcp",
    "oslash.maybe",
    "psutil",
    "pyghostty",
    "pygments",
    "referencing",
    "rich.console",
    "trio_websocket",
    "wsproto",
]
"""What is loaded when it is first needed, or never."""

AGAIN = (
    "dataclasses",
    "haftd.config.options",
    "haftd.app",
    "inspect",
    "msgspec",
    "pathlib",
    "structlog",
    "trio",
    "typing",
)
"""What is loaded once: not by a process that is about to execute itself again."""


@pytest.fixture
def loaded(make_daemon: Callable[..., RunningDaemon]) -> list[set[str]]:
    """Return the modules of each of the two programs of a start, once the daemon has answered."""
    daemon = make_daemon(env={"PYTHONPROFILEIMPORTTIME": "1"}).start()
    with daemon.connect() as wire:
        wire.call("initialize", client={"name": "test", "version": "1"}, protocol=1)
        wire.call("ping")
    programs: list[set[str]] = []
    for name in re.findall(r"^import time:.*\| *(\S+)$", daemon.log_text(), re.M):
        if name == "encodings":  # the first of every interpreter, apart from those built in
            programs.append(set())
        if programs:
            programs[-1].add(name)
    return programs


def test_a_start_loads_only_modules_needed_for_the_first_answer(
    loaded: list[set[str]],
) -> None:
    first, second = loaded
    assert "haftd.config.command_line" in first and {"haftd.app", "trio", "msgspec"} <= second
    assert {name for name in LATER if name in second} == set()
    assert {name for name in AGAIN if name in first} == set()


_COUNTS = """
import dataclasses, inspect
made, written = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *options: made.append(cls.__module__) or written(cls, *options)
import haftd.app
print(*(name for name in made if name.startswith("haft")))
"""


def test_no_module_of_a_start_makes_a_dataclass() -> None:
    """`dataclass` compiles source for each class: half a millisecond to two of each start."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNTS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


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


def test_garbage_collection_is_enabled_once_serving(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    env = make_daemon().env
    done = subprocess.run([sys.executable, "-c", _SERVES], env=env, capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr
