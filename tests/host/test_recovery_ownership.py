"""The processes that a recovery may kill, told by a table of processes in place of the machine's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from haftd.host.process import privacy, rlimit_tag
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery import ownership
from haftd.host.recovery.ownership import Ownership

HOME, OTHER_HOME = "a" * 12, "b" * 12
DEAD, ALIVE = "1" * 12, "2" * 12


class Process(NamedTuple):
    environ: str | None = ""
    """None where it is unreadable, as a daemon's is."""
    tag: int | None = None
    name: str | None = None
    """The instance in the name of a daemon's process."""
    has_lock: bool = False
    state: str = "S"


class Clock:
    """A clock that only sleeps move; `on_sleep` sees the time after each."""

    def __init__(self) -> None:
        self._now = 0.0
        self.on_sleep: Callable[[float], object] = lambda now: None

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        self.on_sleep(self._now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("haftd.host.recovery.ownership.time", clock)
    return clock


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> dict[int, Process]:
    processes: dict[int, Process] = {}

    def environ_of(pid: int) -> bytes | None:
        text = processes[pid].environ
        return None if text is None else b"A=b\0" + text.encode()

    def stat_of(pid: int) -> object:
        return SimpleNamespace(state=processes[pid].state) if pid in processes else None

    monkeypatch.setattr(ownership, "every_pid", lambda: list(processes))
    monkeypatch.setattr(ownership, "read_environ", environ_of)
    monkeypatch.setattr(ownership, "read_stat", stat_of)
    monkeypatch.setattr(ownership, "is_running", lambda stat: stat.state not in "ZX")
    monkeypatch.setattr(ownership, "holds_daemon_lock", lambda pid: processes[pid].has_lock)
    monkeypatch.setattr(rlimit_tag, "read_tag", lambda pid: processes[pid].tag)
    monkeypatch.setattr(privacy, "read_instance", lambda pid: processes[pid].name)
    return processes


def tagged(home: str = HOME, instance: str = DEAD, n: int = 1) -> str:
    return f"HAFT_HANDLE={ProcessTag(home, instance, n)}"


def limit(home: str = HOME, instance: str = DEAD, n: int = 1) -> int:
    return rlimit_tag.encode(str(ProcessTag(home, instance, n)))


def scope(instance: str | None = None, live: str = ALIVE, protected: int = 7) -> Ownership:
    return Ownership(HOME, frozenset({protected}), instance=instance, live=live)


OWNED = ProcessTag(HOME, DEAD, 1)


@pytest.mark.parametrize(
    ("process", "instance", "found"),
    [
        (Process(tagged()), None, OWNED),
        (Process(tagged()), DEAD, OWNED),
        (Process(tagged()), ALIVE, None),
        (Process(tagged(instance=ALIVE)), None, None),
        (Process(tagged(OTHER_HOME)), None, None),
        (Process(tagged(n=0)), None, None),
        (Process(), None, None),
        (Process(None), None, None),
        (Process(f"{tagged(OTHER_HOME)}\0HAFT_OUTER={OWNED}"), None, OWNED),
        (Process(f"HAFT_OUTER={ProcessTag(HOME, ALIVE, 1)}:{OWNED}"), None, OWNED),
        (Process(None, limit()), DEAD, OWNED),
        (Process(None, limit(), state="Z"), DEAD, None),
        (Process(None, limit(), state="X"), DEAD, None),
        (Process(None, limit(OTHER_HOME)), DEAD, None),
        (Process(None, limit(instance=ALIVE)), None, None),
        (Process(None, limit(n=1 << 18)), DEAD, ProcessTag(HOME, DEAD, 1 << 18)),
        (Process(None, limit()), None, ProcessTag(HOME, "111110000000", 1)),
    ],
)
def test_a_process_is_owned_by_its_environment_or_else_by_its_limit(
    table: dict[int, Process], process: Process, instance: str | None, found: ProcessTag | None
) -> None:
    table[2] = table[7] = table[1] = process
    owned = scope(instance)
    assert owned.find_tag(2) == found
    assert owned.find_tag(7) is None and owned.find_tag(1) is None


def test_a_recorded_tag_completes_a_limit(table: dict[int, Process]) -> None:
    full = ProcessTag(HOME, "111119999999", 5)
    table[9] = Process(None, limit(instance=full.instance, n=5))
    owned = scope()
    owned.add_tags(["no tag", str(full)])
    assert owned.find_tag(9) == full


LOCKED = Process(tagged(n=0), has_lock=True)
NAMED = Process(None, name=DEAD[:9], has_lock=True)


@pytest.mark.parametrize(
    ("process", "beside", "is_daemon"),
    [
        (LOCKED, None, True),
        (LOCKED._replace(has_lock=False), None, False),
        (LOCKED._replace(environ=tagged(n=1)), None, False),
        (LOCKED._replace(environ=tagged(OTHER_HOME, n=0)), None, False),
        (LOCKED._replace(environ=tagged(instance=ALIVE, n=0)), None, False),
        (NAMED, Process(tagged()), True),
        (NAMED, Process(None, limit()), True),
        (NAMED, None, False),
        (NAMED, Process(tagged(OTHER_HOME), limit(OTHER_HOME)), False),
        (NAMED._replace(has_lock=False), Process(tagged()), False),
        (NAMED._replace(state="Z"), Process(tagged()), False),
        (NAMED._replace(name=ALIVE[:9]), Process(None, limit(instance=ALIVE)), True),
    ],
)
def test_a_daemon_that_runs_on_and_its_processes_are_exempt(
    table: dict[int, Process], process: Process, beside: Process | None, is_daemon: bool
) -> None:
    table[1] = table[7] = process
    if beside is not None:
        table[8] = beside
    owned = scope()
    assert owned.exempt_living_daemons() == []
    table[2] = process
    assert owned.exempt_living_daemons() == ([2] if is_daemon else [])
    # Of the other home, or of the living daemon, nothing is owned at all.
    lives = is_daemon and DEAD.startswith(process.name or DEAD)
    assert owned.covers(OWNED) is not lives


@pytest.mark.parametrize(("until_s", "is_daemon"), [(0.1, False), (0.19, False), (0.25, True)])
def test_a_child_between_fork_and_exec_is_waited_for(
    table: dict[int, Process], clock: Clock, until_s: float, is_daemon: bool
) -> None:
    """It has the daemon's environment and descriptors, so the lock as well."""
    clock.on_sleep = lambda now: table.clear() if now > until_s else None
    table[2] = LOCKED
    owned = scope()
    assert bool(owned.exempt_living_daemons()) is is_daemon
    assert owned.covers(OWNED) is not is_daemon


def test_a_daemon_of_this_run_is_not_found_again_by_its_name(table: dict[int, Process]) -> None:
    table[8], table[9] = Process(tagged(instance=ALIVE)), NAMED._replace(name=ALIVE[:9])
    owned = scope(live=ALIVE[:9])
    assert owned.exempt_living_daemons() == []


def test_processes_without_any_tag_are_told(table: dict[int, Process]) -> None:
    environs = ("", None, "HAFT_SOCKET=/s", tagged(), tagged(OTHER_HOME))
    kinds = itertools.product(environs, (None, limit()))
    for pid, (environ, tag) in enumerate(kinds, 10):
        table[pid] = Process(environ, tag)
    table[1] = table[7] = Process()
    owned = scope()
    owned.exempt_living_daemons()
    assert owned.untagged == {10}
