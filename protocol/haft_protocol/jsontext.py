"""JSON that stands inside a text, as models write the arguments of a call or one of them.

Rules: the text is bounded as a message is by default. The daemon counts the values and the nesting of
a message before anything decodes it, and a text in it is one value there, whatever it holds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .nesting import nesting
from .weighing import Scale

__all__ = ["MAX_VALUES", "TooManyValues", "decode_text"]

MAX_VALUES = 100_000
"""Names and values of one text."""

MAX_NESTING = 64


class TooManyValues(ValueError):
    """The text holds more than `MAX_VALUES` names and values; nothing of it was decoded."""


def decode_text(text: str) -> Any:
    """Decode a JSON text; raises `TooManyValues`, or another ValueError where it is no JSON."""
    data = text.strip().encode()
    if len(data) > MAX_VALUES:  # a shorter text cannot hold as many
        scale = Scale(data, MAX_VALUES)
        while not scale.step():
            pass
        if scale.weight.values > MAX_VALUES:
            raise TooManyValues(f"it holds more than {MAX_VALUES} names and values")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if isinstance(value, dict | list) and nesting(data) > MAX_NESTING:
        raise ValueError(f"it is nested deeper than {MAX_NESTING}")
    return value
