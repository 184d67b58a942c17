"""Words of a command text."""

from __future__ import annotations

import contextlib
import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.tools.templates import words

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\ue000\ue001"), max_size=12).filter(
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
def test_an_unterminated_quote_is_refused(text: str) -> None:
    with pytest.raises(words.BadWords):
        words.split(text)


@given(st.lists(TEXT, min_size=1))
def test_quoted_words_are_restored_unchanged(parts: list[str]) -> None:
    assert words.split(shlex.join(parts)) == parts


@given(st.lists(st.one_of(TEXT.map(shlex.quote), st.just("{{ tool.arguments.x | default(' ') }}"))))
def test_a_span_stays_one_piece_of_one_word(parts: list[str]) -> None:
    """Each span is kept whole, also next to words without a space between."""
    text = " ".join(parts)
    found = "".join(words.split(text))
    span = "{{ tool.arguments.x | default(' ') }}"
    assert found.count(span) == parts.count(span)


@given(TEXT)
def test_a_single_text_is_cut_as_by_a_shell(text: str) -> None:
    """Where `shlex` agrees with shells, so does haft; a backslash before $, ` and line ends is
    kept."""
    if "\\$" in text or "\\`" in text or "\\\n" in text:
        return
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(words.BadWords):
            words.split_words(text)
    else:
        assert words.split_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"\\$a \\`b \\"c \\\\d \\e"', ['$a `b "c \\d \\e']),
        ("a\\\nb 'c\\\nd' \"e\\\nf\"", ["ab", "c\\\nd", "ef"]),
        ("\\a\\ \\'", ["a '"]),
    ],
)
def test_backslashes_mean_the_same_as_in_a_shell(text: str, expected: list[str]) -> None:
    assert words.split_words(text) == expected


def test_cutting_takes_linear_time() -> None:
    began = time.process_time()
    for text in ("x" * 500_000, "'" * 500_000, "\\x" * 250_000, '"\\"' * 150_000):
        with contextlib.suppress(words.BadWords):
            words.split_words(text)
    assert time.process_time() - began < 2
