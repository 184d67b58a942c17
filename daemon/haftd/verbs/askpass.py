"""askpass: a program that a tool runs asks for a secret, through the helper `haft-askpass`.

Rules: only a process of the handle whose mark it carries may ask, and learns nothing of any other.
What it asks becomes the handle's question, in its turn and for as long as any; its going away
withdraws the question. The answer goes to the helper alone: no log, no audit, no error has it.
"""

from __future__ import annotations

import re

from haft_protocol.errors import handle_stopped, inquiry_failed, mark_not_found
from haft_protocol.methods import AskpassParams, AskpassResult
from haft_protocol.questions import AnswerType, Boolean, Question, Secret, Text
from haftd.caller import Caller
from haftd.core.escapes import strip
from haftd.daemon import Daemon
from haftd.host.identity import is_alive
from haftd.inquiry.asking import NoAnswer, Void
from haftd.uses.use import Use

from .base import Later
from .reading import plain_state

__all__ = ["askpass", "readable"]

_LONGEST = 4096
"""Bytes of a prompt that are shown."""

# What is asked in the open, in the words of git and of ssh; all else is a secret.
_OPEN = re.compile(
    r"Username for '[^\n]*': ?"
    r"|(?:.*\n)?[^\n]*\(yes/no(?:/\[fingerprint\])?\)\? ?"
    r"|Please type 'yes'(?:, 'no' or the fingerprint| or 'no'): ?",
    re.DOTALL,
)


def askpass(daemon: Daemon, caller: Caller, params: AskpassParams) -> Later:
    """Ask, and answer with what was answered. Raises `handle_not_found` for a mark that is not that
    of the caller's handle, and `handle_stopped` when the handle ends."""
    use = daemon.supervisor.marked(params.mark)
    if use is None:
        raise mark_not_found()

    async def asked() -> AskpassResult:
        # It may be quicker than the report that its program runs.
        await use.begun.wait()
        process = caller.process
        if process is None or process.pid not in use.members() or not is_alive(process):
            raise mark_not_found()
        if params.hint == "none":
            return AskpassResult(None)
        return await _ask(daemon, caller, params, use)

    return Later(asked)


async def _ask(daemon: Daemon, caller: Caller, params: AskpassParams, use: Use) -> AskpassResult:
    text = readable(params.prompt)
    kind = _kind(text, confirm=params.hint == "confirm")
    question = Question(id=f"askpass.{use.asking.number()}", text=text, answer_type=kind)
    try:
        answer = await use.asking.ask(question, private=True)
    except Void:
        raise handle_stopped(use.handle.id, plain_state(use.handle, peek=True)) from None
    except NoAnswer as none:
        raise inquiry_failed(use.handle.id, str(none)) from None
    daemon.record("askpass", caller, use.handle, question=question.id, prompt=text)
    return AskpassResult(answer)


def _kind(text: str, *, confirm: bool) -> AnswerType:
    if confirm:
        return Boolean()
    return Text() if _OPEN.fullmatch(text) else Secret()


def readable(prompt: str) -> str:
    """A prompt as it is shown: no escape sequences, nothing that is not seen, at most 4 KiB, of
    which the end is the question itself."""
    if len(prompt) > 2 * _LONGEST:
        prompt = f"{prompt[:_LONGEST]} … {prompt[-_LONGEST:]}"
    text = strip(prompt)
    text = "".join(char for char in text if char == "\n" or char.isprintable())
    encoded = text.encode()
    if len(encoded) > _LONGEST:
        half = (_LONGEST - 8) // 2
        head = encoded[:half].decode("utf-8", "ignore")
        text = f"{head} … {encoded[-half:].decode('utf-8', 'ignore')}"
    return text
