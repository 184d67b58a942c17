"""A program under a tool asks for a secret through `haft-askpass`."""

from __future__ import annotations

import re

from haft_protocol.questions import AnswerType, Boolean, Question, Secret, Text
from haftd.core.escapes import strip
from haftd.lazy_pattern import lazy_pattern

from .tool_question import InquiryQueue, ToolQuestion

_MAX_PROMPT = 4096
"""Bytes of a shown prompt, in UTF-8: some screens full, as a terminal would show it."""

_NOT_SECRET = lazy_pattern(
    r"Username for '[^\n]*': ?"
    r"|(?:.*\n)?[^\n]*\(yes/no(?:/\[fingerprint\])?\)\? ?"
    r"|Please type 'yes'(?:, 'no' or the fingerprint| or 'no'): ?",
    re.DOTALL,
)


class SecretPrompt(ToolQuestion, frozen=True, kw_only=True, eq=False):
    """Prompt of a process of the handle; the answer goes to that process alone."""

    is_private = True


def make_secret_prompt(queue: InquiryQueue, prompt: str, *, confirm: bool) -> ToolQuestion:
    """Return the question for a prompt: yes or no with `confirm`, else a secret, unless the words are
    those of a prompt of git or ssh for something public."""
    text = make_readable(prompt)
    kind: AnswerType = Boolean() if confirm else Text() if _NOT_SECRET.fullmatch(text) else Secret()
    question = Question(id=f"askpass.{queue.next_number()}", text=text, answer_type=kind)
    return queue.make_question(question, SecretPrompt)


def make_readable(prompt: str) -> str:
    """Return the prompt without escape sequences and unprintable characters, and without the middle
    beyond 4 KiB."""
    if len(prompt) > 2 * _MAX_PROMPT:
        prompt = f"{prompt[:_MAX_PROMPT]} … {prompt[-_MAX_PROMPT:]}"
    text = strip(prompt)
    text = "".join(char for char in text if char == "\n" or char.isprintable())
    encoded = text.encode()
    if len(encoded) > _MAX_PROMPT:
        half = (_MAX_PROMPT - 8) // 2
        head = encoded[:half].decode("utf-8", "ignore")
        text = f"{head} … {encoded[-half:].decode('utf-8', 'ignore')}"
    return text
