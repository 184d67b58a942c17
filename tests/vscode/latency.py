"""`python -m tests.vscode.latency`: the time of a key in VS Code's core beside a handle at full speed and 200 idle ones."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.running_daemon import RunningDaemon
from tests.vscode.core import core_command

IDLE = 200
KEYS = 600


def main() -> None:
    command = core_command("latency")
    if command is None:
        sys.exit("the core is not built: `make test-vscode` builds it")
    with tempfile.TemporaryDirectory() as folder:
        daemon = RunningDaemon(Path(folder)).start()
        try:
            with daemon.connect() as wire:

                def spawn(id: str, *argv: str, terminal: bool = True) -> None:
                    args = {"argv": list(argv), "terminal": terminal}
                    wire.call("spawn", tool="run", id=id, args=args, wait="none")

                for number in range(IDLE):
                    spawn(f"idle{number}", "sleep", "1000", terminal=False)
                spawn("flood", "yes", "x" * 70)
                spawn("keys", "cat")
            words = [*command, "flood", "keys", str(KEYS)]
            done = subprocess.run(words, env=daemon.env, capture_output=True, text=True, check=True)
        finally:
            daemon.close()
    document = json.loads(done.stdout)
    times = document["times"]
    cuts = statistics.quantiles(times, n=20)
    half, after = document["memory"]
    print(
        f"{document['handles']} handles, {document['flooded'] / 1e6:.1f} MB/s drawn: median {statistics.median(times):.1f} ms,"
        f" p95 {cuts[-1]:.1f} ms, longest {max(times):.1f} ms; memory {half} KiB after half, {after} KiB after all"
    )


if __name__ == "__main__":
    main()
