from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from haft_protocol.states import EndedBy
from haftd.core.registry import Registry, SpawnKey, admit_batch
from haftd.core.termination import Termination
from tests.core.test_registry import admit

NAMES = st.tuples(st.sampled_from("st"), st.sampled_from("abcd"))


@settings(deadline=None)
@given(st.lists(NAMES, max_size=6), st.sets(NAMES, max_size=4), st.sets(NAMES, max_size=4))
def test_exactly_the_clashing_spawns_fail_and_no_id_is_taken(
    spawns: list[tuple[str, str]], live: set[tuple[str, str]], stopped: set[tuple[str, str]]
) -> None:
    registry = Registry()
    for key in live | stopped:
        handle = admit(registry, key[1], session=key[0]).handle
        if key not in live:
            handle.end(Termination(by=EndedBy(by="exit")), 1.0)
    before = registry.list()
    errors = admit_batch([SpawnKey(*key) for key in spawns], registry)
    assert [error is not None for error in errors] == [
        key in live or spawns.count(key) > 1 for key in spawns
    ]
    for key, error in zip(spawns, errors, strict=True):
        if error is not None:
            assert error.kind == "handle_exists" and error.data["id"] == key[1]
    assert registry.list() == before


def test_a_repeated_call_is_no_clash() -> None:
    registry = Registry()
    admit(registry, "a", call_id="c", args={"n": 1})
    again = SpawnKey("s", "a", "run", "c", {"n": 1})
    other = SpawnKey("s", "a", "run", "d", {"n": 1})
    assert admit_batch([again, again], registry) == [None, None]
    assert [error is None for error in admit_batch([again, other], registry)] == [True, False]
    fresh = SpawnKey("s", "b", "run", "e", {})
    assert admit_batch([fresh, fresh], registry) == [None, None]


def test_an_id_reserved_for_a_batch_is_taken_by_no_other_spawn() -> None:
    registry = Registry()
    give_up = registry.reserve("s", "a")
    [clash] = admit_batch([SpawnKey("s", "a")], registry)
    assert clash is not None and clash.kind == "handle_exists"
    assert admit_batch([SpawnKey("t", "a")], registry) == [None]
    give_up()
    assert admit_batch([SpawnKey("s", "a")], registry) == [None]
