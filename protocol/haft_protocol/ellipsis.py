"""Shorten text for messages and displays."""

__all__ = ["shorten"]


def shorten(text: str, max_chars: int) -> str:
    """Return the text; of a longer one the beginning and an ellipsis, together `max_chars` characters
    at most.

    >>> shorten("running", 7), shorten("two words", 5)
    ('running', 'two…')
    """
    return text if len(text) <= max_chars else f"{text[: max_chars - 1].rstrip()}…"
