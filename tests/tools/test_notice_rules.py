from __future__ import annotations

import pytest

from haftd.notice_settings import NoticePattern, NoticeSettings
from haftd.tools.definitions.notice_rules import read_notify
from haftd.tools.definitions.parameters import InvalidField


def test_by_default_ends_and_questions_are_notified() -> None:
    assert read_notify({}) == NoticeSettings(True, True, True, False, ())


def test_a_pattern_is_an_expression_or_a_table_with_a_level() -> None:
    read = read_notify(
        {
            "on_success": False,
            "on_content": True,
            "patterns": {"error": "^ERROR", "oom": {"match": "out of memory", "level": "critical"}},
        }
    )
    assert read == NoticeSettings(
        on_success=False,
        on_content=True,
        patterns=(
            NoticePattern("error", "^ERROR"),
            NoticePattern("oom", "out of memory", "critical"),
        ),
    )


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (True, (), "it must be a table"),
        ({"on_stop": True}, ("on_stop",), "the notices are on_success"),
        ({"on_success": "no"}, ("on_success",), "true or false"),
        ({"patterns": ["x"]}, ("patterns",), "by name"),
        ({"patterns": {"a b": "x"}}, ("patterns", "a b"), "a name must have"),
        ({"patterns": {"a": ""}}, ("patterns", "a"), "an expression"),
        ({"patterns": {"a": "x" * 1025}}, ("patterns", "a"), "at most 1024"),
        ({"patterns": {"a": "("}}, ("patterns", "a"), "missing )"),
        ({"patterns": {"a": r"(?=x)"}}, ("patterns", "a"), "no look-around"),
        ({"patterns": {"a": "((xyzxyz){1,30}){1,30}"}}, ("patterns", "a"), "too large"),
        ({"patterns": {"a": {"level": "info"}}}, ("patterns", "a"), "needs a `match`"),
        ({"patterns": {"a": {"match": "x", "at": 1}}}, ("patterns", "a", "at"), "`match` and"),
        ({"patterns": {"a": {"match": "x", "level": "high"}}}, ("patterns", "a", "level"), "info"),
        ({"patterns": {f"p{n}": "x" for n in range(17)}}, ("patterns",), "16 are allowed"),
    ],
)
def test_each_fault_is_named_by_its_place(value: object, path: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidField) as wrong:
        read_notify(value)
    assert wrong.value.path == path and why in wrong.value.message
