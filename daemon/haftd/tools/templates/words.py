"""Shell-like split of a command text. A template span (`{{ … }}`, `{% … %}`, `{# … #}`) stays
within one word, with any spaces and quotes."""

from __future__ import annotations

import re

from haftd.lazy_pattern import lazy_pattern

OPEN, CLOSE = "\ue000", "\ue001"
"""Brackets around a placeholder's number: private-use characters, refused in command texts."""

_PLACEHOLDER = lazy_pattern(f"{OPEN}(\\d+){CLOSE}")
_ENDS = {"{{": "}}", "{%": "%}", "{#": "#}"}


class BadWords(ValueError):
    """The text cannot be split; the message has the reason."""


_PIECE = lazy_pattern(
    r"""(?P<blank>[ \t\r\n]+)
    | (?P<plain>(?:[^ \t\r\n'"\\]++|\\.)++)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]++|\\.)*+)\"""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = lazy_pattern(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = lazy_pattern(r"\\([$`\"\\\n])")


def split_words(text: str) -> list[str]:
    """Split by the shell's quoting rules without expansion, in linear time, unlike `shlex`. Raises
    `BadWords`."""
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            fault = "a backslash at its end" if text[at] == "\\" else f"a {text[at]} without an end"
            raise BadWords(f"there is {fault}")
        at = piece.end()
        kind, part = piece.lastgroup, piece[piece.lastgroup or 0]
        if kind == "blank":
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        if kind != "single" and "\\" in part:
            escaped = _ESCAPED if kind == "plain" else _ESCAPED_IN_QUOTES
            part = escaped.sub(lambda escape: escape[1].strip("\n"), part)
            if kind == "plain" and not part:
                continue  # only a line continuation
        word = [] if word is None else word
        word.append(part)
    if word is not None:
        words.append("".join(word))
    return words


def _end_of(source: str, start: int, closing: str) -> int:
    """Return the offset after `closing`, ignoring strings and inner brackets."""
    if closing == "#}":
        position = source.find(closing, start)
        return position + 2 if position >= 0 else -1
    at, depth = start, 0
    while at < len(source):
        char = source[at]
        if char in "'\"":
            at += 1
            while at < len(source) and source[at] != char:
                at += 2 if source[at] == "\\" else 1
        elif depth == 0 and source.startswith(closing, at):
            return at + 2
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        at += 1
    return -1


def replace_spans(source: str) -> tuple[str, list[str]]:
    if OPEN in source or CLOSE in source:
        raise BadWords("it contains a private-use character (U+E000 or U+E001)")
    out: list[str] = []
    spans: list[str] = []
    at = 0
    while at < len(source):
        opening = source[at : at + 2]
        if opening not in _ENDS:
            out.append(source[at])
            at += 1
            continue
        end = _end_of(source, at + 2, _ENDS[opening])
        if end < 0:
            raise BadWords(f"a template that begins with {opening} is not closed")
        out.append(f"{OPEN}{len(spans)}{CLOSE}")
        spans.append(source[at:end])
        at = end
    return "".join(out), spans


def split(source: str) -> list[str]:
    """Split into words, each a template. Raises `BadWords`."""
    text, spans = replace_spans(source)
    return [
        _PLACEHOLDER.sub(lambda match: spans[int(match[1])], word) for word in split_words(text)
    ]
