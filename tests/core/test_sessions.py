"""Sessions: who is in which, and which have lost their last connection."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from haftd.core.sessions import Sessions

STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "close"]), st.sampled_from("ab"), st.integers(0, 3))
)


@settings(deadline=None)
@given(STEPS)
def test_the_last_to_leave_is_told_and_a_session_lives_on(
    steps: list[tuple[str, str, int]],
) -> None:
    sessions = Sessions()
    model: dict[str, set[int]] = {}
    for step, name, key in steps:
        match step:
            case "join":
                sessions.join(name, key, 1.0)
                model.setdefault(name, set()).add(key)
            case "close":
                assert sessions.close(name) == (model.pop(name, None) is not None)
            case _:
                alone = [n for n, keys in sorted(model.items()) if keys == {key}]
                for keys in model.values():
                    keys.discard(key)
                assert sessions.leave(key) == alone
        assert sessions.names() == list(model)
        assert {n: sessions.connections(n) for n in "ab"} == {
            n: len(model.get(n, ())) for n in "ab"
        }


def test_the_last_use_is_known() -> None:
    sessions = Sessions()
    assert sessions.last_used("a") is None
    sessions.join("a", object(), 3.0)
    sessions.join("a", object(), 5.0)
    assert sessions.last_used("a") == 5.0
