from __future__ import annotations

import pytest

from haftd.core import sessions
from haftd.core.sessions import Turns


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [
        ("be be be", [1, 1, 2, 2, 3, 3]),
        ("e e be e", [1, 2, 3, 3, 4]),
        ("b b e", [1, 2, 2]),
        ("be f be", [1, 1, 1, 1]),
    ],
)
def test_turns_are_counted(steps: str, numbers: list[int]) -> None:
    turns, told = Turns(), []
    for step in steps.replace(" ", ""):
        if step == "f":
            turns.forget("s")
        else:
            told.append(turns.begin("s") if step == "b" else turns.end("s"))
            assert turns.begin(f"other{len(told)}") == 1
    assert told == numbers


def test_the_number_of_counted_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MAX_COUNTED", 5)
    turns = Turns()
    for n in range(20):
        turns.begin(f"s{n}")
        turns.end(f"s{n}")
    assert len(turns._numbers) == len(turns._ended) == 5
    assert turns.begin("s19") == 2
    assert turns.begin("s0") == 1


def test_only_a_begun_turn_is_expected_to_end() -> None:
    turns = Turns()
    assert not turns.is_begun("s")
    turns.end("s")
    assert not turns.is_begun("s")
    turns.begin("s")
    assert turns.is_begun("s")
    turns.end("s")
    assert not turns.is_begun("s")
    turns.begin("s")
    turns.forget("s")
    assert not turns.is_begun("s")
