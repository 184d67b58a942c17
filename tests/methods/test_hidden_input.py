"""Withholding of typed text: the echo mode is read before and after the write."""

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
    """An execution on a terminal with a scripted echo mode."""

    def __init__(self, echo: Iterator[bool]) -> None:
        self._echo = echo
        self.written_to = 1

    def hides_input(self) -> bool:
        return not next(self._echo)

    def read_output(self) -> None:
        pass

    def check_suspended(self, now: float) -> bool:
        return False

    def write(self, item: object) -> int:
        return 1


def recorded(before: bool, after: bool) -> dict[str, object]:
    """Return the audit record of a line, by the echo mode before and after the write."""
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=make(), now=0.0)
    handle.start(0.0)
    records: list[dict[str, object]] = []
    execution = Typing(iter([before, after]))
    services: Any = SimpleNamespace(
        access=SimpleNamespace(find=lambda caller, params, id: handle),
        supervisor=SimpleNamespace(execution_of=lambda handle: execution),
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
async def test_a_line_is_logged_only_if_echoed_throughout(
    before: bool, after: bool, is_shown: bool
) -> None:
    """A program may toggle the echo during typing."""
    one = recorded(before, after)
    assert ("hunter2" in str(one)) == is_shown and ("withheld" not in one) == is_shown
