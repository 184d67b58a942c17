"""JSON inside a text, as models write arguments; a message counts it as one value."""

from __future__ import annotations

from typing import Any

import msgspec

from .json_depth import measure_depth
from .value_counter import ValueCounter

__all__ = ["MAX_VALUES", "TooManyValues", "decode_text"]

MAX_VALUES = 100_000
"""Names and values of one text."""

MAX_NESTING = 64


class TooManyValues(ValueError):
    """Text with more than `MAX_VALUES` names and values; nothing was decoded."""


def decode_text(text: str) -> Any:
    """Decode a JSON text; raise `TooManyValues`, or another ValueError if malformed."""
    data = text.strip().encode()
    if len(data) > MAX_VALUES:  # a shorter text cannot hold as many
        counter = ValueCounter(data, MAX_VALUES)
        while not counter.step():
            pass
        if counter.count.values > MAX_VALUES:
            raise TooManyValues(f"it holds more than {MAX_VALUES} names and values")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if isinstance(value, dict | list) and measure_depth(data) > MAX_NESTING:
        raise ValueError(f"it is nested deeper than {MAX_NESTING}")
    return value
