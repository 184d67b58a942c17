"""Changes since a revision, applied to its lines, give the current lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from haft_protocol.states import Screen as Shown
from haftd.core.handles import Handle
from haftd.executions.execution import Execution
from tests.core.disks import make
from tests.effort import examples

from .drawn import new, session


class _Grip:
    """A minimal execution control with a screen."""

    def __init__(self) -> None:
        self.shown = new()

    def screen(self) -> Shown:
        return self.shown.snapshot()


def execution() -> tuple[Execution, _Grip]:
    spool = make(memory=1 << 16, disk=0)
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0, wall=0.0)
    execution = Execution(handle, 0.0)
    control: Any = _Grip()
    execution.control = control
    return execution, control


_STEP = st.tuples(
    st.sampled_from(["print", "print", "look", "resize"]), session, st.integers(1, 12)
)


@settings(max_examples=examples(40))
@given(st.lists(_STEP, max_size=12), st.integers(0, 5))
def test_changes_applied_give_the_screen(steps: list[tuple[str, bytes, int]], back: int) -> None:
    one, control = execution()
    seen: dict[int, list[str]] = {}
    revisions: list[int] = []

    def look() -> Shown:
        since = revisions[-1 - back % len(revisions)] if revisions else None
        told = one.screen(since)
        assert told is not None
        present = list(control.shown.snapshot().lines)
        if told.changed is UNSET:
            assert list(told.lines) == present
        else:
            assert told.lines == () and since is not None
            lines = list(seen[since])
            for row, text in told.changed.items():
                assert lines[int(row)] != text, "a row that has not changed was given"
                lines[int(row)] = text
            assert lines == present
        assert (told.rows, told.cols) == (len(present), control.shown.snapshot().cols)
        seen[told.revision] = present
        revisions.append(told.revision)
        return told

    for kind, data, size in steps:
        if kind == "print":
            control.shown.feed(data)
        elif kind == "resize":
            control.shown.resize(size, size * 5)
        else:
            look()
    last = look()
    assert list(revisions) == sorted(revisions)
    again = one.screen(last.revision)
    assert again is not None and again.changed == {} and again.revision == last.revision


def test_a_revision_that_was_not_shown_gives_all() -> None:
    one, control = execution()
    control.shown.feed(b"abc")
    first = one.screen()
    assert first is not None
    for number in range(6):
        control.shown.feed(b"%d" % number)
        one.screen()
    for since in (first.revision, 10**9, -1):
        told = one.screen(since)
        assert told is not None and told.changed is UNSET and told.lines[0] == "abc012345"


def test_another_size_gives_all() -> None:
    one, control = execution()
    control.shown.feed(b"abc")
    first = one.screen()
    control.shown.resize(8, 31)
    told = one.screen(first.revision)  # type: ignore[union-attr]
    assert told is not None and told.changed is UNSET
