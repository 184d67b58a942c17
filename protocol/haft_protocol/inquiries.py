"""Inquiries: a tool's question to a client, and the answer (docs/protocol.md, "Questions").

Pushed (`inquiry/ask`) and pulled (`inquiries/list`) questions have the same fields. Answers are in
no error message and no `repr`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .approvals import Remember
from .params import Params, Root, SessionOrAll
from .questions import (
    Answer,
    AnswerType,
    Boolean,
    Form,
    InvalidAnswer,
    Question,
    Scalar,
    Secret,
    Select,
    check_answer,
)

__all__ = [
    "ASK",
    "AskpassParams",
    "AskpassResult",
    "InquiriesAnswerParams",
    "InquiriesAskParams",
    "InquiriesAskResult",
    "InquiriesListParams",
    "InquiriesListResult",
    "Inquiry",
    "RememberedAnswer",
    "Target",
    "check_remember",
    "client_question_id",
    "inquiry_id",
    "read_remembered_answer",
    "read_reply",
    "schema",
    "turn_end_id",
]

ASK = "inquiry/ask"
"""Request to clients with the capability `inquiry`."""

Target = Literal["caller", "assistant", "user"] | dict[str, Any]


class Inquiry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An open question. `target` is `caller`, unless the definition has `assistant`, `user` (a
    person only) or a table. `schema` is the answer's schema, `context` the `context` of the `tools/call`. The
    daemon's question at a turn's end has no `handle` and no `call_id`. `refused`: why the client's
    previous answer was invalid."""

    session: str
    inquiry_id: str
    question: Question
    schema: dict[str, Any]
    target: Target
    handle: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    context: Any = UNSET
    refused: str | UnsetType = UNSET

    @property
    def is_for_a_person(self) -> bool:
        return self.target == "user"

    @property
    def is_secret(self) -> bool:
        return isinstance(self.question.answer_type, Secret)

    @property
    def needs_a_person(self) -> bool:
        """An answer of an assistant, or of a process run by haftd, is invalid.

        >>> question = Question(id="go", text="Go on?", answer_type=Boolean())
        >>> fields = {"session": "s", "inquiry_id": "tool_call.deploy.1", "schema": {}, "target": "user"}
        >>> Inquiry(question=question, **fields).needs_a_person
        True
        """
        return self.is_for_a_person or self.is_secret

    @property
    def can_be_remembered(self) -> bool:
        """Return False for a secret, a model's answer, and one to the daemon's own question."""
        is_for_a_person = self.target in ("caller", "user")
        return is_for_a_person and not self.is_secret and self.handle is not UNSET


class RememberedAnswer(msgspec.Struct, frozen=True):
    """An answer reused for the same question of the same process."""

    answer: Any
    remember: Remember

    def __repr__(self) -> str:
        return f"RememberedAnswer({self.remember}, …)"


class _Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: Any
    inquiry_id: str | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET


def turn_end_id(session: str, number: int) -> str:
    return f"turn_end.{session}.{number}"


def client_question_id(session: str, number: int) -> str:
    return f"client_question.{session}.{number}"


def inquiry_id(tool: str, call_id: str) -> str:
    """Return the id that the questions of a call share."""
    return f"tool_call.{tool}.{call_id}"


def schema(inquiry: str, answer_type: AnswerType) -> dict[str, Any]:
    """Return the JSON Schema of an answer, for structured output."""
    return {
        "type": "object",
        "properties": {
            "inquiry_id": {"type": "string", "const": inquiry},
            "answer": _answer(answer_type),
        },
        "required": ["inquiry_id", "answer"],
        "additionalProperties": False,
    }


def _answer(answer_type: AnswerType) -> dict[str, Any]:
    match answer_type:
        case Boolean():
            return {"type": "boolean"}
        case Select(options=options):
            return _one_of(options)
        case Form(fields=fields):
            return {
                "type": "object",
                "properties": {
                    name: _one_of(choice.options)
                    | ({"description": choice.text} if choice.text else {})
                    for name, choice in fields.items()
                },
                "required": list(fields),
                "additionalProperties": False,
            }
    return {"type": "string"}


def _one_of(options: tuple[Scalar, ...]) -> dict[str, Any]:
    if all(isinstance(option, str) for option in options):
        return {"type": "string", "enum": list(options)}
    return {"enum": list(options)}


def read_reply(inquiry: Inquiry, reply: object) -> Answer:
    """Read `{"answer": …}`, which may name its `inquiry_id`; raise `InvalidAnswer`."""
    return read_remembered_answer(inquiry, reply)[0]


def read_remembered_answer(inquiry: Inquiry, reply: object) -> tuple[Answer, Remember | UnsetType]:
    """Read an answer with its `remember`; raise `InvalidAnswer`."""
    try:
        message = msgspec.convert(reply, _Reply)
    except msgspec.ValidationError:
        raise InvalidAnswer('an answer is an object {"answer": …, "remember"?}') from None
    if message.inquiry_id is not UNSET and message.inquiry_id != inquiry.inquiry_id:
        raise InvalidAnswer("the answer is for another inquiry")
    check_remember(inquiry, message.remember)
    return check_answer(inquiry.question, message.answer), message.remember


def check_remember(inquiry: Inquiry, remember: Remember | UnsetType) -> None:
    """Raise `InvalidAnswer` if `remember` is set for an answer that cannot be kept."""
    if remember is not UNSET and not inquiry.can_be_remembered:
        reason = "a secret" if inquiry.is_secret else "asked of a model"
        if inquiry.handle is UNSET:
            reason = "for this once"
        raise InvalidAnswer(
            f"the answer to question {inquiry.question.id!r} cannot be remembered, as it is {reason}; "
            "leave `remember` out"
        )


class InquiriesListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List the open questions of one session, or of all with `*`."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class InquiriesListResult(msgspec.Struct, frozen=True):
    """The open questions, as in `inquiry/ask`."""

    inquiries: tuple[Inquiry, ...]


class InquiriesAnswerParams(Params, frozen=True, kw_only=True):
    """Answer a question, for a person. With `question` the answer counts only while that question
    is open, as a tool's questions share one `inquiry_id`. With `remember` the answer is reused for
    the tool's same question."""

    inquiry_id: Annotated[str, Meta(max_length=512)]
    answer: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"InquiriesAnswerParams(inquiry_id={self.inquiry_id!r}, …)"


class InquiriesAskParams(Params, frozen=True, kw_only=True):
    """Ask the client's question, and wait for the answer. The candidates are the same as for a
    tool's question, except this client. Cancelling the call or closing the connection withdraws the
    question."""

    question: Question
    target: Target
    timeout_s: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType = UNSET


class InquiriesAskResult(msgspec.Struct, frozen=True):
    """The answer, of the question's type."""

    answer: Answer

    def __repr__(self) -> str:
        return "InquiriesAskResult(…)"


class AskpassParams(Params, frozen=True, kw_only=True):
    """Ask for a secret for a tool's process; for the helper `haft-askpass` only."""

    mark: Annotated[str, Meta(max_length=256)]
    prompt: str
    hint: Literal["confirm", "none"] | UnsetType = UNSET


class AskpassResult(msgspec.Struct, frozen=True):
    """The answer, or `null` where nothing was asked."""

    answer: str | bool | None

    def __repr__(self) -> str:
        return "AskpassResult(…)"
