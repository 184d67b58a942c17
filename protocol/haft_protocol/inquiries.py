"""What is asked of whoever answers a tool's question, and what they answer.

Rules: everybody who is asked gets the same fields, pushed (`inquiry/ask`) or pulled
(`inquiries/list`). An answer is checked as a whole before anything of it counts; it is in no
message of an error and in no `repr`. Section 6.
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
    "InquiriesListParams",
    "InquiriesListResult",
    "Inquiry",
    "Lasting",
    "Target",
    "check_remember",
    "inquiry_id",
    "read_lasting",
    "read_reply",
    "schema",
    "turn_end_id",
]

ASK = "inquiry/ask"
"""The request that a client with the capability `inquiry` gets."""

Target = Literal["caller", "assistant", "user"] | dict[str, Any]


class Inquiry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A question on its way. `target` is `caller` where the definition says nothing, `assistant`,
    `user` (a person, and nobody else), or the definition's own table. `schema` is that of the
    answer. `context` is what the caller gave with its `tools/call`. What the daemon itself asks, at the
    end of a turn, has no `handle` and no `call_id`. `refused` is there when the same one has answered
    before in a way that cannot be."""

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
        """Whether nobody but a person may answer."""
        return self.target == "user"

    @property
    def is_secret(self) -> bool:
        """Whether the answer is kept from everybody but the tool."""
        return isinstance(self.question.answer_type, Secret)

    @property
    def needs_a_person(self) -> bool:
        """Whether what an assistant, or a program that haftd runs, says is no answer."""
        return self.is_for_a_person or self.is_secret

    @property
    def can_be_remembered(self) -> bool:
        """Whether an answer may count for longer than this once: not a secret, and not what a model
        is asked, which has to think each time, nor what no tool asks."""
        is_for_a_person = self.target in ("caller", "user")
        return is_for_a_person and not self.is_secret and self.handle is not UNSET


class Lasting(msgspec.Struct, frozen=True):
    """An answer that is given again, without asking, to the same program that asks the same."""

    answer: Any
    remember: Remember

    def __repr__(self) -> str:
        return f"Lasting({self.remember}, …)"


class _Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: Any
    inquiry_id: str | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET


def turn_end_id(session: str, number: int) -> str:
    """The id of what is asked at the end of a turn."""
    return f"turn_end.{session}.{number}"


def inquiry_id(tool: str, call_id: str) -> str:
    """The id of what a call asks; its questions come one after the other and share it."""
    return f"tool_call.{tool}.{call_id}"


def schema(inquiry: str, answer_type: AnswerType) -> dict[str, Any]:
    """The JSON Schema of an answer, as structured output takes it."""
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
    """The answer in `{"answer": …}`, which may name its `inquiry_id`; raises `InvalidAnswer`."""
    return read_lasting(inquiry, reply)[0]


def read_lasting(inquiry: Inquiry, reply: object) -> tuple[Answer, Remember | UnsetType]:
    """The same, with how long it counts, by `remember`; raises `InvalidAnswer`."""
    try:
        said = msgspec.convert(reply, _Reply)
    except msgspec.ValidationError:
        raise InvalidAnswer('an answer is an object {"answer": …, "remember"?}') from None
    if said.inquiry_id is not UNSET and said.inquiry_id != inquiry.inquiry_id:
        raise InvalidAnswer("the answer is for another inquiry")
    check_remember(inquiry, said.remember)
    return check_answer(inquiry.question, said.answer), said.remember


def check_remember(inquiry: Inquiry, remember: Remember | UnsetType) -> None:
    """Raise `InvalidAnswer` where an answer cannot be remembered and is to be."""
    if remember is not UNSET and not inquiry.can_be_remembered:
        what = "a secret" if inquiry.is_secret else "what a model is asked"
        if inquiry.handle is UNSET:
            what = "for this once"
        raise InvalidAnswer(
            f"the answer to question {inquiry.question.id!r} cannot be remembered, as it is {what}; "
            "leave `remember` out"
        )


class InquiriesListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List what is asked in one session, or in all with `*`, and not answered."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class InquiriesListResult(msgspec.Struct, frozen=True):
    """Each is what a client with the capability `inquiry` is asked."""

    inquiries: tuple[Inquiry, ...]


class InquiriesAnswerParams(Params, frozen=True, kw_only=True):
    """Answer what is asked, for a person. With `question` it is given only while that one is asked:
    a tool asks all of its questions under one `inquiry_id`. With `remember` it is given again to the
    same tool that asks the same."""

    inquiry_id: Annotated[str, Meta(max_length=512)]
    answer: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"InquiriesAnswerParams(inquiry_id={self.inquiry_id!r}, …)"


class AskpassParams(Params, frozen=True, kw_only=True):
    """Ask a secret for a program that a tool runs; only the helper `haft-askpass` has use for it."""

    mark: Annotated[str, Meta(max_length=256)]
    prompt: str
    hint: Literal["confirm", "none"] | UnsetType = UNSET


class AskpassResult(msgspec.Struct, frozen=True):
    """What was answered; `null` where nothing was asked."""

    answer: str | bool | None

    def __repr__(self) -> str:
        return "AskpassResult(…)"
