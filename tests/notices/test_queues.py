"""Notices: each once, none for seen news, bounded, with losses counted."""

from __future__ import annotations

from haft_protocol.questions import Question, Text
from haft_protocol.states import EndedBy, Exit
from haftd.core.handles import Handle, HandleSettings
from haftd.core.termination import Termination
from haftd.core.views import handle_state, read_handle
from haftd.notice_settings import DEFAULT_NOTICES, NoticePattern, NoticeSettings
from haftd.notices.pattern_scanner import MatchedLine, PatternMatches
from haftd.notices.queues import NoticeQueues
from tests.core.disks import make

QUEUES: dict[Handle, NoticeQueues] = {}


def handle(id: str, session: str = "s", *, notify: NoticeSettings = DEFAULT_NOTICES) -> Handle:
    def add(changed: Handle) -> None:
        if changed in QUEUES:
            QUEUES[changed].add_state_change(changed, 7.0)

    handle = Handle(
        id=id,
        tool="t",
        session=session,
        generation=1,
        spool=make(),
        now=0.0,
        settings=HandleSettings(notify=notify),
        on_state_change=add,
    )
    handle.start(0.0)
    return handle


def stop(target: Handle, code: int = 0) -> None:
    target.end(Termination(by=EndedBy("exit"), exit=Exit(code=code)), 1.0)


def noted(*handles: Handle) -> NoticeQueues:
    notices = NoticeQueues()
    QUEUES.update(dict.fromkeys(handles, notices))
    return notices


def replied() -> None:
    """The listener of a call that awaits a handle."""


def test_an_end_is_delivered_once_with_its_outcome() -> None:
    good, bad = handle("good"), handle("bad")
    notices = noted(good, bad)
    stop(good)
    stop(bad, 3)
    first, second = notices.drain("s", 8.0)
    assert (first.kind, first.level, first.id, first.at) == ("tool.stopped", "info", "good", 7.0)
    assert (second.kind, second.level) == ("tool.failed", "error") and "3" in second.message
    assert notices.drain("s", 9.0) == ()


def test_news_that_was_read_is_not_delivered() -> None:
    target, other = handle("one"), handle("other")
    notices = noted(target, other)
    stop(target)
    stop(other)
    read_handle(target, 2.0)
    handle_state(other, 2.0)
    assert [notice.id for notice in notices.drain("s", 3.0)] == ["other"]


def test_an_awaited_end_is_delivered_only_if_the_call_did_not_report_it() -> None:
    target, other = handle("one"), handle("other")
    notices = noted(target, other)
    for awaited in (target, other):
        awaited.listen_for_reply(replied)
    stop(target)
    stop(other)
    assert notices.drain("s", 2.0) == ()
    read_handle(target, 3.0)
    for awaited in (target, other):
        awaited.unlisten_for_reply(replied)
    assert [notice.id for notice in notices.drain("s", 4.0)] == ["other"]
    assert notices.drain("s", 5.0) == ()


def test_a_question_is_delivered_although_a_call_awaits_the_end() -> None:
    target = handle("one")
    notices = noted(target)
    target.listen_for_reply(replied)
    target.ask(Question(id="q", text="Sure?", answer_type=Text()), 1.0)
    assert [notice.kind for notice in notices.drain("s", 2.0)] == ["tool.waiting"]


def test_a_question_is_delivered_unless_shown_or_answered() -> None:
    question = Question(id="q", text="Sure?", answer_type=Text())
    told, shown, answered, again = (handle(name) for name in ("told", "shown", "answered", "again"))
    notices = noted(told, shown, answered, again)
    for target in (told, shown, answered, again):
        target.ask(question, 1.0)
    read_handle(shown, 2.0)
    answered.answer(2.0)
    read_handle(again, 2.0)
    again.answer(3.0)
    again.ask(question, 4.0)
    assert sorted(str(n.id) for n in notices.drain("s", 5.0)) == ["again", "told"]


def test_a_queue_is_bounded_and_counts_its_losses() -> None:
    many = [handle(f"h{n}") for n in range(300)]
    notices = noted(*many)
    for target in many:
        stop(target)
    first, *rest = notices.drain("s", 2.0)
    assert first.kind == "notices.lost" and first.message.startswith("44 ")
    assert [entry.id for entry in rest] == [f"h{n}" for n in range(44, 300)]
    assert notices.drain("s", 3.0) == ()


def test_seen_notices_are_dropped_before_unseen_ones() -> None:
    many = [handle(f"h{n}") for n in range(300)]
    notices = noted(*many)
    for target in many[:200]:
        stop(target)
        read_handle(target, 2.0)
    for target in many[200:]:
        stop(target)
    assert [notice.id for notice in notices.drain("s", 2.0)] == [f"h{n}" for n in range(200, 300)]


def test_a_session_gets_its_own_notices_and_a_closed_one_none() -> None:
    target, other = handle("one", "a"), handle("other", "b")
    notices = noted(target, other)
    stop(target)
    stop(other)
    notices.forget("a")
    assert notices.drain("a", 2.0) == ()
    assert [notice.id for notice in notices.drain("b", 2.0)] == ["other"]


def test_a_read_by_cursor_consumes_no_notice() -> None:
    question = Question(id="q", text="Sure?", answer_type=Text())
    ended, asks = handle("ended"), handle("asks")
    notices = noted(ended, asks)
    stop(ended)
    asks.ask(question, 1.0)
    for target in (ended, asks):
        read_handle(target, 2.0, cursor=0)
        read_handle(target, 2.0, view="raw", cursor=0)
    assert [notice.id for notice in notices.drain("s", 3.0)] == ["ended", "asks"]


# ── output ───────────────────────────────────────────────────────────────────────────────────────

OFF = {
    "success": NoticeSettings(on_success=False),
    "failure": NoticeSettings(on_failure=False),
    "waiting": NoticeSettings(on_waiting=False),
}
ERROR = NoticePattern("error", "ERROR", "error")
FATAL = NoticePattern("fatal", "FATAL", "critical")


def lines(target: Handle, watched: NoticePattern, *texts: str) -> PatternMatches:
    """Print these lines as matches of a pattern."""
    found = []
    for text in texts:
        target.append_output(text.encode() + b"\n", 1.0)
        found.append(MatchedLine(watched, text, target.spool.end))
    return PatternMatches(watched, found)


def test_read_lines_are_not_counted_and_at_least_stays() -> None:
    target = handle("h")
    told = lines(target, ERROR, "ERROR 1", "ERROR 2", "ERROR 3")
    first_end = target.spool.end // 3
    notice = told.make_notice(target, first_end, 1.0)
    assert notice.lines == ("ERROR 2", "ERROR 3") and notice.count == 2
    told = PatternMatches(ERROR, [MatchedLine(ERROR, "ERROR 1", 8, True)])
    told.merge(lines(target, ERROR, "ERROR 4"))
    assert "at least 2 lines" in told.make_notice(target, 0, 1.0).message


def test_a_disabled_notice_is_not_delivered() -> None:
    names = ("success", "failure", "waiting")
    handles = {name: handle(name, notify=OFF[name]) for name in names}
    notices = noted(*handles.values())
    handles["waiting"].ask(Question(id="q", text="?", answer_type=Text()), 1.0)
    stop(handles["success"])
    stop(handles["failure"], 1)
    assert notices.drain("s", 2.0) == ()
    off = ("failure", "success", "success")
    others = [handle(name, notify=OFF[other]) for name, other in zip(names, off, strict=True)]
    notices = noted(*others)
    stop(others[0])
    stop(others[1], 1)
    others[2].ask(Question(id="q", text="?", answer_type=Text()), 1.0)
    assert [notice.id for notice in notices.drain("s", 2.0)] == list(names)


def test_matching_lines_are_one_notice_with_pattern_and_first_line() -> None:
    target, notices = handle("h"), NoticeQueues()
    told = notices.add_matches(target, lines(target, ERROR, "ERROR 0"), 2.0)
    assert told is not None and told.count == 1
    assert told.message == "`h` (t) has printed a line that matches `error`: ERROR 0"
    for n in range(1, 20):
        notices.add_matches(target, lines(target, ERROR, f"ERROR {n}"), 3.0)
    (notice,) = notices.drain("s", 4.0)
    assert (notice.kind, notice.level, notice.pattern) == ("tool.content", "error", "error")
    assert (notice.count, notice.at) == (20, 3.0)
    assert notice.lines == tuple(f"ERROR {n}" for n in range(8))
    assert notice.message.endswith("has printed 20 lines that match `error`: ERROR 0")
    assert notices.drain("s", 5.0) == ()


def test_only_lines_after_the_read_offset_are_delivered() -> None:
    target, notices = handle("h"), NoticeQueues()
    notices.add_matches(target, lines(target, ERROR, "ERROR 1"), 2.0)
    read_handle(target, 2.0)
    assert notices.drain("s", 3.0) == ()
    first = lines(target, ERROR, "ERROR 2")
    notices.add_matches(target, first, 4.0)
    read_handle(target, 4.0)
    notices.add_matches(target, lines(target, ERROR, "ERROR 3"), 5.0)
    (notice,) = notices.drain("s", 6.0)
    assert (notice.lines, notice.count) == (("ERROR 3",), 1)
    late = lines(target, ERROR, "ERROR 4")
    read_handle(target, 7.0)
    assert notices.add_matches(target, late, 7.0) is None and notices.drain("s", 8.0) == ()


def test_a_session_that_saw_the_end_has_read_all() -> None:
    target, notices = handle("h"), NoticeQueues()
    notices.add_matches(target, lines(target, ERROR, "ERROR"), 2.0)
    stop(target)
    read_handle(target, 3.0, view="tail", max_bytes=0)
    assert notices.drain("s", 4.0) == ()


def test_new_output_is_one_notice_that_describes_the_output_at_delivery() -> None:
    target, notices = handle("h", notify=NoticeSettings(on_content=True)), NoticeQueues()
    assert notices.add_output(target, 1.0) is None
    target.append_output(b"a\n", 1.0)
    told = notices.add_output(target, 1.0)
    assert told is not None and told.lines == ("a",)
    target.append_output(b"b\nlast", 1.0)
    assert notices.add_output(target, 2.0) is None
    (notice,) = notices.drain("s", 3.0)
    assert notice.message == ("`h` (t) has printed 8 unread bytes; the last line is: last")
    assert notices.add_output(target, 4.0) is None and notices.drain("s", 4.0) == ()
    target.append_output(b"!", 5.0)
    assert notices.add_output(target, 5.0) is not None
    read_handle(target, 6.0)
    assert notices.drain("s", 7.0) == ()


def test_a_stopped_handle_has_a_notice_of_its_end_or_else_of_its_output() -> None:
    told = handle("told", notify=NoticeSettings(on_content=True))
    quiet = handle("quiet", notify=NoticeSettings(on_content=True, on_success=False))
    notices = noted(told, quiet)
    for target in (told, quiet):
        target.append_output(b"x", 1.0)
        notices.add_output(target, 1.0)
        stop(target)
    kinds = [(notice.id, notice.kind) for notice in notices.drain("s", 2.0)]
    assert kinds == [("told", "tool.stopped"), ("quiet", "tool.content")]


def test_critical_notices_are_dropped_last() -> None:
    notices = NoticeQueues()
    many = [handle(f"h{n}") for n in range(300)]
    for n, target in enumerate(many):
        notices.add_matches(target, lines(target, FATAL if n < 10 else ERROR, "x"), 1.0)
    first, *rest = notices.drain("s", 2.0)
    assert first.kind == "notices.lost" and first.message.startswith("44 ")
    kept = [f"h{n}" for n in (*range(10), *range(54, 300))]
    assert [entry.id for entry in rest] == kept
