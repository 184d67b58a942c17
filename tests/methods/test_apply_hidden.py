"""Whether what is typed is withheld: the echo is asked for before it is written, and after."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from haft_protocol.methods import ApplyParams
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.methods.apply import apply
from tests.core.disks import make


class Typing:
    """A use on a terminal whose echo is on or off, as told, each time that it is asked for."""

    def __init__(self, echo: Iterator[bool]) -> None:
        self._echo = echo
        self.written_to = 1

    def hides_input(self) -> bool:
        return not next(self._echo)

    def is_suspended(self) -> bool:
        return False

    def write(self, item: object) -> int:
        return 1


def recorded(before: bool, after: bool) -> dict[str, object]:
    """What the audit log gets of a line, by whether there was an echo before and after it."""
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=make(), now=0.0)
    handle.start(0.0)
    records: list[dict[str, object]] = []
    use = Typing(iter([before, after]))
    services: Any = SimpleNamespace(
        access=SimpleNamespace(find=lambda caller, params, id: handle),
        supervisor=SimpleNamespace(use_of=lambda handle: use),
        audit=SimpleNamespace(
            record_action=lambda event, caller, handle, **more: records.append(more)
        ),
    )
    params = ApplyParams(id="h", input={"line": "hunter2"}, wait="none")
    apply(services, Caller("unix"), params)
    (one,) = records
    return one


@pytest.mark.parametrize(
    ("before", "after", "is_shown"),
    [(True, True, True), (False, True, False), (True, False, False), (False, False, False)],
)
async def test_a_line_is_in_the_log_only_if_it_was_shown_all_the_time(
    before: bool, after: bool, is_shown: bool
) -> None:
    """A program turns the echo off, or on again, while it is typed."""
    one = recorded(before, after)
    assert ("hunter2" in str(one)) == is_shown and ("withheld" not in one) == is_shown
