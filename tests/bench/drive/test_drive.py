from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.running_daemon import RunningDaemon

from .account import Account
from .compare import Outcome, once, table
from .haft import Haft, said, seen
from .mcp import HaftMcp
from .task import Task
from .tasks import TASKS


def _ready(task: Task, folder: Path, seed: int) -> Path:
    missing = [name for name in task.programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")
    task.prepare(folder, random.Random(seed))
    return folder


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_every_task_is_done_through_haft_without_a_sleep(
    task: Task, shared_daemon: RunningDaemon, short_tmp: Path
) -> None:
    haft = Haft(shared_daemon.socket, _ready(task, short_tmp, 1))
    outcome = once(task, haft, short_tmp)
    assert outcome.wrong is None
    assert haft.account.sleeps == 0 < haft.account.calls


MOST_BYTES = dict(
    zip(TASKS, (940, 1_640, 410, 1_260, 170, 480, 310, 240, 400, 680, 350, 390), strict=True)
)
"""Of the text that a model reads through `haft mcp`: those of the better of tmux and pexpect and a header line a call,
where haft needs as much, else what haft needs and some more for long ages and paths."""


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_every_task_is_done_through_haft_mcp_with_few_bytes(
    task: Task, shared_daemon: RunningDaemon, short_tmp: Path
) -> None:
    haft = HaftMcp(shared_daemon, _ready(task, short_tmp, 1))
    outcome = once(task, haft, short_tmp)
    assert outcome.wrong is None
    assert haft.account.read <= MOST_BYTES[task]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_an_undone_task_fails_its_check(task: Task, short_tmp: Path) -> None:
    assert task.check(_ready(task, short_tmp, 2), "")


def test_all_text_of_the_program_counts_as_read() -> None:
    state = {
        "id": "not this",
        "content": "output",
        "screen": {"lines": ["a row"], "changed": {"3": "another"}, "revision": 7},
        "input_wanted": {"kind": "line", "prompt": "more? "},
        "error": {"message": "failed", "trace": ["here"]},
        "result": "",
    }
    assert seen(state) == "output\nfailed\nhere\na row\n3 another\nmore? "


def test_the_medians_are_those_of_the_runs_that_succeeded() -> None:
    done = [Outcome(None, 0.002, Account(n, 0, 10, 20, 5)) for n in (1, 2, 3)]
    failed = Outcome("no", 99.0, Account(calls=99, read=40))
    found = {"a task": {"haft": [*done, failed], "pexpect": [failed]}, "another": {"haft": done}}
    assert table(found, "").rows == [
        ["a task", "haft", "3 of 4", "2", "0", "10", "0.25", "0.12", "20", "2 ms"],
        ["", "pexpect", "0 of 1", "99", "0", "40", "", "", "0", "99.00 s"],
        ["another", "haft", "3 of 3", "2", "0", "10", "", "", "20", "2 ms"],
        ["all of them", "haft", "", "4", "0", "20", "0.50", "0.25", "40", "4 ms"],
        ["", "pexpect", "", "99", "0", "40", "", "", "0", "99.00 s"],
    ]


def test_the_floor_is_the_programs_text_without_its_prompt() -> None:
    account = Account()
    state = {"content": "42\n", "input_wanted": {"kind": "key", "prompt": ">>> "}}
    account.show(seen(state), 100, said(state))
    assert (account.read, account.floor) == (len("42\n>>> "), len("42\n"))
