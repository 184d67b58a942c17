"""The host rooms assembled in the daemon's order, without the rest.

    standin.py <folder> [--count N | --storm] [--kind plain|session|cleared]
        [--cgroup PATH] [--guardian] [--region FILE] [--stopped]

Prints a line of JSON per fact: `ready` with the result of recovery, `started` or `refused` for
each spawn, `done` after the last; then holds its processes until killed. Exit status 75: another
daemon holds the lock. `--region` opens FILE before and after the part under test, which shows in
a trace.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from haftd.host.cgroup import Cgroup
from haftd.host.files.lockfile import DaemonLock, LockHeld
from haftd.host.files.runtime_folder import bind, prepare
from haftd.host.launch.launched_process import LaunchedProcess
from haftd.host.launch.program import LaunchFailed
from haftd.host.launch.spawn import launch
from haftd.host.process.identity import Identity
from haftd.host.process.own_tag import exec_with_tag, make_home, make_instance
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.guardian import Guardian
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
from haftd.host.recovery.recovery import Report, recover
from haftd.launch_spec import LaunchSpec

WORD = "haft-standin"

KINDS = {
    "plain": "exec sleep 300{tag}",
    "session": "setsid sleep 301{tag} & (setsid sleep 302{tag} &) ; exec sleep 300{tag}",
    "cleared": "env -i setsid sleep 301{tag} & (env -i setsid sleep 302{tag} &) ; exec sleep 300{tag}",
}


def say(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


class Standin:
    """A daemon, from its lock to its death."""

    def __init__(self, options: argparse.Namespace, instance: str) -> None:
        self.options = options
        self.folder = Path(options.folder)
        self.base = Path(options.cgroup) if options.cgroup else None
        self.home = make_home(self.folder)
        self.instance = instance
        self.held: list[LaunchedProcess] = []

    @contextlib.contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Mark in a trace the begin and end of the part under test."""
        self._flag(f"begin-{name}")
        yield
        self._flag(f"end-{name}")

    def _flag(self, name: str) -> None:
        if self.options.region:
            with contextlib.suppress(OSError):
                os.close(os.open(f"{self.options.region}.{name}", os.O_RDONLY))

    def start(self) -> None:
        """Lock, recover, rewrite, listen: in this order."""
        prepare(self.folder)
        try:
            self.lock = DaemonLock.acquire(self.folder / "daemon.lock")
        except LockHeld as held:
            say(held=held.pid)
            sys.exit(75)
        with self.region("recovery"):
            self.journal = Journal.open(self.folder / "handles.lock")
            report = (
                Report()
                if self.options.blind
                else recover(
                    self.journal.records,
                    home=self.home,
                    bases=[] if self.base is None else [self.base],
                    live=self.instance,
                    lock=self.folder / "recover.lock",
                )
            )
            with contextlib.suppress(OSError):
                self.journal.compact(report.keep)
        self.listener = bind(self.folder / "haftd.sock")
        self.guardian = None
        if self.options.guardian:
            self.guardian = Guardian.start(
                home=self.home,
                instance=self.instance,
                journal=self.journal.path,
                lock=self.folder / "recover.lock",
                bases=[] if self.base is None else [self.base],
            )
        say(
            event="ready",
            ended=len(report.ended),
            lost=len(report.lost),
            dropped=len(report.dropped),
            unconfirmed=report.unconfirmed,
            problems=[*self.journal.problems, *report.problems],
            guardian=self.guardian and self.guardian.pid,
            pid=os.getpid(),
        )

    def spawn(self, n: int, script: str) -> LaunchedProcess:
        """Start a handle, recorded before the process runs."""
        mark = ProcessTag(self.home, self.instance, n)
        cgroup = None if self.base is None else Cgroup.create(self.base, str(mark))

        def record(who: Identity) -> None:
            self.journal.start(
                Record(
                    n=n,
                    pid=who.pid,
                    ticks=who.ticks,
                    inode=who.inode,
                    boot=who.boot,
                    ns=who.ns,
                    sid=who.pid,
                    uid=os.getuid(),
                    mark=str(mark),
                    cgroup="" if cgroup is None else str(cgroup.path),
                    id=f"h{n}",
                    tool="run",
                    at=time.time(),
                )
            )

        try:
            return launch(
                LaunchSpec(
                    argv=("/bin/sh", "-c", script, WORD),
                    cwd="/",
                    env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HAFT_HANDLE": str(mark)},
                ),
                record,
                cgroup=cgroup,
            )
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise

    async def run_one(self, n: int) -> None:
        """Start and keep a handle; every third one is short, with a recorded end."""
        short = self.options.storm and n % 3 == 0
        script = KINDS[self.options.kind].format(tag=self.options.tag)
        with self.region("spawn"):
            try:
                launched = self.spawn(n, "exit 7" if short else script)
                await launched.finish_start()
            except LaunchFailed as failed:
                say(event="refused", n=n, reason=failed.reason)
                return
        self.held.append(launched)
        if short:
            await launched.wait_exit()
            with contextlib.suppress(OSError):
                self.journal.end(str(ProcessTag(self.home, self.instance, n)))
        if not self.options.storm:
            say(event="started", n=n, pid=launched.pid)

    async def main(self) -> None:
        """Start the requested handles and hold them."""
        if self.options.stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        self.start()
        n = 0
        while self.options.storm or n < self.options.count:
            n += 1
            await self.run_one(n)
        say(event="done")
        await trio.sleep_forever()


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--storm", action="store_true")
    parser.add_argument("--kind", choices=list(KINDS), default="plain")
    parser.add_argument("--cgroup", default="")
    parser.add_argument("--guardian", action="store_true")
    parser.add_argument("--region", default="")
    parser.add_argument("--stopped", action="store_true", help="stop first, to be traced")
    parser.add_argument("--tag", default="", help="digits to sleep longer, to be told by")
    parser.add_argument("--blind", action="store_true", help="recover nothing: a planted fault")
    return parser.parse_args(words)


def run(words: list[str], instance: Callable[[str], str]) -> None:
    """Be a daemon until killed; `instance` returns the instance's name for a home."""
    options = options_of(words)
    trio.run(Standin(options, instance(make_home(Path(options.folder)))).main)


def run_forked(words: list[str]) -> None:
    """Run in a child forked after the imports: cycles cost a tenth of the time. The tag of its
    first environment is that of the parent process."""
    run(words, lambda _home: make_instance())


def main() -> None:
    """Run as a daemon does, in a process that executes itself for its tag."""
    run(sys.argv[1:], lambda home: exec_with_tag(home, os.environ))
    sys.exit(0)


if __name__ == "__main__":
    main()
