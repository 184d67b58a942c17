"""Record tmux's bytes for its key names, as `tmux_keys.json`: mode → name → hex.

    python -m tests.runtimes.record_keys

No test runs this module: the table is of one version of tmux. A refused name is null, a name
without bytes is "".
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .record_corpus import Tmux

TABLE = Path(__file__).with_name("tmux_keys.json")
MODES = {
    "first": b"",
    "cursor": b"\x1b[?1h",
    "keypad": b"\x1b=",
}
_NAMED = (
    *("Enter", "Tab", "BTab", "BSpace", "Space", "Escape", "Up", "Down", "Left", "Right", "Home"),
    *(
        "End",
        "PPage",
        "PageUp",
        "PgUp",
        "NPage",
        "PageDown",
        "PgDn",
        "IC",
        "Insert",
        "DC",
        "Delete",
    ),
    *("KPEnter", "KP+", "KP-", "KP*", "KP/", "KP.", *(f"KP{n}" for n in range(10))),
    *(f"F{n}" for n in range(1, 13)),
)
_CHARS = (*"azAZ059;/.,@[]\\^_?~-=+!<", "é", "漢")
_MODIFIERS = ("", "C-", "M-", "S-", "C-M-", "C-S-", "M-S-", "C-M-S-")
NAMES = tuple(
    modifier + name for modifier, name in itertools.product(_MODIFIERS, (*_NAMED, *_CHARS))
)
_READER = """
import os, sys, tty
tty.setraw(0)
os.write(1, bytes.fromhex(sys.argv[2]))
log = open(sys.argv[1], "ab", buffering=0)
log.write(b"R")
while True:
    log.write(os.read(0, 4096).hex().encode() + b" ")
"""
_LAST = "x"


def _record(mode: bytes) -> dict[str, str | None]:
    with tempfile.TemporaryDirectory() as folder, Tmux(Path(folder)) as tmux:
        log = Path(folder) / "log"
        (Path(folder) / "reader.py").write_text(_READER)
        tmux("new-session", "-d", f"{sys.executable} {folder}/reader.py {log} '{mode.hex()}'")
        _until(log, lambda data: data.startswith(b"R"))
        tmux.settle()
        told: dict[str, str | None] = {}
        at = 1
        for name in NAMES:
            # The character behind the key proves that the key was processed.
            given = name[:-1] + "\\;" if name.endswith(";") else name
            refused = tmux.refuses("send-keys", given, ";", "send-keys", "-l", _LAST)
            if refused:
                told[name] = None
                continue
            data = _until(log, lambda data, at=at: data[at:].endswith(b"78 "))
            told[name] = data[at:].replace(b" ", b"").decode().removesuffix("78")
            at = len(data)
        return told


def _until(log: Path, is_so: Callable[..., bool]) -> bytes:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        data = log.read_bytes() if log.exists() else b""
        if is_so(data):
            return data
        time.sleep(0.002)
    raise TimeoutError(f"tmux sends nothing; the log ends with {data[-40:]!r}")


if __name__ == "__main__":
    table = {name: _record(mode) for name, mode in MODES.items()}
    TABLE.write_text(json.dumps(table, indent=0, ensure_ascii=False) + "\n")
