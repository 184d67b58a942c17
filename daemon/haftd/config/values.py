"""Readers of single configuration values.

A reader returns the setting for a value of `config.toml`, or raises `InvalidField` with the path inside
the value, empty for a single one, and the permitted values.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from haft_protocol.errors import shown
from haftd.tools.definitions.fields import read_size
from haftd.tools.definitions.parameters import InvalidField

Reader = Callable[[object], Any]


def _with_description(reader: Reader, form: str) -> Reader:
    """Attach `form`, the permitted values in words, for docs/configuration.md."""
    reader.form = form  # type: ignore[attr-defined]
    return reader


def number(low: float, high: float, *, whole: bool = True) -> Callable[[object], Any]:
    """Return a reader of an integer, or unless `whole` of any number, within these bounds."""
    kind = "a whole number" if whole else "a number"

    def read_number(value: object) -> Any:
        # A bool is an int in Python.
        is_number = isinstance(value, int if whole else (int, float)) and not isinstance(
            value, bool
        )
        if is_number and low <= value <= high:  # type: ignore[operator]
            return value
        raise InvalidField((), f"it is {shown(value)}; it must be {kind} from {low} to {high}")

    return _with_description(read_number, f"{kind} from {low:,} to {high:,}")


def size(low: int, high: int) -> Callable[[object], int]:
    """Return a reader of bytes: a number, or a string such as "64 MiB"."""

    def read_bytes(value: object) -> int:
        count = read_size(value)
        if low <= count <= high:
            return count
        raise InvalidField((), f"it is {shown(value)}; it must be from {low} to {high} bytes")

    return _with_description(read_bytes, f"bytes from {low:,} to {high:,}")


def text(pattern: str, noun: str) -> Callable[[object], str]:
    """Return a reader of a string that this regular expression matches whole; `noun` names it."""

    def read_text(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        raise InvalidField((), f"it must be {noun}")

    return read_text


def strings(*allowed: str) -> Callable[[object], tuple[str, ...]]:
    """Return a reader of an array of non-empty strings, of `allowed` if given."""

    def read_strings(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise InvalidField((), "it must be an array of strings")
        for item in value:
            if allowed and item not in allowed:
                raise InvalidField((), f"{shown(item)} is not one of {', '.join(allowed)}")
        return tuple(value)

    choice = " of " + ", ".join(f"`{name}`" for name in allowed) if allowed else ""
    return _with_description(read_strings, f"array{choice or ' of strings'}")


def read_table(value: Mapping[str, object], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Return the settings of a table with these keys and no others; raise `InvalidField`."""
    if strange := sorted(value.keys() - readers.keys()):
        raise InvalidField((strange[0],), explain_unknown(strange[0], tuple(readers), "key"))
    fields = {}
    for key, item in value.items():
        try:
            fields[key] = readers[key](item)
        except InvalidField as wrong:
            raise InvalidField((key, *wrong.path), wrong.message) from None
    return fields


def explain_unknown(name: str, names: Sequence[str], noun: str) -> str:
    """Return the message for an unknown name, with a similar one of `names` as a hint.

    `noun` is the kind of name, such as `key`; the caller shows the name itself.
    """
    similar = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{similar[0]}`?" if similar else ""
    return f"there is no such {noun}{hint}"


def is_loopback(host: str) -> bool:
    """True if the numeric address `host` reaches only this machine."""
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False
