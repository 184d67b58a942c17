"""Replies without types: a member that is shown is checked first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haft.cli.replies import checked_state, handle_entries
from haft.errors import ProtocolFault

STATE = {"id": "a", "tool": "t", "session": "s", "generation": 1, "elapsed_ms": 3, "state": "running", "content": ""}  # fmt: skip
LISTED = {**STATE, "age_s": 1.5, "bytes": 0, "command": "cat"}


def test_a_state_and_a_list_are_returned_as_received() -> None:
    assert checked_state(json.dumps(STATE).encode()) == STATE
    assert handle_entries(json.dumps({"handles": [LISTED]}).encode()) == [LISTED]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"state": "asleep"}, "state"),
        ({"state": ["running"]}, "state"),
        ({"id": None}, "id"),
        ({"elapsed_ms": "3"}, "elapsed_ms"),
        ({"content": None}, "content"),
        ({"state": "waiting"}, "question"),
        ({"state": "stopped"}, "ended_by"),
        ({"exit": 0}, "exit"),
    ],
)
def test_a_state_with_a_wrong_member_is_a_protocol_fault(change: dict[str, Any], name: str) -> None:
    with pytest.raises(ProtocolFault, match=f"`{name}`"):
        checked_state(json.dumps({**STATE, **change}).encode())


@pytest.mark.parametrize(
    "result",
    [[], {}, {"handles": {}}, {"handles": [1]}, {"handles": [STATE]}, {"handles": [{**LISTED, "bytes": ""}]}],
)  # fmt: skip
def test_a_list_of_another_form_is_a_protocol_fault(result: object) -> None:
    with pytest.raises(ProtocolFault):
        handle_entries(json.dumps(result).encode())
