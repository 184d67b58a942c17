"""Size, in characters, of the echo of typed input in an output, and of the prompt at its end.

Only exact matches count.
"""

from __future__ import annotations

import msgspec

from haftd.lazy_pattern import lazy_pattern

_LINE_END = lazy_pattern(r"\r\n|\r|\n")


class TypedInput(msgspec.Struct, frozen=True):
    """Text typed by a call."""

    at: int
    """Offset of the output at that time."""
    text: str


def echo_size(output: str, typed: str) -> int:
    """Return the size of the echo of `typed` at the start of `output`.

    A line editor prints a prompt before each echoed line but the first.
    """
    *lines, rest = _LINE_END.split(typed)
    if not lines:
        return len(rest) if output == rest else 0
    first, *more = lines
    if output == first:
        return len(first)
    if not output.startswith(f"{first}\n"):
        return 0
    size = len(first) + 1
    return _continued_echo_end(output, size, more, rest) or size


def _continued_echo_end(output: str, start: int, lines: list[str], rest: str) -> int:
    """Return the end of further lines' echo from `start`; 0 if uncertain."""
    shown: list[str] = []
    at = start
    for _ in lines:
        end = output.find("\n", at)
        if end < 0:
            return 0
        shown.append(output[at:end])
        at = end + 1
    if rest:
        # The last line is unfinished.
        shown.append(output[at:])
        at = len(output)
    lines = [*lines, rest] if rest else lines
    echoed = [(line, text) for line, text in zip(lines, shown, strict=True) if line]
    if not echoed or not echoed[0][1].endswith(echoed[0][0]):
        return 0
    prompt = echoed[0][1].removesuffix(echoed[0][0])
    # Words may begin an answer, "got 5".
    if any(char.isalnum() for char in prompt):
        return 0
    for line, text in zip(lines, shown, strict=True):
        if text != prompt + line and (line or text != prompt.rstrip()):
            return 0
    # Had the process printed these lines, their echo would still be to come.
    typed = tuple(line for line, _ in echoed)
    return 0 if any(text.endswith(typed) for text in output[at:].split("\n")) else at


def prompt_size(output: str, prompt: str) -> int:
    """Return the length of the last line if that is the prompt, else 0.

    Ignores trailing spaces, which on a screen may be skipped cells.
    """
    last = output[output.rfind("\n") + 1 :]
    return len(last) if prompt and last.rstrip(" ") == prompt.rstrip(" ") else 0
