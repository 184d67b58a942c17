"""A start that fails behind the admission gives the id back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
from msgspec.structs import replace
from trio.testing import MockClock

from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.executions.call_factory import Prepared
from haftd.executions.starter import Starter, _settings
from haftd.methods.approval_gate import definition_key
from haftd.tools.definitions.definition import Tool


async def test_a_start_with_an_unwritable_call_file_gives_its_id_back(
    autojump_clock: MockClock,
) -> None:
    """The call may be too long for the disk: the id would be taken for ever."""
    spool = Spool(0, 0, None, Budget(0))
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0)
    withdrawn: list[Handle] = []
    registry = SimpleNamespace(
        admit=lambda now, **what: SimpleNamespace(handle=handle, is_repeated=False),
        withdraw=withdrawn.append,
    )

    def make_execution_call(handle: Handle, ready: object) -> None:
        raise OSError("no space left")

    fakes = dict.fromkeys(
        ("catalogue", "runtimes", "make_spool", "on_state_change", "inquiries", "supervisor")
    )
    call_factory = SimpleNamespace(make_execution_call=make_execution_call)
    starter = Starter(**cast(Any, {**fakes, "call_factory": call_factory, "registry": registry}))
    ready = SimpleNamespace(
        session="s",
        id="h",
        call_id=None,
        tool=Tool(name="t", file="f"),
        args={},
        context=SimpleNamespace(root="/"),
        resolved=SimpleNamespace(launch=SimpleNamespace(terminal=False, sandbox=None)),
        is_transient=False,
    )
    with pytest.raises(OSError, match="no space left"):
        starter.start(cast(Any, ready), cast(Any, None))
    assert withdrawn == [handle]


@pytest.mark.parametrize(
    "value_of",
    [
        definition_key,
        lambda tool: _settings(tool, is_sandboxed=False, is_reviewed=False, is_transient=False),
    ],
    ids=["key", "settings"],
)
def test_a_replaced_definition_is_kept_by_no_cache(value_of: Callable[[Tool], object]) -> None:
    """A reload replaces it, with the secrets in its environment."""
    tool = Tool(name="t", file="f", env={"TOKEN": "secret"})
    assert value_of(tool) is value_of(tool)
    replaced = ref(tool)
    del tool
    gc.collect()
    assert replaced() is None


class _MorePrepared(Prepared, frozen=True):
    added: bool = False


def test_a_start_with_other_arguments_keeps_every_other_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields: dict[str, Any] = dict.fromkeys(Prepared.__struct_fields__)
    fields["tool"] = Tool(name="t", file="f")
    fields["context"] = SimpleNamespace(session=None, handle=None)
    ready = _MorePrepared(**fields, added=True)
    launch = SimpleNamespace(terminal=False)
    resolved = SimpleNamespace(runtime="process", launch=launch)
    monkeypatch.setattr("haftd.executions.starter.check_arguments", lambda tool, args: dict(args))
    monkeypatch.setattr("haftd.executions.starter.resolve", lambda tool, args, context: resolved)
    runtimes = {"process": None}
    starter = Starter(*cast(Any, [None, None, None, runtimes, None, None, None, None]))
    changed = starter.change(ready, {"a": 1})
    assert changed == replace(ready, args={"a": 1}, resolved=cast(Any, resolved))
