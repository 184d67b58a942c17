"""A command text is cut as a shell would, and a template in it is never cut."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.tools import words

TEXT = st.text(st.characters(exclude_categories=("Cs", "Co")), max_size=12).filter(
    lambda text: not any(opening in text for opening in ("{{", "{%", "{#"))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", ["a", "b"]),
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("a '' b", ["a", "", "b"]),
        ("a {{ b c }} d", ["a", "{{ b c }}", "d"]),
        ("a{{ b c }}d", ["a{{ b c }}d"]),
        ("a '{{ b c }} d'", ["a", "{{ b c }} d"]),
        ("a {{ b | default('x y') }}", ["a", "{{ b | default('x y') }}"]),
        ('a {{ b["}}"] }} c', ["a", '{{ b["}}"] }}', "c"]),
        ("a {{ {'b': {'c': 1}} }} d", ["a", "{{ {'b': {'c': 1}} }}", "d"]),
        ("a {# it's #} b", ["a", "{# it's #}", "b"]),
        ('a "{% if b c %}d e{% endif %}"', ["a", "{% if b c %}d e{% endif %}"]),
        ("a $HOME *.py | b; c", ["a", "$HOME", "*.py", "|", "b;", "c"]),
        ("", []),
    ],
)
def test_words_are_cut_outside_of_templates(text: str, expected: list[str]) -> None:
    assert words.split(text) == expected


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a {{ b", "a {{ 'b }}", "{% if", "{#", "\ue000"])
def test_what_has_no_end_is_refused(text: str) -> None:
    with pytest.raises(words.BadWords):
        words.split(text)


@given(st.lists(TEXT, min_size=1))
def test_quoted_words_come_back_as_they_were(parts: list[str]) -> None:
    assert words.split(shlex.join(parts)) == parts


@given(st.lists(st.one_of(TEXT.map(shlex.quote), st.just("{{ tool.arguments.x | default(' ') }}"))))
def test_a_span_stays_one_piece_of_one_word(parts: list[str]) -> None:
    """However templates and words touch or stand apart, each span comes out whole."""
    text = " ".join(parts)
    found = "".join(words.split(text))
    span = "{{ tool.arguments.x | default(' ') }}"
    assert found.count(span) == parts.count(span)
