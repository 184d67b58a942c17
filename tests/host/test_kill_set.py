"""The processes that belong to those that a recovery kills, told by their numbers alone."""

from __future__ import annotations

import time

import pytest

from haftd.host.process.identity import Identity, Stat
from haftd.host.recovery.kill_set import KillSet, Target

TARGET, OTHER = 50, 60


def stat(pid: int, parent: int = 2, group: int = 2, session: int = 2) -> Stat:
    return Stat(pid, "S", parent, group, session, 0, 0, 1)


@pytest.fixture
def killed() -> KillSet:
    return KillSet(frozenset({7}), time.monotonic() + 1_000)


def target(pid: int, *, leads_group: bool, leads_session: bool) -> Target:
    return Target(Identity(pid, 1, 1, "boot", 1), -1, f"mark {pid}", leads_group, leads_session)


@pytest.mark.parametrize("leads_group", [True, False])
@pytest.mark.parametrize("leads_session", [True, False])
def test_children_belong_to_a_target_and_groups_and_sessions_to_their_leader(
    killed: KillSet, leads_group: bool, leads_session: bool
) -> None:
    owner = target(TARGET, leads_group=leads_group, leads_session=leads_session)
    killed._targets[TARGET] = owner
    assert killed._owner(None) is None
    assert killed._owner(stat(9)) is None
    assert killed._owner(stat(TARGET, TARGET, TARGET, TARGET)) is None, "it is a target by itself"
    assert killed._owner(stat(9, parent=TARGET)) is owner
    assert killed._owner(stat(9, group=TARGET)) is (owner if leads_group else None)
    assert killed._owner(stat(9, session=TARGET)) is (owner if leads_session else None)


def test_the_parent_precedes_the_group_and_the_group_the_session(killed: KillSet) -> None:
    for pid in (TARGET, OTHER, OTHER + 1):
        killed._targets[pid] = target(pid, leads_group=True, leads_session=True)
    owners = [
        killed._owner(stat(9, TARGET, OTHER, OTHER + 1)),
        killed._owner(stat(9, 2, OTHER, OTHER + 1)),
        killed._owner(stat(9, 2, 2, OTHER + 1)),
    ]
    assert [owner and owner.pid for owner in owners] == [TARGET, OTHER, OTHER + 1]


@pytest.mark.parametrize("pid", [-1, 0, 1, 7])
def test_the_first_process_and_protected_ones_are_never_targets(killed: KillSet, pid: int) -> None:
    assert killed.add_if(pid, "m", lambda: True) == "protected"
    assert killed.remaining() == []
