"""Record the translations of all definitions, and the replies to arguments, as `translations.json`.

    python -m tests.schemas.record_translations

A change of the record is a change of what models read: look at its difference before a commit.
A text above 500 characters is recorded as its length and digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haft_protocol.errors import RpcError
from haftd.schemas import PROVIDERS, UnsupportedSchema, translate
from haftd.schemas.dialects import PLAIN
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool

from .boundaries import FAULTS, FORMS, ROOTS
from .definitions import NASTY, UNREADABLE, of

RECORD = Path(__file__).with_name("translations.json")
_DIALECTS = {**PROVIDERS, "plain": PLAIN}
_MAX_LENGTH = 500
_OTHERS = ("5", "x", -1, 2.5, True, None, ["x", 5], {"q": 1}, "[1]")


def translations(schema: Any) -> dict[str, str]:
    """Return each translation of a schema, by the dialects that have it in common."""
    by_text: dict[str, list[str]] = {}
    for name, dialect in _DIALECTS.items():
        try:
            one = translate("Does it.", schema, dialect)
        except UnsupportedSchema as error:
            text = f"refused: {error}"
        else:
            exactness = "exact" if one.lossless else "lossy"
            text = f"{exactness}: {_text(one.parameters)} {one.description}"
        by_text.setdefault(_short(text), []).append(name)
    return {", ".join(names): text for text, names in by_text.items()}


def replies(schema: Any, args: Any) -> dict[str, str]:
    """Return the replies to arguments around fitting ones: those taken, or the problems."""
    found: dict[str, list[str]] = {}
    for given in _around(args):
        found.setdefault(reply(schema, given), []).append(_short(_text(given)))
    return {" | ".join(given): text for text, given in found.items()}


def reply(schema: Any, args: Any) -> str:
    """Return the arguments as they are taken, or the problems."""
    try:
        text = _text(check_arguments(Tool(name="x", file="f", parameters=schema), args))
    except RpcError as error:
        data = error.data or {}
        text = "; ".join(f"{problem['path']}: {problem['message']}" for problem in data["problems"])
    return _short(text.replace(_text(args), "as given"))


def _around(args: Any) -> Iterator[dict[str, Any]]:
    yield dict(args)
    yield {}
    yield {**args, "further": 1}
    for name in list(args)[:2]:
        yield {key: value for key, value in args.items() if key != name}
        yield {(f"{name}s" if key == name else key): value for key, value in args.items()}
        for other in _OTHERS:
            yield {**args, name: other}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _short(text: str) -> str:
    if len(text) <= _MAX_LENGTH:
        return text
    return f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()}"


def forms() -> dict[str, Any]:
    """Return all schemas whose translations are recorded."""
    readable = {name: schema for name, (schema, _) in NASTY.items()}
    limits = {f"limit: {name}": of(a=form) for name, form in FORMS.items()}
    roots = {f"root: {name}": schema for name, schema in ROOTS.items()}
    return {**readable, **UNREADABLE, **limits, **roots}


def record() -> dict[str, Any]:
    """Return the record of all definitions."""
    return {
        "translations": {name: translations(schema) for name, schema in forms().items()},
        "replies": {name: replies(schema, args) for name, (schema, args) in NASTY.items()},
        "faults": {name: reply(schema, args) for name, (schema, args) in FAULTS.items()},
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(record(), ensure_ascii=False, indent=1) + "\n")
