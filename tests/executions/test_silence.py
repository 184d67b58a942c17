"""Silence counts from the first look that could not tell, while nothing of the program begins or ends."""

from __future__ import annotations

from math import inf

import pytest

from haftd.executions.silence import Silence
from haftd.runtimes.base import Wanted


def unknown(*processes: tuple[int, int, int]) -> Wanted:
    return Wanted("unknown", "line", processes=frozenset(processes))


def since(*looks: Wanted) -> float:
    """Since when there is silence after these looks, one a second."""
    silence = Silence()
    for now, wanted in enumerate(looks):
        silence.see(wanted, float(now))
    return silence.since


SHELL, CHILD, OTHER = (1, 10, 0), (2, 20, 0), (3, 20, 0)


def test_silence_begins_at_the_first_look_that_could_not_tell() -> None:
    assert since() == inf
    assert since(unknown(SHELL), unknown(SHELL), unknown(SHELL)) == 0
    assert since(unknown(), unknown()) == 0, "nobody may be looked at"


@pytest.mark.parametrize("wanted", [Wanted("busy"), Wanted("reads", "line")])
def test_a_look_that_could_tell_ends_it(wanted: Wanted) -> None:
    assert since(unknown(SHELL), wanted) == inf
    assert since(unknown(SHELL), wanted, unknown(SHELL)) == 2


@pytest.mark.parametrize(
    "changed",
    [
        unknown(SHELL),  # one is gone
        unknown(SHELL, CHILD, OTHER),  # one has begun
        unknown(SHELL, OTHER),
        unknown(SHELL, (2, 21, 0)),  # its number was taken again
        unknown((1, 10, 57), CHILD),  # one came and went in between
    ],
)
def test_what_begins_or_ends_between_two_looks_breaks_it(changed: Wanted) -> None:
    assert since(unknown(SHELL, CHILD), changed) == 1
    assert since(unknown(SHELL, CHILD), changed, changed) == 1
