"""Notices: each once, none for what was seen, bounded, and what was dropped is said."""

from __future__ import annotations

from haft_protocol.questions import Question, Text
from haft_protocol.states import EndedBy, Exit
from haftd.core.handles import Handle
from haftd.core.notices import Notices
from tests.core.disks import make


def handle(id: str, session: str = "s") -> Handle:
    one = Handle(id=id, tool="t", session=session, generation=1, spool=make(), now=0.0)
    one.start(0.0)
    return one


def stop(one: Handle, code: int = 0) -> None:
    one.end(1.0, by=EndedBy("exit"), complete=True, raw=True, exit=Exit(code=code))


def noted(*handles: Handle) -> Notices:
    notices = Notices()

    def news(changed: Handle) -> None:
        notices.changed(changed, 7.0)

    for one in handles:
        one.on_news = news
    return notices


def test_an_end_is_told_once_and_says_how_it_went() -> None:
    good, bad = handle("good"), handle("bad")
    notices = noted(good, bad)
    stop(good)
    stop(bad, 3)
    first, second = notices.drain("s", 8.0)
    assert (first.kind, first.level, first.id, first.at) == ("tool.stopped", "info", "good", 7.0)
    assert (second.kind, second.level) == ("tool.failed", "error") and "3" in second.message
    assert notices.drain("s", 9.0) == ()


def test_what_was_read_before_is_not_told() -> None:
    one, other = handle("one"), handle("other")
    notices = noted(one, other)
    stop(one)
    stop(other)
    one.view(2.0)
    other.view(2.0, peek=True)
    assert [notice.id for notice in notices.drain("s", 3.0)] == ["other"]


def test_a_question_is_told_unless_it_was_shown_or_answered() -> None:
    question = Question(id="q", text="Sure?", answer_type=Text())
    told, shown, answered, again = (handle(name) for name in ("told", "shown", "answered", "again"))
    notices = noted(told, shown, answered, again)
    for one in (told, shown, answered, again):
        one.ask(question, 1.0)
    shown.view(2.0)
    answered.answer(2.0)
    again.view(2.0)
    again.answer(3.0)
    again.ask(question, 4.0)
    assert sorted(str(n.id) for n in notices.drain("s", 5.0)) == ["again", "told"]


def test_a_queue_is_bounded_and_says_what_it_lost() -> None:
    many = [handle(f"h{n}") for n in range(300)]
    notices = noted(*many)
    for one in many:
        stop(one)
    first, *rest = notices.drain("s", 2.0)
    assert first.kind == "notices.lost" and first.message.startswith("44 ")
    assert [one.id for one in rest] == [f"h{n}" for n in range(44, 300)]
    assert notices.drain("s", 3.0) == ()


def test_what_was_seen_makes_room_before_anything_is_lost() -> None:
    many = [handle(f"h{n}") for n in range(300)]
    notices = noted(*many)
    for one in many[:200]:
        stop(one)
        one.view(2.0)
    for one in many[200:]:
        stop(one)
    assert [one.id for one in notices.drain("s", 2.0)] == [f"h{n}" for n in range(200, 300)]


def test_sessions_are_told_their_own_and_a_closed_one_nothing() -> None:
    one, other = handle("one", "a"), handle("other", "b")
    notices = noted(one, other)
    stop(one)
    stop(other)
    notices.forget("a")
    assert notices.drain("a", 2.0) == ()
    assert [notice.id for notice in notices.drain("b", 2.0)] == ["other"]


def test_who_looks_on_by_a_cursor_takes_no_news() -> None:
    question = Question(id="q", text="Sure?", answer_type=Text())
    ended, asks = handle("ended"), handle("asks")
    notices = noted(ended, asks)
    stop(ended)
    asks.ask(question, 1.0)
    for one in (ended, asks):
        one.view(2.0, cursor=0)
        one.view(2.0, view="raw", cursor=0)
    assert [one.id for one in notices.drain("s", 3.0)] == ["ended", "asks"]
