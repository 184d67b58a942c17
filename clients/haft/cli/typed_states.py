"""Handle states and questions with the protocol's types."""

from __future__ import annotations

import msgspec

from haft_protocol.questions import Boolean, Question, Secret
from haft_protocol.states import HandleState

_STATE: msgspec.json.Decoder[HandleState] = msgspec.json.Decoder(HandleState)


def state_of(encoded: bytes) -> HandleState:
    return _STATE.decode(encoded)


def answer_example(question: Question) -> str:
    """Return an answer as `haft answer` takes it; empty for a secret, which is asked for."""
    if isinstance(question.answer_type, Secret):
        return ""
    return "yes" if isinstance(question.answer_type, Boolean) else "…"
