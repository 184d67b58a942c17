"""Measure every figure beside its baseline in one run (`make bench`). Takes about three minutes,
and one more for every three `--drive-runs`. `--write` puts the report into
docs/benchmarks.md; `--only` measures the named tables alone."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.inherited_signals import accept_terminal_signals
from tests.running_daemon import RunningDaemon

from . import (
    counts,
    growth,
    host_calls,
    machine,
    mcp,
    memory,
    readers,
    roundtrips,
    spawns,
    startup,
    throughput,
    wasm,
)
from .drive.compare import drive
from .report import Section, markdown, replaced

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN = "<!-- From here to the end mark: written by `make bench`. -->"
END = "<!-- The end of what is written. -->"


TABLES = (
    *(
        "counts",
        "operations",
        "growth",
        "calls",
        "cat",
        "spawn",
        "wasm",
        "mediated",
        "fifty",
        "flood",
        "readers",
        "memory",
        "start",
    ),
    *("mcp", "drive"),
)


def measure(folder: Path, tables: Sequence[str], seconds: float, drive_runs: int) -> list[Section]:
    """Measure the named tables; `seconds` is the time for each but the last."""
    daemon = RunningDaemon(folder / "daemon", config="[websocket]\nport = 0\n")
    daemon.tools(spawns.TOOL)
    daemon.start()
    sections: dict[str, Callable[[], Section]] = {
        "counts": lambda: counts.commands(daemon, folder),
        "operations": lambda: counts.operations(daemon, folder),
        "growth": lambda: growth.calls(folder, 2 * seconds),
        "calls": lambda: roundtrips.calls(daemon, folder, 1.5 * seconds),
        "cat": lambda: roundtrips.lines_to_cat(daemon, folder, seconds),
        "spawn": lambda: spawns.one(daemon, seconds),
        "wasm": lambda: wasm.call(folder, seconds),
        "mediated": lambda: host_calls.calls(folder, seconds),
        "fifty": lambda: spawns.fifty(daemon, seconds),
        "flood": lambda: throughput.flood(daemon, folder, 2.5 * seconds),
        "readers": lambda: readers.beside_a_sleeper(folder, seconds),
        "memory": lambda: memory.held(folder),
        "start": lambda: startup.commands(daemon, folder, seconds),
        "mcp": lambda: mcp.host(daemon, folder, seconds),
        "drive": lambda: drive(daemon, folder, drive_runs),
    }
    try:
        done = []
        for table in tables:
            at = time.monotonic()
            done.append(sections[table]())
            print(f"{done[-1].title}: {time.monotonic() - at:.0f} s", file=sys.stderr)
        return done
    finally:
        daemon.close()


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="about, for each table")
    parser.add_argument("--drive-runs", type=int, default=20, help="of each program that is driven")
    parser.add_argument(
        "--only", nargs="+", choices=TABLES, metavar="TABLE", help=", ".join(TABLES)
    )
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.name} as well")
    options = parser.parse_args()
    accept_terminal_signals()
    facts = machine.describe()
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    try:
        tables = options.only or TABLES
        sections = measure(folder, tables, options.seconds, options.drive_runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = markdown(facts, sections)
    print(text)
    if options.write:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        there, _, tail = rest.partition(END)
        if options.only:
            text = replaced(there.strip(), sections)
        PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
