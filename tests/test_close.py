"""Opening and closing an object leaves no descriptor of the process open."""

from __future__ import annotations

import os
import pty
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from haft.blocking_connection import BlockingConnection
from haft.cli.relay import Relay
from haft.cli.terminal.own_terminal import OwnTerminal
from haft.json_exchange import JsonExchange
from haft.mcp.stdio import DaemonLink
from haftd.audit import Audit
from haftd.host.files.id_log import IdLog
from haftd.host.files.runtime_folder import _ChangeWatcher
from haftd.host.recovery.journal import Journal
from haftd.sd_notify import Notifier
from tests.host.test_journal import record


def own_terminal(folder: Path) -> object:
    far, near = pty.openpty()
    with OwnTerminal(near, near) as terminal:
        terminal.wait(None, False, 0)
    os.close(far)
    os.close(near)
    return terminal


def relay(folder: Path) -> object:
    with Relay(cast(Any, None), "h", resume="", command_for=str) as relay:
        pass
    return relay


def change_watcher(folder: Path) -> object:
    watcher = _ChangeWatcher([folder / "file"])
    assert watcher.complete
    watcher.close()
    return watcher


def journal(folder: Path) -> object:
    journal = Journal.open(folder / "handles.lock")
    journal.start(record(1))
    journal.compact()
    journal.close()
    journal.close()
    return journal


def id_log(folder: Path) -> object:
    log = IdLog(folder / "ids", list)
    log.load()
    log.note("s", "a", 1)
    log.close()
    log.close()
    return log


def audit(folder: Path) -> object:
    log = Audit(str(folder / "audit.jsonl"))
    log.record("shutdown")
    log.close()
    log.close()
    return log


def notifier(folder: Path) -> object:
    notifier = Notifier(f"@{folder}")
    notifier.close()
    return notifier


def link(folder: Path) -> object:
    own, other = socket.socketpair()
    link = DaemonLink(lambda: own)
    link.connect()
    link.close()
    other.close()
    return link, own


def connection(folder: Path) -> object:
    own, other = socket.socketpair()
    with BlockingConnection(own, JsonExchange(), name="t") as connection:
        pass
    other.close()
    return connection


@pytest.mark.parametrize(
    "use",
    [
        own_terminal,
        relay,
        change_watcher,
        journal,
        id_log,
        audit,
        notifier,
        link,
        connection,
    ],
)
def test_a_closed_object_holds_no_descriptor_and_no_signal(
    use: Callable[[Path], object], tmp_path: Path
) -> None:
    def state() -> tuple[object, ...]:
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        # A terminal's end leaves SIGQUIT ignored: the key that detaches may be on its way as a signal.
        numbers = signal.valid_signals() - {signal.SIGQUIT}
        handlers = [signal.getsignal(number) for number in sorted(numbers)]
        return sorted(os.listdir("/proc/self/fd")), wakeup, handlers

    before, quit_handler = state(), signal.getsignal(signal.SIGQUIT)
    # Python closes the files of an object that is gone, so it is kept.
    kept = use(tmp_path)
    after = state()
    signal.signal(signal.SIGQUIT, quit_handler)
    assert after == before
    del kept
