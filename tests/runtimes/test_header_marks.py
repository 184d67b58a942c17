"""Arguments that a call repeats in HTTP headers."""

from __future__ import annotations

from typing import Any

import pytest

from haftd.runtimes.mcp.header_marks import InvalidMark, argument_headers, encoded_value, read_marks


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(kind: str, name: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


def test_marked_arguments_become_headers_and_missing_ones_do_not() -> None:
    inner = schema(depth=marked("integer", "Depth"))
    marks = read_marks(
        schema(
            region=marked("string", "Region"),
            on=marked("boolean", "On"),
            inner=inner,
            q={"type": "string"},
        )
    )
    values = {"region": "north", "on": True, "inner": {"depth": 3}, "q": "x"}
    assert argument_headers(marks, values) == [
        ("Mcp-Param-Region", "north"), ("Mcp-Param-On", "true"), ("Mcp-Param-Depth", "3"),
    ]  # fmt: skip
    assert argument_headers(marks, {"region": None, "inner": "no object"}) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us west 1", "us west 1"),
        ("", ""),
        (" padded", "=?base64?IHBhZGRlZA==?="),
        ("é", "=?base64?w6k=?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
    ],
)
def test_a_non_ascii_value_is_encoded(text: str, value: str) -> None:
    assert encoded_value(text) == value


@pytest.mark.parametrize(
    "properties",
    [
        {"a": marked("string", "")},
        {"a": marked("string", "My Region")},
        {"a": marked("string", "Région")},
        {"a": marked("string", "x:\n")},
        {"a": marked("string", 3)},
        {"a": marked("number", "A")},
        {"a": marked("object", "A")},
        {"a": {"x-mcp-header": "A"}},
        {"a": marked("string", "A"), "b": marked("string", "a")},
    ],
)
def test_an_invalid_mark_is_refused(properties: dict[str, Any]) -> None:
    with pytest.raises(InvalidMark):
        read_marks(schema(**properties))


@pytest.mark.parametrize(("depth", "is_read"), [(16, True), (17, False)])
def test_marks_are_read_to_a_bounded_depth(depth: int, is_read: bool) -> None:
    form = schema(a=marked("string", "A"))
    for _ in range(depth):
        form = schema(inner=form)
    assert bool(read_marks(form)) == is_read
