"""Kill a daemon at random moments of a spawn storm, and count survivors.

    storm.py <folder> <cycles> <seed> <kind> <cgroup of the test> <use cgroups: 0 or 1>
        [--guardian] [--blind]

Runs as process 1 of its own pid namespace, so that nothing outside can be killed and every orphan
is its child. Each cycle's daemon is forked after the imports into a cgroup of its own (the ground
truth), storms, and is killed after 0 to 60 ms; the next one's recovery must leave that cgroup
empty. Prints a line of JSON: cycles, leaks, decoys hit, spawns.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from haftd.host.cgroup import Cgroup
from haftd.host.process.identity import read_stat
from tests.faults import standin
from tests.patience import PATIENCE_S


def decoys() -> list[subprocess.Popen[bytes]]:
    """Start twenty decoys: the same words, the tag of another home, or an older form of the tag."""
    found = []
    for n in range(20):
        env = {"PATH": os.environ["PATH"]}
        if n % 2:
            env["HAFT_HANDLE"] = f"ffffffffffff.aaaaaaaaaaaa.{n}"
        argv = ["/bin/sh", "-c", "exec sleep 100000", standin.WORD]
        found.append(subprocess.Popen(argv, env=env, start_new_session=True))
    return found


def left(group: Cgroup) -> list[int]:
    """Return the living processes of a cgroup, without zombies."""
    return [pid for pid in group.procs() if (stat := read_stat(pid)) and stat.state not in "ZX"]


def start(words: list[str], group: Cgroup) -> tuple[int, int]:
    """Fork a daemon into its cgroup; return the pid and the read end of its output."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        group.add(os.getpid())
        os.dup2(writer, 1)
        os.setsid()
        standin.run_forked(words)
    finally:
        os._exit(70)


def ready(reader: int) -> dict[str, object]:
    """The first line of a daemon's output."""
    data = b""
    while not data.endswith(b"\n") and (piece := os.read(reader, 1)):
        data += piece
    facts = json.loads(data or b"{}")
    assert facts.get("event") == "ready", f"the daemon did not start: {facts}"
    return facts  # type: ignore[no-any-return]


def shrink_numbers() -> None:
    """Make pids wrap every few cycles, where the bound is this namespace's own."""
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if version >= (6, 14) and os.getpid() == 1:
        Path("/proc/sys/kernel/pid_max").write_text("700")


def main(argv: list[str]) -> None:
    folder, cycles, seed, kind, ground, use_cgroups, *more = argv
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps every orphan
    dice = random.Random(seed)
    base = Path(ground)
    words = [folder, "--storm", "--kind", kind]
    if int(use_cgroups):
        handles = base / "handles"
        handles.mkdir(exist_ok=True)
        words += ["--cgroup", str(handles)]
    words += more
    shrink_numbers()
    standing = decoys()
    before: Cgroup | None = None
    leaks: list[str] = []
    ended = unconfirmed = 0
    for cycle in range(int(cycles)):
        group = Cgroup.create(base, f"cycle.{cycle}")
        pid, reader = start(words, group)
        facts = ready(reader)
        ended += int(str(facts["ended"]))
        unconfirmed += len(facts["unconfirmed"])  # type: ignore[arg-type]
        assert facts["problems"] == [], facts
        if before is not None:
            # A child at its gate exits by itself; a killed process takes a moment to be gone.
            late = time.monotonic() + (0.2 if "--blind" in more else PATIENCE_S)
            while (rest := left(before)) and time.monotonic() < late:
                time.sleep(0.001)
            leaks += [f"cycle {cycle - 1}: {entry}" for entry in rest]
            before.empty(5)
            before.remove()
        time.sleep(dice.random() * 0.06)  # the moment of the kill
        pidfd = os.pidfd_open(pid)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])  # reaped by the kernel, not by us
        os.close(pidfd)
        os.close(reader)
        before = group
    hit = [one.pid for one in standing if (stat := read_stat(one.pid)) is None or stat.state != "S"]
    print(
        json.dumps(
            {
                "cycles": int(cycles),
                "leaks": leaks,
                "hit": hit,
                "ended": ended,
                "unconfirmed": unconfirmed,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)  # and with process 1 the namespace


if __name__ == "__main__":
    main(sys.argv[1:])
