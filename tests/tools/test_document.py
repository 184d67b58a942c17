"""Lines of keys: a help that is right, or silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.tools.document import Unreadable, parse

TEXT = '''# a comment
top = 1
[tools.x]
command = [
    "a = b",   # tools.fake = 1
    { each = "x" },
]
text = """
[tools.fake]
rows = 3
"""
rows = 4
[tools.x.env]
A = "1"
"b.c" = "2"
[tools."y z"]
limits.memory = 3
inline = { deep = 1 }
[[list.of]]
n = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("tools", "x"), 3),
        (("tools", "x", "command"), 4),
        (("tools", "x", "command", "1"), 4),
        (("tools", "x", "text"), 8),
        (("tools", "x", "rows"), 12),
        (("tools", "x", "env", "A"), 14),
        (("tools", "x", "env", "b.c"), 15),
        (("tools", "y z", "limits", "memory"), 17),
        (("tools", "y z", "inline", "deep"), 18),
        (("list", "of", "n"), 20),
        (("tools", "fake"), None),
        (("nowhere",), None),
    ],
)
def test_a_key_is_found_where_it_stands(path: tuple[str, ...], line: int | None) -> None:
    assert parse(TEXT, "f").line(path) == line


def test_what_is_no_toml_says_where() -> None:
    with pytest.raises(Unreadable) as caught:
        parse("a = 1\nb =\n", "f")
    assert caught.value.line == 2
    assert "line" not in caught.value.message


@given(st.text(alphabet="ab=[]\".'{}\n# ,\\1", max_size=40))
def test_whatever_the_text_there_is_a_document_or_one_kind_of_error(text: str) -> None:
    try:
        found = parse(text, "f")
    except Unreadable:
        return
    last = len(text.splitlines())
    assert all(1 <= line <= last for line in found.lines.values())


@pytest.mark.parametrize(
    "text", ["a = {" + "a." * 400 + "a = 1}", "a." * 400 + "a = 1", "a = " + "[" * 90 + "]" * 90]
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    """Whoever goes through it goes as deep, and so does what it is told in."""
    with pytest.raises(Unreadable, match="nested too deeply"):
        parse(text, "f")
