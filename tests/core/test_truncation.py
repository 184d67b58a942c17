"""All the replies of a batch together say so much at most; the long ones give way, evenly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.methods import AwaitResult
from haft_protocol.states import EndedBy, Exit, as_text
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.core.truncation import MAX_BATCH_BYTES, FindHandle, size_limit
from haftd.core.truncation import truncate_batch as portion_in_steps
from haftd.core.views import handle_state
from haftd.host.files.spool_folder import SpoolFolder

Sizes = st.lists(st.integers(0, 10_000), max_size=40)


def truncate_batch(
    results: Sequence[object], find: FindHandle, budget: int = MAX_BATCH_BYTES
) -> list[object]:
    steps = portion_in_steps(results, find, budget)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: list[object] = done.value
            return made


@given(Sizes, st.integers(0, 60_000))
def test_what_is_cut_is_cut_to_one_length_and_what_is_shorter_is_whole(
    sizes: list[int], budget: int
) -> None:
    most = size_limit(sizes, budget)
    kept = [min(size, most) for size in sizes]
    if sum(sizes) <= budget:
        assert kept == sizes
    else:
        assert sum(kept) <= budget < sum(kept) + len(sizes), "as much as there is room for"


class Shelf:
    """Handles that have stopped, and a folder for what is saved of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = SpoolFolder(folder, "home", lambda: False)
        self.handles: list[Handle] = []

    def add(self, text: str, *, code: int = 0, result: str | None = None) -> Handle:
        spool = Spool(1 << 20, 1 << 24, self._folder, Budget(1 << 30))
        name = f"h{len(self.handles)}"
        handle = Handle(id=name, tool="t", session="s", generation=1, spool=spool, now=0.0)
        handle.start(0.0)
        handle.append_output(text.encode(), 0.0)
        by, exit = EndedBy("exit"), Exit(code=code)
        handle.end(1.0, by=by, complete=True, result=result, raw=result is None, exit=exit)
        self.handles.append(handle)
        return handle

    def find(self, session: str, id: str, generation: int) -> Handle | None:
        return next((one for one in self.handles if one.id == id), None)

    def told(self, results: list[object], budget: int) -> list[Any]:
        made = truncate_batch(results, self.find, budget)
        return [json.loads(msgspec.json.encode(one)) for one in made]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def lines(count: int) -> str:
    return "".join(f"line {n}\n" for n in range(count))


def seen(handle: Handle, max_bytes: int = 1 << 20) -> object:
    return handle_state(handle, 2.0, max_bytes=max_bytes)


def test_what_fits_is_the_very_same(shelf: Shelf) -> None:
    results: list[object] = [seen(shelf.add(lines(100))), {"x": 1}, "text", None]
    assert truncate_batch(results, shelf.find) == results


def test_the_longest_gives_way_and_says_where_all_of_it_is(shelf: Shelf) -> None:
    long, short = lines(2_000), lines(10)
    first, second = shelf.told([seen(shelf.add(long)), seen(shelf.add(short))], 4_000)
    assert second["result"] == short and "truncated" not in second
    assert len(first["result"]) + len(short) <= 4_000
    cut = first["truncated"]
    assert cut["bytes"] == len(long) and cut["kept"] + first["omitted"] == len(long)
    assert f"… {first['omitted']} bytes left out …\n" in first["result"]
    assert Path(cut["path"]).read_text() == long


def test_what_was_cut_before_has_one_line_for_all_that_is_missing(shelf: Shelf) -> None:
    long = lines(2_000)
    (state,) = shelf.told([seen(shelf.add(long), 10_000)], 1_000)
    assert state["result"].count("left out") == 1 and len(state["result"].encode()) <= 1_000
    assert f"… {state['omitted']} bytes left out …\n" in state["result"]
    kept = len(state["result"].replace(f"… {state['omitted']} bytes left out …\n", ""))
    assert kept + state["omitted"] == len(long) and state["truncated"]["kept"] == kept


def test_what_a_failure_printed_and_what_an_await_brings_count_as_well(shelf: Shelf) -> None:
    failed = seen(shelf.add(lines(500), code=1))
    stopped: Any = seen(shelf.add(lines(500)))
    done = AwaitResult(completed=(stopped,), pending=())
    first, second = shelf.told([failed, done], 2_000)
    assert first["error"] and first["truncated"]["path"] and len(first["content"]) <= 1_000
    (inner,) = second["completed"]
    assert inner["truncated"]["path"] and len(inner["result"]) <= 1_000


def test_a_result_that_a_tool_made_loses_no_output(shelf: Shelf) -> None:
    (state,) = shelf.told([seen(shelf.add("{}", result="é" * 2_000))], 1_000)
    assert "omitted" not in state and state["truncated"]["bytes"] == 4_000
    assert Path(state["truncated"]["path"]).read_text("utf-8") == "é" * 2_000


def test_what_runs_says_by_its_count_that_it_was_cut(shelf: Shelf) -> None:
    spool = Spool(1 << 20, 0, None, Budget(0))
    handle = Handle(id="live", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    handle.append_output(lines(500).encode(), 0.0)
    (state,) = shelf.told([handle_state(handle, 1.0)], 1_000)
    assert state["state"] == "running" and "truncated" not in state
    assert state["omitted"] > 0 and len(state["content"]) <= 1_000
    assert state["cursor"] == len(lines(500))


def test_half_of_bytes_in_base64_is_nothing(shelf: Shelf) -> None:
    raw = handle_state(shelf.add(lines(500), code=1), 2.0, view="raw")
    (told,) = shelf.told([raw, seen(shelf.add(lines(500)))], 2_000)[:1]
    assert told["content"] == msgspec.to_builtins(raw, enc_hook=as_text)["content"]


def test_a_handle_that_is_gone_costs_the_path_alone(shelf: Shelf) -> None:
    state = seen(shelf.add(lines(500)))
    shelf.handles.clear()
    (told,) = shelf.told([state], 1_000)
    assert told["truncated"]["path"] is None and told["truncated"]["kept"] < 1_000


def test_what_has_no_state_is_the_very_same_beside_what_is_cut(shelf: Shelf) -> None:
    class Row(msgspec.Struct):
        said: str

    row = Row("x" * 5_000)
    results = [row, [row], {"said": row}, seen(shelf.add(lines(500)))]
    made = truncate_batch(results, shelf.find, 1_000)
    assert all(one is other for one, other in zip(made[:3], results[:3], strict=True))
    assert made[3] is not results[3]


def test_what_is_left_out_where_it_is_empty_is_left_out_when_it_is_cut(shelf: Shelf) -> None:
    class Told(msgspec.Struct, omit_defaults=True):
        completed: list[object]
        pending: list[object] = []

    told = Told([seen(shelf.add(lines(500)))])
    (made,) = truncate_batch([told], shelf.find, 1_000)
    assert isinstance(made, dict) and set(made) == {"completed"}


def test_what_is_just_as_long_as_may_be_is_whole(shelf: Shelf) -> None:
    told = shelf.told([seen(shelf.add("x" * size)) for size in (100, 100, 500)], 300)
    assert [one["result"] == "x" * 100 for one in told] == [True, True, False]


def test_what_a_tool_made_and_was_cut_before_has_one_line_as_well(shelf: Shelf) -> None:
    (state,) = shelf.told([seen(shelf.add("{}", result=lines(2_000)), 10_000)], 1_000)
    cut = state["truncated"]
    missing = cut["bytes"] - cut["kept"]
    assert "omitted" not in state and cut["bytes"] == len(lines(2_000))
    assert state["result"].count("left out") == 1
    assert f"… {missing} bytes left out …\n" in state["result"]


def test_what_is_lost_is_not_in_the_file_and_that_is_said(shelf: Shelf) -> None:
    spool = Spool(1_000, 8_000, shelf._folder, Budget(1 << 30))
    handle = Handle(id="h0", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    for line in lines(5_000).splitlines(keepends=True):
        handle.append_output(line.encode(), 0.0)
    handle.end(1.0, by=EndedBy("exit"), complete=True, raw=True, exit=Exit(code=0))
    shelf.handles.append(handle)
    (state,) = shelf.told([seen(handle)], 1_000)
    cut = state["truncated"]
    assert cut["omitted"] > 0
    assert len(Path(cut["path"]).read_bytes()) + cut["omitted"] >= len(lines(5_000))


def test_it_is_done_in_steps(shelf: Shelf) -> None:
    """One a result to see how long it is, and one a text that is cut."""
    results = [seen(shelf.add(lines(500))) for _ in range(3)]
    assert sum(1 for _ in portion_in_steps([*results, None], shelf.find)) == 4
    assert sum(1 for _ in portion_in_steps([*results, None], shelf.find, 1_000)) == 4 + 3
