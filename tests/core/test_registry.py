"""The registry: admission of ids, limits, retention of results."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Exit, Stopped
from haftd.core import registry as registry_module
from haftd.core.handles import DEFAULT_SETTINGS, Handle, HandleSettings
from haftd.core.registry import Admission, Registry
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.views import read_handle
from tests.core.disks import make
from tests.effort import examples

EXIT = EndedBy(by="exit")


def admit(
    registry: Registry,
    id: str = "a",
    now: float = 0.0,
    *,
    session: str = "s",
    tool: str = "run",
    call_id: str | None = None,
    args: dict[str, Any] | None = None,
    spool: Callable[[], Spool] = make,
    settings: HandleSettings = DEFAULT_SETTINGS,
) -> Admission:
    return registry.admit(
        now,
        session=session,
        id=id,
        tool=tool,
        call_id=call_id,
        args=args or {},
        root="/",
        make_spool=spool,
        settings=settings,
    )


class Args(dict[str, Any]):
    """Arguments with a weak reference."""


def test_a_handle_does_not_keep_its_arguments() -> None:
    registry, args = Registry(), Args(text="x" * 1000)
    gone = weakref.ref(args)
    handle = admit(registry, call_id="c", args=args).handle
    del args
    assert gone() is None
    again = {"text": "x" * 1000}
    assert admit(registry, "b", call_id="c", args=again) == Admission(handle, is_repeated=True)


def end(handle: Handle, now: float = 1.0, *, read: bool = False) -> Handle:
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), now)
    if read:
        read_handle(handle, now)
    return handle


def refused(call: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    with pytest.raises(RpcError) as caught:
        call(*args, **kwargs)
    return caught.value.data


def test_a_live_id_is_taken_and_a_stopped_one_is_free_with_the_next_generation() -> None:
    registry = Registry()
    first = admit(registry).handle
    assert refused(admit, registry)["kind"] == "handle_exists"
    assert admit(registry, session="other").handle.generation == 1
    first.start(0.5)
    assert refused(admit, registry)["state"] == "running"
    end(first)
    second = admit(registry, now=2.0).handle
    assert second.generation == 2 and registry.find("s", "a", lambda: 2.0) is second


def test_a_replaced_handle_is_evicted_once_the_new_one_runs() -> None:
    registry = Registry()
    first = end(admit(registry).handle)
    second = admit(registry).handle
    assert registry.sweep(1.0) == [] and registry.next_expiry(1.0) is None
    second.start(1.0)
    assert registry.next_expiry(1.0) == 1.0
    assert registry.sweep(1.0) == [first] and registry.sweep(1.0) == []


def test_a_forgotten_handle_is_reported_and_a_replaced_one_is_not() -> None:
    registry = Registry(retain_s=10.0)
    events: list[tuple[str, int]] = []
    registry.on_forgotten = lambda handle: events.append(("forgotten", handle.generation))
    registry.on_restored = lambda handle: events.append(("restored", handle.generation))
    end(admit(registry).handle)
    rejected = admit(registry).handle
    registry.withdraw(rejected)
    assert events == [("forgotten", 2), ("restored", 1)]
    second = admit(registry, now=1.0).handle
    second.start(1.0)
    registry.sweep(1.0)
    assert len(events) == 2
    end(second, read=True)
    registry.sweep(99.0)
    assert events[2:] == [("forgotten", 2)]


def test_a_transient_handle_goes_unread_but_not_while_a_reader_waits() -> None:
    registry = Registry(retain_s=600.0)
    settings = HandleSettings(is_transient=True)
    handle = admit(registry, settings=settings).handle
    handle.listen(object)
    end(handle, 1.0)
    assert registry.next_expiry(9.0) is None and registry.sweep(9.0) == []
    handle.unlisten(object)
    assert registry.next_expiry(1.0) == 6.0 and registry.sweep(5.9) == []
    retained = end(admit(registry, "b").handle, 1.0, read=True)
    assert registry.sweep(6.0) == [handle] and registry.list() == [retained]
    later = end(admit(registry, "c", settings=settings).handle, 7.0)
    assert registry.next_expiry(7.0) == 12.0 and registry.sweep(12.0) == [later]
    assert registry.next_expiry(12.0) == 601.0


@pytest.mark.parametrize("how", ["session", "all"])
def test_limits_name_themselves_and_stopped_handles_do_not_count(how: str) -> None:
    registry = Registry(max_handles=3 if how == "all" else 99, max_per_session=3)
    handles = [admit(registry, str(n), session="s").handle for n in range(2)]
    handles.append(admit(registry, "x", session="s" if how == "session" else "t").handle)
    data = refused(admit, registry, "more")
    assert data["kind"] == "limit_exceeded"
    assert (data["limit"], data["value"]) == (
        "max_handles" if how == "all" else "max_handles_session",
        3,
    )
    end(handles[0])
    admit(registry, "more")
    assert all(handle.state == "pending" for handle in handles[1:])


def test_an_admission_that_is_refused_makes_no_spool() -> None:
    registry = Registry(max_handles=0)

    def fail() -> Any:
        raise AssertionError("nothing is made for a handle that is refused")

    refused(
        registry.admit,
        0.0,
        session="s",
        id="a",
        tool="t",
        call_id=None,
        args={},
        root="/",
        make_spool=fail,
    )


def test_a_repeated_call_gets_the_first_ones_handle() -> None:
    registry = Registry()
    first = admit(registry, call_id="c", args={"n": 1}).handle
    assert admit(registry, call_id="c", args={"n": 1}) == Admission(first, is_repeated=True)
    end(first, read=True)
    assert admit(registry, call_id="c", args={"n": 1}) == Admission(first, is_repeated=True)
    for tool, args in (("run", {"n": True}), ("run", {}), ("x", {"n": 1})):
        assert registry.find_call("s", "c", tool, args) is None
    assert not admit(registry, "b", session="t", call_id="c", args={"n": 1}).is_repeated
    other = admit(registry, "b", call_id="c", args={"n": 2}).handle
    assert registry.find_call("s", "c", "run", {"n": 2}) is other, "under the same id another call"
    assert registry.find_call("s", "c", "run", {"n": 1}) is first
    # Once its id is used again without the call, the call is no longer known.
    admit(registry)
    assert not admit(registry, "d", call_id="c", args={"n": 1}).is_repeated


def test_the_error_of_a_failed_start_is_kept_for_its_id_until_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "_MAX_REJECTIONS", 2)
    registry = Registry()

    def missing(id: str = "a") -> str:
        with pytest.raises(RpcError) as caught:
            registry.find("s", id, lambda: 0.0)
        assert "expired" not in caught.value.data
        return caught.value.message

    registry.withdraw(admit(registry).handle, "It was denied.")
    assert missing() == "Handle 'a' of session 's' was not started: It was denied."
    registry.withdraw(admit(registry).handle)
    assert missing().startswith("There is no handle 'a'")
    for id in ("b", "a", "c"):
        registry.withdraw(admit(registry, id).handle, "no")
    assert missing("b").startswith("There is no") and missing().endswith("not started: no")


def test_a_failed_start_leaves_no_handle() -> None:
    registry = Registry(max_handles=1)
    registry.withdraw(admit(registry, call_id="c").handle)
    assert "expired" not in refused(registry.find, "s", "a", lambda: 0.0)
    assert registry.list() == []
    again = admit(registry, call_id="c")
    assert not again.is_repeated and again.handle.generation == 1


def test_a_failed_start_restores_the_replaced_handle() -> None:
    registry = Registry()
    first = end(admit(registry, call_id="c").handle)
    second = admit(registry, call_id="d").handle
    registry.withdraw(second)
    assert registry.find("s", "a", lambda: 1.0) is first and registry.sweep(1.0) == []
    assert registry.list() == [first]
    assert registry.find_call("s", "c", "run", {}) is first
    assert registry.find_call("s", "d", "run", {}) is None
    assert admit(registry).handle.generation == 2
    registry.withdraw(second)
    assert registry.find("s", "a", lambda: 1.0).generation == 2


def test_a_handle_aborted_and_then_withdrawn_keeps_the_counts_right() -> None:
    registry = Registry(max_handles=1)
    registry.withdraw(end(admit(registry).handle))
    assert registry.list() == [] and registry.sweep(1.0) == []
    admit(registry)
    assert refused(admit, registry, "b")["limit"] == "max_handles"


def test_a_result_stays_until_it_is_read_and_its_time_is_over() -> None:
    registry = Registry(retain_s=600)
    unread, early, late = (end(admit(registry, id).handle) for id in ("u", "e", "l"))
    read_handle(early, 2.0)
    assert registry.next_expiry(3.0) == 601.0
    assert registry.sweep(600.9) == []
    assert registry.find("s", "e", lambda: 600.9) is early
    assert registry.sweep(601.0) == [early]
    read_handle(late, 5000.0)
    assert registry.next_expiry(5000.0) == 5005.0
    assert registry.find("s", "l", lambda: 5001.0) is late
    data = refused(registry.find, "s", "l", lambda: 5006.0)
    assert data["kind"] == "handle_not_found" and data["expired"] is True
    assert registry.sweep(5006.0) == [late]
    assert registry.find("s", "u", lambda: 1e9) is unread
    assert "expired" not in refused(registry.find, "s", "never", lambda: 1.0)
    assert refused(registry.find, "s", "e", lambda: 1.0)["expired"] is True


def test_the_error_for_an_unknown_handle_names_the_known_ones() -> None:
    """A model has no other way to learn the ids. Running handles come first, the latest before
    others."""
    registry = Registry()
    with pytest.raises(RpcError, match=r"no handle 'x' in session 's'; it has none. `spawn`"):
        registry.find("s", "x", lambda: 1.0)
    end(admit(registry, "ended").handle)
    admit(registry, "early")
    admit(registry, "late")
    with pytest.raises(RpcError, match=r"'s'; those there are: 'late', 'early', 'ended'\.$"):
        registry.find("s", "x", lambda: 1.0)
    for number in range(8):
        admit(registry, f"more{number}")
    with pytest.raises(RpcError, match=r": 'more7', .*'more0', and 3 more in `handles/list`\.$"):
        registry.find("s", "x", lambda: 1.0)


def test_surplus_results_are_evicted_oldest_first_and_read_ones_before() -> None:
    registry = Registry(retain_max=3)
    alive = admit(registry, "alive").handle
    handles = [end(admit(registry, str(n)).handle, float(n)) for n in range(6)]
    read_handle(handles[4], 6.0)
    assert registry.next_expiry(6.0) == 6.0
    assert registry.sweep(6.0) == [handles[4], handles[0], handles[1]]
    assert registry.list("s") == [alive, handles[2], handles[3], handles[5]]


def test_results_of_many_sessions_are_bounded_together() -> None:
    registry = Registry(retain_all=5)
    handles = [end(admit(registry, "a", session=f"s{n}").handle, 8.0 - n) for n in range(9)]
    assert registry.sweep(9.0) == handles[:4:-1], "the longest stopped of all sessions first"
    assert registry.list() == handles[:5]


def spooled(registry: Registry, id: str, now: float, session: str = "s") -> Handle:
    """A stopped handle whose output is in a file."""
    handle = admit(registry, id, session=session, spool=lambda: make(1000, 1 << 20)).handle
    handle.append_output(b"x" * 100_000, now)
    return end(handle, now)


def is_open(handles: list[Handle]) -> list[bool]:
    return [handle.spool.is_open for handle in handles]


def test_too_many_files_of_stopped_handles_are_closed_and_their_ends_stay_to_be_read() -> None:
    registry = Registry(open_max=3)
    handles = [spooled(registry, "a", float(n), session=f"s{n}") for n in range(6)]
    read_handle(handles[4], 6.0)
    assert registry.next_expiry(6.0) == 6.0
    assert registry.sweep(6.0) == []
    assert is_open(handles) == [False, False, True, True, False, True]
    assert (registry.truncated_handles, registry.truncated_unread) == (3, 2)
    assert registry.list() == handles
    assert registry.next_expiry(6.0) != 6.0
    state = read_handle(handles[0], 7.0)
    assert isinstance(state, Stopped) and state.exit == Exit(code=0)
    assert state.omitted and state.omitted + len(state.result or "") >= 100_000


def test_a_live_or_held_handle_keeps_its_file() -> None:
    registry = Registry(open_max=0)
    live = admit(registry, "live", spool=lambda: make(1000, 1 << 20)).handle
    live.append_output(b"x" * 100_000, 0.0)
    held = spooled(registry, "held", 1.0)
    held.set_left_behind(tuple)
    assert registry.next_expiry(1.0) is None
    registry.sweep(1.0)
    assert is_open([live, held]) == [True, True]
    assert not registry.close_files()
    held.clear_left_behind()
    assert registry.next_expiry(1.0) == 1.0
    registry.sweep(1.0)
    assert is_open([live, held]) == [True, False]


def test_the_limit_of_files_asks_no_handle_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(open_max=3)
    for n in range(20):
        end(admit(registry, f"h{n}").handle, float(n))
    asked: list[Spool] = []

    def ask(spool: Spool) -> bool:
        asked.append(spool)
        return False

    monkeypatch.setattr(Spool, "is_open", property(ask))
    assert registry.sweep(20.0) == [] and registry.next_expiry(20.0) is None
    assert asked == []


def test_a_file_opened_by_the_end_of_the_output_counts() -> None:
    registry = Registry(open_max=0)
    handle = admit(registry, spool=lambda: make(1 << 20, 1 << 20)).handle
    handle.append_output(b"x" * 100_000, 0.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 1.0, complete=False)
    assert is_open([handle]) == [False] and registry.next_expiry(1.0) is None
    handle.complete_output(2.0)
    assert is_open([handle]) == [True] and registry.next_expiry(2.0) == 2.0
    registry.sweep(2.0)
    assert is_open([handle]) == [False]


def test_files_are_closed_a_few_at_a_time() -> None:
    registry = Registry()
    assert not registry.close_files()
    handles = [spooled(registry, str(n), float(n)) for n in range(40)]
    assert registry.close_files()
    assert is_open(handles) == [False] * 32 + [True] * 8
    assert registry.close_files() and not any(is_open(handles))
    assert not registry.close_files()


def test_a_forgotten_handle_is_expired_and_a_live_one_cannot_be_forgotten() -> None:
    registry = Registry()
    live, over = admit(registry, "l").handle, end(admit(registry, "o").handle)
    registry.forget(live)
    registry.forget(over)
    registry.forget(over)
    assert registry.sweep(1.0) == [over] and registry.list() == [live]
    assert refused(registry.find, "s", "o", lambda: 1.0)["expired"] is True


def test_a_lost_execution_is_stopped_and_keeps_its_generation() -> None:
    registry = Registry()
    lost = registry.restore_lost(0.0, session="s", id="a", tool="run", generation=4, command="x")
    assert lost is not None
    state = read_handle(registry.find("s", "a", lambda: 0.0), 1.0)
    assert isinstance(state, Stopped) and state.ended_by.by == "lost" and state.generation == 4
    older = registry.restore_lost(0.0, session="s", id="a", tool="run", generation=2)
    newer = registry.restore_lost(0.0, session="s", id="a", tool="run", generation=5)
    assert older is None and newer is registry.find("s", "a", lambda: 0.0)
    assert registry.sweep(0.0) == [lost]
    assert admit(registry).handle.generation == 6


def test_used_ids_are_remembered_within_bounds_and_kept_ones_for_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "_MAX_REMEMBERED_IDS", 5)
    registry = Registry()
    kept = end(admit(registry, "kept").handle)
    for n in range(20):
        registry.forget(end(admit(registry, str(n)).handle))
    assert "expired" not in refused(registry.find, "s", "0", lambda: 1.0)
    assert refused(registry.find, "s", "19", lambda: 1.0)["expired"] is True
    assert registry.find("s", "kept", lambda: 1.0) is kept
    assert admit(registry, "kept").handle.generation == 2


class Books(RuleBasedStateMachine):
    """The registry against a plain model: live, kept and evicted exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.registry = Registry(6, 4, 10.0, 3, 5)
        self.live: list[Handle] = []
        self.seen: list[Handle] = []
        self.left: list[Handle] = []
        self.withdrawn: list[Handle] = []
        self.generations: dict[tuple[str, str], int] = {}
        self.noted: dict[tuple[str, str], int] = {}
        self.registry.on_used = self.note

    def note(self, session: str, id: str, generation: int) -> None:
        self.noted[session, id] = generation

    @rule(session=st.sampled_from("xy"), id=st.sampled_from("abcde"), start=st.booleans())
    def admit(self, session: str, id: str, start: bool) -> None:
        taken = any((h.session, h.id) == (session, id) for h in self.live)
        in_session = sum(h.session == session for h in self.live)
        if taken or in_session >= 4 or len(self.live) >= 6:
            refused(admit, self.registry, id, self.now, session=session)
            return
        handle = admit(self.registry, id, self.now, session=session).handle
        assert handle.generation == self.generations.get((session, id), 0) + 1
        self.generations[session, id] = handle.generation
        if start:
            handle.start(self.now)
        self.live.append(handle)
        self.seen.append(handle)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), read=st.booleans())
    def stop(self, data: st.DataObject, read: bool) -> None:
        handle = data.draw(st.sampled_from(self.live))
        end(handle, self.now, read=read)
        self.live.remove(handle)

    @precondition(lambda self: any(h.state == "pending" for h in self.live))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from([h for h in self.live if h.state == "pending"]))
        self.registry.withdraw(handle)
        self.generations[handle.session, handle.id] -= 1
        self.live.remove(handle)
        self.withdrawn.append(handle)

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 11.0]))
    def sweep(self, seconds: float) -> None:
        self.now += seconds
        due = self.registry.next_expiry(self.now)
        gone = self.registry.sweep(self.now)
        assert bool(gone) == (due is not None and due <= self.now)
        self.left += gone

    @rule(session=st.sampled_from("xy"), id=st.sampled_from("abcde"))
    def read(self, session: str, id: str) -> None:
        try:
            handle = self.registry.find(session, id, lambda: self.now)
        except RpcError as error:
            assert error.data.get("expired", False) == bool(self.generations.get((session, id)))
        else:
            read_handle(handle, self.now)

    @invariant()
    def books_are_balanced(self) -> None:
        registry = self.registry
        assert sorted(map(id, registry.live())) == sorted(map(id, self.live))
        kept = registry.list()
        assert sorted(map(id, kept)) == sorted(map(id, registry.list("x") + registry.list("y")))
        assert len(set(map(id, self.left))) == len(self.left)
        assert all(h.stopped for h in self.left)
        assert not set(map(id, self.left)) & set(map(id, registry.list()))

    @invariant()
    def a_restart_knows_each_id_and_each_lost_handle(self) -> None:
        assert self.noted == self.generations
        restarted = Registry()
        for (session, id), generation in self.noted.items():
            restarted.remember_used(session, id, generation)
        for handle in self.live:
            session, id, generation = handle.session, handle.id, handle.generation
            lost = restarted.restore_lost(
                9.0, session=session, id=id, tool="run", generation=generation, age=2.0
            )
            assert restarted.find(session, id, lambda: 9.0) is lost
            assert restarted.get(session, id, generation) is lost
        assert len(restarted.list()) == len(self.live) and not restarted.live()
        for (session, id), generation in self.noted.items():
            assert restarted.is_used(session, id) is True
            assert admit(restarted, id, session=session).handle.generation == generation + 1

    def teardown(self) -> None:
        for handle in self.live:
            end(handle, self.now, read=True)
        for handle in self.registry.list():
            read_handle(handle, self.now)
        self.left += self.registry.sweep(self.now + 1000.0)
        assert set(map(id, self.left)) == set(map(id, self.seen)) - set(map(id, self.withdrawn))


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=examples(16), stateful_step_count=30, deadline=None)


def test_a_stopped_handle_with_running_processes_is_never_evicted() -> None:
    registry = Registry(max_handles=100, max_per_session=100, retain_s=1.0, retain_max=2)
    handles = []
    for at in range(5):
        handle = registry.admit(
            0.0,
            session="s",
            id=f"h{at}",
            tool="t",
            call_id=None,
            args={},
            root="/",
            make_spool=lambda: Spool(0, 0, None, Budget(0)),
        ).handle
        handle.start(0.0)
        handle.set_left_behind(tuple)
        handle.end(Termination(by=EndedBy("exit")), 0.0)
        read_handle(handle, 0.0)
        handles.append(handle)
    assert registry.sweep(1000.0) == [] and registry.next_expiry(1000.0) is None
    assert registry.find("s", "h0", lambda: 1000.0) is handles[0]
    for handle in handles:
        handle.clear_left_behind()
    assert set(registry.sweep(1000.0)) == set(handles)
