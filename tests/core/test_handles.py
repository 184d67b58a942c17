from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from haft_protocol.questions import Boolean, Question
from haft_protocol.states import (
    By,
    EndedBy,
    Exit,
    HandleState,
    LeftBehind,
    Pending,
    Running,
    Screen,
    Stopped,
    ToolError,
    Waiting,
)
from haftd.core.escapes import decode
from haftd.core.handles import Handle
from haftd.core.lifecycle import IllegalTransition, State
from haftd.core.termination import Termination
from haftd.core.text import omission_line
from haftd.core.views import handle_state, note_read, read_handle
from tests.core.disks import make

QUESTION = Question(id="q", text="Go on?", answer_type=Boolean())
EXIT = EndedBy(by="exit")


def handle_of(memory: int = 1 << 20, disk: int = 0) -> Handle:
    return Handle(
        id="h",
        tool="run",
        session="s",
        generation=3,
        spool=make(memory=memory, disk=disk),
        now=100.0,
        wall=5000.0,
    )


def running() -> Handle:
    handle = handle_of()
    handle.start(100.0, pid=7, command="cat", terminal=False)
    return handle


def stopped(state: HandleState) -> Stopped:
    assert isinstance(state, Stopped)
    return state


def text_of(state: HandleState) -> str:
    if isinstance(state, Stopped):
        one = state.result if state.result is not UNSET else state.content
        assert isinstance(one, str)
        return one
    return state.content


def last_versions(text: str) -> str:
    """Return the text as a terminal would leave it: the text after each line's last carriage
    return."""
    lines = (line.rstrip("\r") for line in text.split("\n"))
    return "\n".join(line[line.rfind("\r") + 1 :] for line in lines)


def has_introducers(data: bytes) -> bool:
    """Return True if a byte may begin a control sequence without an Escape."""
    codes = {ord(char) for char in data.decode("utf-8", "surrogateescape")}
    return any(codes & {byte, 0xDC00 + byte} for byte in b"\x90\x98\x9b\x9c\x9d\x9e\x9f")


EVENTS: dict[str, Callable[[Handle], None]] = {
    "start": lambda handle: handle.start(101.0, pid=1, command="x", terminal=True),
    "ask": lambda handle: handle.ask(QUESTION, 102.0),
    "answer": lambda handle: handle.answer(103.0),
    "end": lambda handle: handle.end(
        Termination(by=EXIT, exit=Exit(code=0)), 104.0, complete=False
    ),
}
LEGAL = {
    ("pending", "start"): "running",
    ("running", "ask"): "waiting",
    ("waiting", "answer"): "running",
    **{(state, "end"): "stopped" for state in ("pending", "running", "waiting")},
}
OTHERS: dict[str, Callable[[Handle], object]] = {
    "emit": lambda handle: handle.append_output(b"x", 105.0),
    "touch": lambda handle: handle.touch(106.0),
    "complete": lambda handle: handle.complete_output(107.0),
    "view": lambda handle: read_handle(handle, 108.0),
}


@settings(deadline=None)
@given(st.lists(st.sampled_from([*EVENTS, *OTHERS])))
@example(["start", "ask", "end", "answer", "complete"])
def test_any_order_of_events_keeps_the_table_and_an_illegal_one_changes_nothing(
    names: list[str],
) -> None:
    handle = handle_of()
    calls: list[State] = []
    handle.listen(lambda: calls.append(handle.state))
    for name in names:
        before, state = {slot: getattr(handle, slot) for slot in Handle.__slots__}, handle.state
        called = len(calls)
        if name in OTHERS:
            OTHERS[name](handle)
            assert handle.state is state
            continue
        following = LEGAL.get((str(handle.state), name))
        if following is None:
            with pytest.raises(IllegalTransition):
                EVENTS[name](handle)
            assert {slot: getattr(handle, slot) for slot in Handle.__slots__} == before
            assert len(calls) == called
        else:
            EVENTS[name](handle)
            assert handle.state == following
            assert calls[called:] == [following]
    assert (handle.question is None) == (handle.state is not State.WAITING)


@settings(deadline=None)
@given(
    chunks=st.lists(
        st.binary(max_size=5) | st.sampled_from(["≤".encode()[:1], "≤".encode()[1:], b"\n"])
    ),
    reads=st.lists(st.sampled_from(["", "one", "other", "look", "all", "cursor", "tail"])),
    late=st.binary(max_size=5),
)
@example(chunks=[], reads=[], late=b"\r\x00")
@example(chunks=[b"ab", b"\rc"], reads=["one", "one"], late=b"\r")
@example(chunks=[b"\x90"], reads=["one"], late=b"\x18")
def test_deltas_of_readers_in_turn_join_to_the_output_whatever_else_is_read(
    chunks: list[bytes], reads: list[str], late: bytes
) -> None:
    handle = running()
    parts: list[str] = []
    for at, chunk in enumerate(chunks):
        handle.append_output(chunk, 101.0)
        match reads[at] if at < len(reads) else "":
            case "one" | "other":
                parts.append(text_of(read_handle(handle, 101.0)))
            case "look":
                handle_state(handle, 101.0)
            case "all" | "tail" as view:
                read_handle(handle, 101.0, view=view)
            case "cursor":
                read_handle(handle, 101.0, cursor=at)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0, complete=False)
    read_handle(handle, 103.0)
    handle.append_output(late, 103.0)
    handle.complete_output(104.0)
    last = [read_handle(handle, 105.0 + n) for n in range(3)]
    parts.append(text_of(last[0]))
    whole = b"".join(chunks) + late
    if not has_introducers(whole):
        assert last_versions("".join(parts)) == last_versions(decode(whole))
    assert last[0] == last[1] == last[2]
    handle.append_output(b"too late", 106.0)
    assert read_handle(handle, 107.0) == last[0]


def test_a_byte_that_may_be_a_letter_is_not_held_back() -> None:
    """In an encoding other than UTF-8 an introducer of eight bits is a letter, such as the end of a prompt."""
    handle = running()
    handle.append_output(b"\x90", 101.0)
    assert text_of(read_handle(handle, 101.0)) == "\ufffd"
    handle.append_output(b"\x18", 102.0)
    assert text_of(read_handle(handle, 102.0)) == "\x18"
    assert text_of(read_handle(handle, 102.0, view="all")) == "", "read together it is a sequence"


def test_a_cut_delta_moves_the_read_offset_over_omitted_output() -> None:
    handle = running()
    handle.append_output(b"0123456789" * 10, 101.0)
    state = read_handle(handle, 101.0, max_bytes=10)
    assert text_of(state) == "01234\n" + omission_line(90) + "56789"
    assert (state.omitted, state.cursor, handle.position.offset) == (90, 100, 100)
    assert text_of(read_handle(handle, 101.0)) == ""
    assert text_of(read_handle(handle, 101.0, cursor=0)) == "0123456789" * 10


def test_output_unread_at_the_stop_is_the_delta_of_every_reader() -> None:
    handle = running()
    handle.append_output(b"read\n", 101.0)
    read_handle(handle, 101.0)
    handle.append_output(b"unread\n", 101.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0)
    assert [stopped(read_handle(handle, 103.0)).result for _ in range(3)] == ["unread\n"] * 3
    assert stopped(read_handle(handle, 103.0, view="all")).result == "read\nunread\n"
    assert stopped(read_handle(handle, 103.0, view="tail", max_bytes=3)).result == "ad\n"
    assert stopped(read_handle(handle, 103.0, cursor=2)).result == "ad\nunread\n"
    assert stopped(read_handle(handle, 103.0)).result == "unread\n"


def test_each_state_carries_its_own_data() -> None:
    handle = handle_of()
    pending = read_handle(handle, 100.5)
    assert isinstance(pending, Pending) and pending.elapsed_ms == 500
    handle.start(101.0, pid=7, command="cat", terminal=False)
    assert isinstance(handle_state(handle, 101.0, input_wanted=None, waited="output"), Running)
    handle.ask(QUESTION, 102.0)
    waiting = read_handle(handle, 102.0)
    assert isinstance(waiting, Waiting) and waiting.question == QUESTION
    handle.answer(103.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 104.0)
    end = stopped(handle_state(handle, 999.0, waited="stopped"))
    assert end.elapsed_ms == 4000 and end.generation == 3 and end.waited == "stopped"
    assert end.exit == Exit(code=0) and end.output_complete is True


@pytest.mark.parametrize(
    ("exit_", "message"),
    [
        (Exit(code=7), "The process exited with code 7."),
        (Exit(signal="SEGV"), "The process was ended by signal SEGV."),
    ],
)
def test_a_raw_failure_names_the_exit_and_keeps_the_output(exit_: Exit, message: str) -> None:
    handle = running()
    handle.append_output(b"boom\n", 101.0)
    handle.end(Termination(by=EXIT, exit=exit_), 102.0)
    end = stopped(read_handle(handle, 103.0))
    assert isinstance(end.error, ToolError) and end.error.message == message
    assert (end.content, end.result, end.exit) == ("boom\n", UNSET, exit_)


@pytest.mark.parametrize("by", ["abort", "turn_end", "disconnect", "shutdown", "limit", "lost"])
def test_the_cause_of_an_end_is_named_and_the_output_is_kept(by: By) -> None:
    handle = running()
    handle.append_output(b"line 1\n", 101.0)
    ended_by = EndedBy(by=by, client="nvim") if by == "abort" else EndedBy(by=by)
    handle.end(Termination(by=ended_by, exit=Exit(code=0), unconfirmed=(9,)), 102.0)
    end = stopped(read_handle(handle, 103.0))
    assert isinstance(end.error, ToolError) and end.content == "line 1\n"
    assert by != "abort" or "by nvim" in end.error.message
    assert end.ended_by == ended_by and end.unconfirmed == (9,) and end.result is UNSET


def test_a_structured_tool_determines_its_result() -> None:
    good, bad = running(), running()
    for handle in (good, bad):
        handle.append_output(b'{"type": "success"}', 101.0)
    good.end(Termination(by=EXIT, result="fine", exit=Exit(code=1)), 102.0)
    failure = ToolError(message="no", trace=("a",), transient=True)
    bad.end(Termination(by=EXIT, failure=failure, exit=Exit(code=0)), 102.0)
    end = stopped(read_handle(good, 103.0))
    assert (end.result, end.error, end.content) == ("fine", UNSET, UNSET)
    end = stopped(read_handle(bad, 103.0))
    assert (end.result, end.error, end.content) == (UNSET, failure, UNSET)
    assert end.cursor == bad.spool.end


def test_a_long_result_reports_its_cut() -> None:
    handle = running()
    handle.end(Termination(by=EXIT, result="x" * 1000), 102.0)
    end = stopped(read_handle(handle, 103.0, max_bytes=100))
    assert end.truncated is not UNSET
    assert (end.truncated.bytes, end.truncated.kept, end.truncated.path) == (1000, 100, None)


def test_a_cut_raw_result_reports_its_cut() -> None:
    handle = running()
    handle.append_output(b"x" * 50_000, 101.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0)
    end = stopped(read_handle(handle, 103.0, max_bytes=100))
    assert end.truncated is not UNSET and end.omitted == 49_900
    assert (end.truncated.bytes, end.truncated.kept) == (50_000, 100)


def test_an_incomplete_end_is_reported_and_left_behind_is_asked_each_time() -> None:
    handle = running()
    left = [LeftBehind(pid=9, command="sleep")]
    handle.set_left_behind(lambda: tuple(left))
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0, complete=False)
    end = stopped(read_handle(handle, 103.0))
    assert end.output_complete is False and end.left_behind == (left[0],)
    handle.complete_output(104.0)
    left.clear()
    end = stopped(read_handle(handle, 105.0))
    assert end.output_complete is True and end.left_behind is UNSET


def test_a_character_completed_after_the_end_is_shown_once() -> None:
    handle = running()
    handle.append_output(b"a\xe2", 101.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0, complete=False)
    assert text_of(read_handle(handle, 103.0)) == "a"
    handle.append_output(b"\x89\xa4\xe2", 103.0)
    assert text_of(read_handle(handle, 103.0)) == "a≤"
    handle.complete_output(104.0)
    assert text_of(read_handle(handle, 105.0)) == "a≤\ufffd"


@pytest.mark.parametrize("complete", [True, False])
def test_a_long_output_leaves_the_memory_when_its_end_is_complete(complete: bool) -> None:
    handle = handle_of(disk=1 << 22)
    handle.start(100.0)
    handle.append_output(b"x" * 100_000, 101.0)
    handle.end(Termination(by=EXIT, exit=Exit(code=0)), 102.0, complete=complete)
    assert handle.spool.on_disk == (100_000 if complete else 0)
    handle.complete_output(103.0)
    assert handle.spool.on_disk == 100_000
    assert text_of(read_handle(handle, 104.0, max_bytes=1 << 20)) == "x" * 100_000


def test_a_screen_view_moves_no_read_offset() -> None:
    handle = running()
    handle.append_output(b"hello", 101.0)
    screen = Screen(rows=1, cols=5, cursor=(0, 0), alt=False, title="", revision=1, scrollback=0)
    state = handle_state(handle, 101.0, view="screen", screen=screen)
    note_read(handle, state, 101.0, view="screen", cursor=None)
    assert text_of(state) == "" and state.screen == screen and state.cursor == 5
    assert handle.position.offset == 0
    assert text_of(read_handle(handle, 101.0)) == "hello"


def test_a_state_that_is_not_reported_as_read_counts_as_unread() -> None:
    handle = running()
    handle.append_output(b"hello", 101.0)
    handle_state(handle, 101.0)
    assert handle.position.offset == 0
    handle.end(Termination(by=EXIT), 102.0)
    handle_state(handle, 103.0)
    assert handle.position.end_read_at is None
    read_handle(handle, 104.0)
    read_handle(handle, 105.0)
    assert handle.position.end_read_at == 104.0


@pytest.mark.parametrize("state", ["pending", "running", "waiting", "stopped"])
@pytest.mark.parametrize("view", ["delta", "all", "tail", "raw", "screen", "paint", "none"])
@pytest.mark.parametrize("cursor", [None, 1])
def test_a_state_is_made_without_a_change_of_the_handle(
    state: str, view: str, cursor: int | None
) -> None:
    handle = handle_of()
    for event in list(EVENTS)[: ("pending", "running", "waiting", "stopped").index(state)]:
        EVENTS["end" if state == "stopped" and event == "answer" else event](handle)
        handle.append_output(b"printed\n", 105.0)
    assert handle.state == state
    kept = {"_base_state", "_base_state_of"}
    before = {slot: getattr(handle, slot) for slot in {*Handle.__slots__} - kept}
    handle_state(handle, 200.0, view=view, cursor=cursor)
    assert {slot: getattr(handle, slot) for slot in before} == before


@settings(deadline=None)
@given(st.lists(st.sampled_from([*EVENTS, "emit", "complete", "request a stop", "end survivors"])))
@example(["start", "ask", "answer", "end", "complete"])
@example(["start", "ask", "request a stop", "end", "end survivors"])
def test_a_state_kept_between_reads_is_that_of_a_handle_read_only_once(names: list[str]) -> None:
    events: dict[str, Callable[[Handle], object]] = {
        **EVENTS,
        **OTHERS,
        "request a stop": lambda handle: handle.request_stop(EndedBy(by="abort")),
        "end survivors": lambda handle: handle.end_survivors(),
    }
    often, once = handle_of(), handle_of()
    for name in names:
        for handle in (often, once):
            with suppress(IllegalTransition):
                events[name](handle)
        kept = often.base_state
        handle_state(often, 150.0)
        assert often.base_state is kept
    assert handle_state(often, 200.0) == handle_state(once, 200.0)


def test_a_failed_reply_leaves_the_output_for_the_next_reader() -> None:
    handle = running()
    before = handle.position
    handle.append_output(b"one", 101.0)
    read_handle(handle, 101.0)
    after = handle.position
    handle.undo_read(before, after)
    assert handle.position == before
    read_handle(handle, 101.0)
    handle.append_output(b"two", 102.0)
    read_handle(handle, 102.0)
    handle.undo_read(before, after)
    assert handle.position.offset == 6


def test_times_of_output_and_activity() -> None:
    handle = handle_of()
    assert handle.last_output_at is None and handle.started_at == 5000.0
    handle.start(101.0)
    assert (handle.last_output, handle.last_activity) == (None, 101.0)
    handle.append_output(b"x", 102.0)
    handle.touch(103.0)
    assert (handle.last_output, handle.last_activity) == (102.0, 103.0)
    assert handle.last_output_at == 5002.0


def test_an_incomplete_character_cannot_be_read_yet() -> None:
    handle = running()
    handle.append_output(b"a\xe2\x89", 101.0)
    assert handle.readable_end() == 1
    handle.append_output(b"\xa4", 101.0)
    assert handle.readable_end() == 4
    handle.append_output(b"\xe2", 101.0)
    handle.end(Termination(by=EXIT), 102.0)
    assert handle.readable_end() == 5


def test_listeners_may_come_and_go_while_they_are_called() -> None:
    handle = running()
    calls: list[str] = []

    def once() -> None:
        calls.append("once")
        handle.unlisten(once)
        handle.listen(lambda: calls.append("late"))

    handle.listen(once)
    handle.listen(lambda: calls.append("always"))
    handle.append_output(b"x", 101.0)
    assert calls == ["once", "always"]
    handle.touch(101.0)
    assert calls == ["once", "always", "always", "late"]
    handle.unlisten(once)


def test_an_idle_handle_is_small() -> None:
    handle = running()
    parts = (handle, handle.spool)
    assert sum(sys.getsizeof(part) for part in parts) < 600
    assert not hasattr(handle, "__dict__") and not hasattr(handle.spool, "__dict__")


def test_an_end_is_awaited_while_any_call_will_report_it() -> None:
    handle, seen = running(), [0, 0]

    def first() -> None:
        seen[0] += 1

    def second() -> None:
        seen[1] += 1

    states = [(handle.is_awaited, handle.is_followed)]
    changes: list[Callable[[], None]] = [
        partial(handle.listen, first),
        partial(handle.listen_for_reply, second),
        partial(handle.listen_for_reply, second),
        partial(handle.unlisten_for_reply, second),
        partial(handle.unlisten_for_reply, second),
        partial(handle.unlisten, first),
    ]
    for change in changes:
        change()
        handle.wake()
        states.append((handle.is_awaited, handle.is_followed))
    awaited = [False, False, True, True, True, False, False]
    followed = [False, *[True] * 5, False]
    assert states == list(zip(awaited, followed, strict=True))
    assert seen == [5, 4]
