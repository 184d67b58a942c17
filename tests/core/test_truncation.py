from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.methods import AwaitResult
from haft_protocol.states import EndedBy, Exit, as_text
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.truncation import MAX_BATCH_BYTES, FindHandle, size_limit
from haftd.core.truncation import truncate_batch as portion_in_steps
from haftd.core.views import read_handle
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
def test_long_texts_are_cut_to_one_length_and_shorter_ones_are_whole(
    sizes: list[int], budget: int
) -> None:
    most = size_limit(sizes, budget)
    kept = [min(size, most) for size in sizes]
    if sum(sizes) <= budget:
        assert kept == sizes
    else:
        assert sum(kept) <= budget < sum(kept) + len(sizes), "as much as there is room for"


def test_no_texts_have_no_size() -> None:
    assert size_limit([], 60_000) == 0


class FakeRegistry:
    """Stopped handles, and a folder for saved output."""

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
        handle.end(Termination(by=by, result=result, exit=exit), 1.0)
        self.handles.append(handle)
        return handle

    def find(self, session: str, id: str, generation: int) -> Handle | None:
        return next((handle for handle in self.handles if handle.id == id), None)

    def told(self, results: list[object], budget: int) -> list[Any]:
        replies = truncate_batch(results, self.find, budget)
        return [json.loads(msgspec.json.encode(one, enc_hook=as_text)) for one in replies]


@pytest.fixture
def registry(tmp_path: Path) -> FakeRegistry:
    return FakeRegistry(tmp_path)


def lines(count: int) -> str:
    return "".join(f"line {n}\n" for n in range(count))


def seen(handle: Handle, max_bytes: int = 1 << 20) -> object:
    return read_handle(handle, 2.0, max_bytes=max_bytes)


def test_a_batch_that_fits_is_unchanged(registry: FakeRegistry) -> None:
    results: list[object] = [seen(registry.add(lines(100))), {"x": 1}, "text", None]
    assert truncate_batch(results, registry.find) == results


def test_the_longest_text_is_cut_and_names_the_file_of_the_whole(registry: FakeRegistry) -> None:
    long, short = lines(2_000), lines(10)
    first, second = registry.told([seen(registry.add(long)), seen(registry.add(short))], 4_000)
    assert second["result"] == short and "truncated" not in second
    assert len(first["result"]) + len(short) <= 4_000
    cut = first["truncated"]
    assert cut["bytes"] == len(long) and cut["kept"] + first["omitted"] == len(long)
    assert f"… {first['omitted']} bytes left out …\n" in first["result"]
    assert Path(cut["path"]).read_text() == long


def test_a_text_cut_twice_has_one_line_for_all_missing_bytes(registry: FakeRegistry) -> None:
    long = lines(2_000)
    (state,) = registry.told([seen(registry.add(long), 10_000)], 1_000)
    assert state["result"].count("left out") == 1 and len(state["result"].encode()) <= 1_000
    assert f"… {state['omitted']} bytes left out …\n" in state["result"]
    kept = len(state["result"].replace(f"… {state['omitted']} bytes left out …\n", ""))
    assert kept + state["omitted"] == len(long) and state["truncated"]["kept"] == kept


def test_a_batch_that_is_cut_while_it_grows_is_cut_as_at_once(registry: FakeRegistry) -> None:
    states = [seen(registry.add(lines(count))) for count in (2_000, 40, 3_000, 100)]
    done = AwaitResult(completed=(cast(Any, seen(registry.add(lines(1_000)))),), pending=())
    grown = truncate_batch([*states[:2], done], registry.find, 6_000)
    grown = truncate_batch([*grown, *states[2:]], registry.find, 6_000)
    replies = registry.told([*grown], 3_000)
    at_once = registry.told([*states[:2], done, *states[2:]], 3_000)
    total = 0
    for reply, whole in zip(replies, at_once, strict=True):
        (state,), (other,) = (one.get("completed", [one]) for one in (reply, whole))
        assert state["result"].count("left out") == other["result"].count("left out")
        assert state.get("truncated", {}).get("bytes") == other.get("truncated", {}).get("bytes")
        assert abs(len(state["result"]) - len(other["result"])) < 100
        if "truncated" in state:
            assert state["truncated"]["kept"] + state["omitted"] == state["truncated"]["bytes"]
        total += len(state["result"])
    assert 2_700 < total <= 3_000


def test_output_of_failures_and_of_awaits_counts(registry: FakeRegistry) -> None:
    failed = seen(registry.add(lines(500), code=1))
    stopped: Any = seen(registry.add(lines(500)))
    done = AwaitResult(completed=(stopped,), pending=())
    first, second = registry.told([failed, done], 2_000)
    assert first["error"] and first["truncated"]["path"] and len(first["content"]) <= 1_000
    (inner,) = second["completed"]
    assert inner["truncated"]["path"] and len(inner["result"]) <= 1_000


def test_a_cut_structured_result_omits_no_output(registry: FakeRegistry) -> None:
    (state,) = registry.told([seen(registry.add("{}", result="é" * 2_000))], 1_000)
    assert "omitted" not in state and state["truncated"]["bytes"] == 4_000
    assert Path(state["truncated"]["path"]).read_text("utf-8") == "é" * 2_000


def test_a_running_handle_reports_its_cut_in_omitted(registry: FakeRegistry) -> None:
    spool = Spool(1 << 20, 0, None, Budget(0))
    handle = Handle(id="live", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    handle.append_output(lines(500).encode(), 0.0)
    (state,) = registry.told([read_handle(handle, 1.0)], 1_000)
    assert state["state"] == "running" and "truncated" not in state
    assert state["omitted"] > 0 and len(state["content"]) <= 1_000
    assert state["cursor"] == len(lines(500))


def test_base64_is_never_cut(registry: FakeRegistry) -> None:
    raw = read_handle(registry.add(lines(500), code=1), 2.0, view="raw")
    (reply,) = registry.told([raw, seen(registry.add(lines(500)))], 2_000)[:1]
    assert reply["content"] == msgspec.to_builtins(raw, enc_hook=as_text)["content"]


def test_an_evicted_handle_costs_only_the_path(registry: FakeRegistry) -> None:
    state = seen(registry.add(lines(500)))
    registry.handles.clear()
    (reply,) = registry.told([state], 1_000)
    assert reply["truncated"]["path"] is None and reply["truncated"]["kept"] < 1_000


def test_results_without_a_state_are_unchanged_beside_a_cut_one(registry: FakeRegistry) -> None:
    class Row(msgspec.Struct):
        said: str

    row = Row("x" * 5_000)
    results = [row, [row], {"said": row}, seen(registry.add(lines(500)))]
    replies = truncate_batch(results, registry.find, 1_000)
    assert all(one is other for one, other in zip(replies[:3], results[:3], strict=True))
    assert replies[3] is not results[3]


def test_empty_fields_stay_left_out_of_a_cut_state(registry: FakeRegistry) -> None:
    class Told(msgspec.Struct, omit_defaults=True):
        completed: list[object]
        pending: list[object] = []

    told = Told([seen(registry.add(lines(500)))])
    (reply,) = truncate_batch([told], registry.find, 1_000)
    assert set(msgspec.to_builtins(reply)) == {"completed"}


def test_a_text_at_the_limit_is_whole(registry: FakeRegistry) -> None:
    replies = registry.told([seen(registry.add("x" * size)) for size in (100, 100, 500)], 300)
    assert [one["result"] == "x" * 100 for one in replies] == [True, True, False]


def test_a_structured_result_cut_twice_has_one_line(registry: FakeRegistry) -> None:
    (state,) = registry.told([seen(registry.add("{}", result=lines(2_000)), 10_000)], 1_000)
    cut = state["truncated"]
    missing = cut["bytes"] - cut["kept"]
    assert "omitted" not in state and cut["bytes"] == len(lines(2_000))
    assert state["result"].count("left out") == 1
    assert f"… {missing} bytes left out …\n" in state["result"]


def test_dropped_output_is_counted_as_missing_from_the_file(registry: FakeRegistry) -> None:
    spool = Spool(1_000, 8_000, registry._folder, Budget(1 << 30))
    handle = Handle(id="h0", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    for line in lines(5_000).splitlines(keepends=True):
        handle.append_output(line.encode(), 0.0)
    handle.end(Termination(by=EndedBy("exit"), exit=Exit(code=0)), 1.0)
    registry.handles.append(handle)
    (state,) = registry.told([seen(handle)], 1_000)
    cut = state["truncated"]
    assert cut["omitted"] > 0
    assert len(Path(cut["path"]).read_bytes()) + cut["omitted"] >= len(lines(5_000))


def test_truncation_runs_in_steps(registry: FakeRegistry) -> None:
    """One step to measure each result, and one for each text that is cut."""
    results = [seen(registry.add(lines(500))) for _ in range(3)]
    assert sum(1 for _ in portion_in_steps([*results, None], registry.find)) == 4
    assert sum(1 for _ in portion_in_steps([*results, None], registry.find, 1_000)) == 4 + 3
