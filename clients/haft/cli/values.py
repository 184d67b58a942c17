"""Values on the command line: tool arguments, answers, sizes.

`key=value` is always a string, `key:=json` JSON; schemas are not consulted.
"""

from __future__ import annotations

import datetime
import re
import sys
from typing import Any

import msgspec

from haft_protocol.questions import Boolean, Choice, Form, Question, Scalar, Select

from .options import UsageError, unicode
from .show import plain

_AGO = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86_400, 3_600, 60, 1)
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?")
_YES = {"y", "yes", "true"}
_NO = {"n", "no", "false"}


def read_arguments(
    pairs: list[str], document: str | None, words: list[str] | None
) -> dict[str, Any]:
    """Merge a tool's arguments: `--args`, then each `--arg`, then the words after `--`."""
    arguments: dict[str, Any] = {}
    if document is not None:
        arguments = read_json(document, "--args")
        if not isinstance(arguments, dict):
            raise UsageError("--args must be a JSON object")
    named: set[str] = set()
    for pair in pairs:
        key, separator, value = pair.partition("=")
        typed = key.endswith(":")
        key = key.removesuffix(":")
        if not separator or not key:
            raise UsageError(f"--arg must be key=value or key:=json, not {pair!r}")
        if key in named:
            raise UsageError(f"--arg {key} is given twice")
        named.add(key)
        arguments[key] = (
            read_json(value, f"--arg {key}:") if typed else unicode(value, f"--arg {key}")
        )
    if words is not None:
        if not words:
            raise UsageError("there is no command after --")
        arguments["argv"] = [unicode(word, "an argument") for word in words]
    return arguments


SECRET_IN_ARGUMENT = (
    "other users can read command lines: give a secret as -, by standard input or at a prompt"
)


def read_json(text: str, source: str) -> Any:
    """Read JSON from an option, or from standard input for `-`."""
    try:
        return msgspec.json.decode(read_text(text))
    except (msgspec.DecodeError, RecursionError) as fault:
        raise UsageError(f"{source} is not valid JSON: {fault}") from None


def read_text(text: str, *, line: bool = False, secret: bool = False) -> str:
    """Return the text, or standard input for `-`: all, or one line without its end.

    A secret is read without echo on a terminal, and refused in an argument.
    """
    if text != "-":
        if secret:
            raise UsageError(SECRET_IN_ARGUMENT)
        return unicode(text, "an argument")
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    if secret and sys.stdin.isatty():
        from getpass import getpass

        return getpass("secret: ")
    data = sys.stdin.buffer.readline() if line else sys.stdin.buffer.read()
    if line:
        data = data.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None


def read_size(text: str) -> dict[str, int]:
    """Read `24x80`: rows by columns."""
    match = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", text)
    if match is None:
        raise UsageError(f"--resize needs rows and columns, as in 24x80, not {text!r}")
    return {"rows": int(match[1]), "cols": int(match[2])}


def read_place(text: str) -> dict[str, int]:
    """Read `3,10`: row and column, from 0."""
    match = re.fullmatch(r"(\d{1,5}),(\d{1,5})", text)
    if match is None:
        raise UsageError(f"--click needs row and column, counted from 0, as in 3,10, not {text!r}")
    return {"row": int(match[1]), "col": int(match[2])}


def read_answer(text: str, question: Question) -> Any:
    """Convert an answer to the question's form, for the daemon to validate."""
    kind = question.answer_type
    if isinstance(kind, Boolean):
        word = text.lower()
        if word not in _YES | _NO:
            raise UsageError(f"the question takes yes or no: {question.text}")
        return word in _YES
    if isinstance(kind, Select):
        return _chosen(text, kind.options, "the question")
    return _filled(text, kind.fields) if isinstance(kind, Form) else text


def explained_choices(question: Question) -> list[str]:
    """Return the lines that list the answers which `read_answer` takes."""
    kind = question.answer_type
    if isinstance(kind, Boolean):
        return ["yes, y or true; no, n or false"]
    if isinstance(kind, Select):
        return ["one of these:", *(f"  {plain(str(option))}" for option in kind.options)]
    if not isinstance(kind, Form):
        return ["any text"]
    return [
        "name=choice for each, separated by spaces:",
        *map(_explained_field, kind.fields.items()),
    ]


def _explained_field(field: tuple[str, Choice]) -> str:
    name, choice = field
    meaning = f" ({plain(choice.text)})" if choice.text else ""
    return f"  {plain(name)}={'|'.join(plain(str(option)) for option in choice.options)}{meaning}"


def _chosen(text: str, options: tuple[Scalar, ...], name: str) -> Scalar:
    for option in options:
        if text == (option if isinstance(option, str) else msgspec.json.encode(option).decode()):
            return option
    raise UsageError(f"{name} takes one of {', '.join(str(option) for option in options)}")


def _filled(text: str, fields: dict[str, Choice]) -> dict[str, Scalar]:
    if "=" not in text:
        return {name: _chosen(text.strip(), field.options, name) for name, field in fields.items()}
    chosen: dict[str, Scalar] = {}
    for pair in text.split():
        name, is_pair, choice = pair.partition("=")
        if not is_pair or name not in fields:
            raise UsageError(
                f"the question takes name=choice for {', '.join(fields)}, not {pair!r}"
            )
        chosen[name] = _chosen(choice, fields[name].options, name)
    return chosen


def read_time(text: str, now: float) -> float:
    """Return a moment in seconds since the epoch.

    A time ago (`90s`, `5m`, `2h30m`, `1d`), a time of day (`14:05`, `14:05:30`, the last before
    `now`), or an ISO 8601 date, with time or not, local without a zone.

    >>> read_time("1m30s", 1000.0)
    910.0
    """
    if ago := _AGO.fullmatch(text):
        return now - sum(
            int(part) * unit for part, unit in zip(ago.groups("0"), _UNITS, strict=True)
        )
    try:
        if _CLOCK.fullmatch(text):
            today = datetime.datetime.fromtimestamp(now)
            moment = datetime.datetime.combine(today, datetime.time.fromisoformat(text))
            return (moment if moment <= today else moment - datetime.timedelta(days=1)).timestamp()
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"--since takes how long ago (90s, 5m, 2h30m), a time (14:05) or a date (2026-11-28T14:05), not {text!r}"
        ) from None
