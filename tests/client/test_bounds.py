"""How long a reply may take because of what was asked for."""

from __future__ import annotations

from haft.requests import own_bound


def test_a_turns_end_has_its_time_to_be_answered_and_again_to_be_waited_for() -> None:
    assert own_bound("turn/end", {}) == 120.0
    assert own_bound("turn/end", {"timeout_ms": 500}) == 1.0
    assert own_bound("turn/begin", {}) == 0.0
