"""The content of a server's result as text, with files for all that is none."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from haftd.runtimes.mcp.exchange import decode_text
from haftd.runtimes.mcp.shapes import CallResult

DATA = base64.b64encode(b"\x89PNG").decode()


def read(result: dict[str, Any], *, saves: bool = True) -> tuple[str, list[tuple[bytes, str]]]:
    saved: list[tuple[bytes, str]] = []

    def save(data: bytes, suffix: str) -> str | None:
        saved.append((data, suffix))
        return f"/saved/{len(saved)}{suffix}" if saves else None

    return decode_text(
        msgspec.convert(msgspec.json.decode(json.dumps(result), type=CallResult), CallResult), save
    ), saved


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "a\nb"}, "a\nb"),
        ({"type": "resource_link", "uri": "u:1", "name": "n", "mimeType": "text/x"}, "[resource n (text/x): u:1]"),
        ({"type": "resource_link", "uri": "u:1"}, "[resource u:1: u:1]"),
        ({"type": "resource", "resource": {"uri": "u:1", "text": "in"}}, "[resource u:1]\nin"),
        ({"type": "resource", "resource": {"uri": "u:1", "text": ""}}, "[resource u:1]\n"),
        ({"type": "resource"}, "[a block of the type 'resource', which haft does not know]"),
        ({"type": "video"}, "[a block of the type 'video', which haft does not know]"),
        ({"type": 1}, "[a block of the result that cannot be read]"),
        ({"type": "image", "data": "%"}, "[image: its data is not valid base64]"),
    ],
)  # fmt: skip
def test_a_block_is_a_line_of_text(block: dict[str, Any], text: str) -> None:
    assert read({"content": [block]}) == (text, [])
    both = read({"content": [block, {"type": "text", "text": "end"}]})
    assert both == (f"{text}\nend", [])


@pytest.mark.parametrize(
    ("block", "text", "suffix"),
    [
        ({"type": "image", "mimeType": "image/png", "data": DATA}, "[image/png, 4 bytes: /saved/1.png]", ".png"),
        ({"type": "audio", "data": DATA}, "[audio, 4 bytes: /saved/1.bin]", ".bin"),
        (
            {"type": "resource", "resource": {"uri": "u:1", "blob": DATA}},
            "[resource u:1] [data, 4 bytes: /saved/1.bin]",
            ".bin",
        ),
    ],
)  # fmt: skip
def test_binary_data_is_saved_as_a_file(block: dict[str, Any], text: str, suffix: str) -> None:
    assert read({"content": [block]}) == (text, [(b"\x89PNG", suffix)])
    unsaved = text.replace(f"/saved/1{suffix}", "it could not be saved")
    assert read({"content": [block]}, saves=False)[0] == unsaved


@pytest.mark.parametrize("texts", [[], None, ["  "]])
def test_structured_content_is_the_text_without_another(texts: list[str] | None) -> None:
    content = None if texts is None else [{"type": "text", "text": text} for text in texts]
    assert read({"content": content, "structuredContent": {"a": 1}}) == ('{"a": 1}', [])


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ('{ "a":1 }', {"a": 1}),
        ("1", {"a": 1}),
        ("x", {"a": "x"}),
        ("[1]", [1]),
        ('{"a": 1, "b": 2}', {"b": 2, "a": 1}),
    ],
)
def test_structured_content_that_a_text_repeats_is_left_out(text: str, structured: Any) -> None:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    assert read(result) == (text, [])


@pytest.mark.parametrize("structured", [{"a": 1, "b": "x"}, {"a": "y"}, ["x"]])
def test_other_structured_content_is_a_file_beside_the_text(structured: Any) -> None:
    text, saved = read(
        {"content": [{"type": "text", "text": "x"}], "structuredContent": structured}
    )
    data = json.dumps(structured).encode()
    assert saved == [(data, ".json")]
    assert text == f"x\n[structured content, {len(data)} bytes: /saved/1.json]"


def test_an_empty_result_is_an_empty_text() -> None:
    assert read({"content": None}) == ("", [])
    assert read({"content": [], "structuredContent": None}) == ("", [])
