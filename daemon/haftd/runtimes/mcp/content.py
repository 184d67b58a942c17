"""A call's result as text and files."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .shapes import Block, CallResult, Resource, convert

SaveFile = Callable[[bytes, str], str | None]
"""Saves data to a file with this suffix; returns the path, None on failure."""


def text_of(result: CallResult, save: SaveFile) -> str:
    """Return the text of a result. Images, sounds and binary resources become files, each with a
    line of type, size and path; so does structured content, unless a text repeats it or it is
    alone."""
    parts = [part for item in result.content or () for part in _block(item, save)]
    structured = bytes(result.structured_content)
    if structured and structured != b"null":
        texts = [part for part in parts if part.strip()]
        if not texts:
            return structured.decode(errors="replace")
        if not any(_same(part, structured) for part in texts):
            parts.append(_saved("structured content", structured, ".json", save))
    return "\n".join(parts)


def _block(item: msgspec.Raw, save: SaveFile) -> Iterator[str]:
    try:
        block: Block = convert(item, Block)
    except msgspec.MsgspecError:
        yield "[a block of the result that cannot be read]"
        return
    match block.type:
        case "text":
            yield block.text
        case "image" | "audio":
            yield _blob(block.mime_type or block.type, block.data, save)
        case "resource_link":
            kind = f" ({block.mime_type})" if block.mime_type else ""
            yield f"[resource {block.name or block.uri}{kind}: {block.uri}]"
        case "resource" if block.resource is not None:
            yield _resource(block.resource, save)
        case other:
            yield f"[a block of the type {other!r}, which haft does not know]"


def _resource(resource: Resource, save: SaveFile) -> str:
    if resource.text is not None:
        return f"[resource {resource.uri}]\n{resource.text}"
    return f"[resource {resource.uri}] {_blob(resource.mime_type or 'data', resource.blob or '', save)}"


def _blob(kind: str, data: str, save: SaveFile) -> str:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind}: its data is no base64]"
    return _saved(kind, decoded, mimetypes.guess_extension(kind) or ".bin", save)


def _saved(kind: str, data: bytes, suffix: str, save: SaveFile) -> str:
    path = save(data, suffix)
    where = "it could not be saved" if path is None else path
    return f"[{kind}, {len(data):,} bytes: {where}]"


def _same(text: str, structured: bytes) -> bool:
    try:
        whole = msgspec.json.decode(structured)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    values = [whole, *whole.values()] if isinstance(whole, dict) and len(whole) == 1 else [whole]
    try:
        decoded: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        decoded = text
    return any(value in (decoded, text) for value in values)
