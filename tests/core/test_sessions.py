from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haftd.core import sessions as sessions_module
from haftd.core.sessions import Sessions

STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "close"]), st.sampled_from("ab"), st.integers(0, 3))
)


@settings(deadline=None)
@given(STEPS)
def test_a_session_is_known_here_as_long_as_it_has_a_connection(
    steps: list[tuple[str, str, int]],
) -> None:
    sessions = Sessions()
    model: dict[str, set[int]] = {}
    for step, name, key in steps:
        match step:
            case "join":
                sessions.join(name, key)
                model.setdefault(name, set()).add(key)
            case "close":
                sessions.close(name)
                model.pop(name, None)
            case _:
                sessions.leave(key)
                model = {n: keys - {key} for n, keys in model.items() if keys - {key}}
        assert sessions.names() == list(model)
        assert {n: sessions.connections(n) for n in "ab"} == {
            n: len(model.get(n, ())) for n in "ab"
        }
        assert {n: set(sessions.members(n)) for n in "ab"} == {n: model.get(n, set()) for n in "ab"}


def test_names_of_past_connections_are_not_kept() -> None:
    sessions = Sessions()
    for n in range(10_000):
        sessions.join(f"s{n}", n)
        sessions.leave(n)
    assert sessions.names() == []


def test_the_sessions_of_one_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_MAX_JOINED", 5)
    sessions = Sessions()
    sessions.join("s0", "other")
    for n in range(9):
        sessions.join(f"s{n}", "greedy")
        sessions.join(f"s{n}", "greedy")
    assert sessions.names() == ["s0", "s4", "s5", "s6", "s7", "s8"]
    assert sessions.connections("s0") == 1
    sessions.leave("greedy")
    assert sessions.names() == ["s0"]
