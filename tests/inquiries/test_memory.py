from __future__ import annotations

from haftd.inquiries.memory import AnswerCache


def said(words: AnswerCache, session: str, about: object, bound_to: object = None) -> object:
    word = words.find(session, about, bound_to)
    return None if word is None else word.value


def test_turn_and_session_answers_end_with_their_scope() -> None:
    words = AnswerCache(lambda session: True)
    for session in ("a", "b"):
        words.keep(session, "turn", 1, "turn")
        words.keep(session, "session", 2, "session")
    words.end_turn("a")
    assert (said(words, "a", "turn"), said(words, "a", "session")) == (None, 2)
    words.close("a")
    assert said(words, "a", "session") is None
    assert (said(words, "b", "turn"), said(words, "b", "session")) == (1, 2)


def test_a_turn_without_an_end_remembers_nothing() -> None:
    words = AnswerCache(lambda session: False)
    assert not words.keep("s", "x", 1, "turn") and said(words, "s", "x") is None
    assert words.keep("s", "x", 1, "session") and said(words, "s", "x") == 1


def test_an_answer_holds_for_its_subject_and_the_last_one_counts() -> None:
    words = AnswerCache()
    words.keep("s", "x", 1, "session", "this")
    assert said(words, "s", "x", "this") == 1 and said(words, "s", "x", "that") is None
    words.keep("s", "x", 2, "session", "that")
    assert said(words, "s", "x", "this") is None and said(words, "s", "x", "that") == 2
    words.drop("s", "x")
    assert said(words, "s", "x", "that") is None


def test_over_the_maximum_the_oldest_answer_is_forgotten() -> None:
    words = AnswerCache()
    for number in range(5_000):
        words.keep("s", number, number, "session")
    kept = [number for number in range(5_000) if words.find("s", number)]
    assert kept == list(range(5_000 - 4_096, 5_000))


def test_a_remembered_answer_is_in_no_repr() -> None:
    words = AnswerCache()
    words.keep("s", "x", "canary", "session")
    assert "canary" not in repr(words.find("s", "x"))


def test_a_repeated_answer_is_the_newest() -> None:
    words = AnswerCache()
    for number in range(4_096):
        words.keep("s", number, number, "session")
    words.keep("s", 0, "again", "session")
    words.keep("s", "one more", 1, "session")
    assert said(words, "s", 0) == "again" and said(words, "s", 1) is None
