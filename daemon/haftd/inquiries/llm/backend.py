"""Backend `llm`: asks a model, with the conversation of the call; questions of several tools may
share a request."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import structlog
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.inquiries import Inquiry
from haftd.config.inquiry_settings import LlmSettings, read_model_settings
from haftd.schemas import UnsupportedSchema
from haftd.tools.definitions.parameters import InvalidField

from ..backend import MAX_ATTEMPTS, Backend, Candidate, Declined, InquiryFailed
from ..pending_inquiry import PendingInquiry
from . import prompt
from .anthropic import Anthropic
from .google import Google
from .keys import NoKey, read_key
from .ollama import Ollama
from .openai import OpenAI
from .provider import (
    Conversation,
    Exchange,
    ModelText,
    NoConversation,
    Provider,
    Refused,
    Truncated,
    Turn,
    find_paused,
    fit,
    has_no_conversation,
    read_context,
)
from .sender import Sender

_MAX_CONCURRENT = 16
"""Requests to the model, as its provider limits them; further ones wait for their turn."""
_PROVIDERS: dict[str, Provider] = {
    "openai": OpenAI(),
    "anthropic": Anthropic(),
    "google": Google(),
    "ollama": Ollama(),
}

log = structlog.get_logger("haftd.inquiries")


class Member(msgspec.Struct, frozen=True, eq=False):
    inquiry: Inquiry
    tool: str


AskTogether = Callable[[Sequence[Member]], Awaitable[Mapping[str, str]]]
"""Asks the questions in one request; returns each answer's text by inquiry id, none if they cannot
share a request. Raises `InquiryFailed`."""


class Groups:
    """Open groups by key, each asked after `gather_ms`."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _Group] = {}

    async def ask(
        self, key: Hashable, member: Member, gather_s: float, ask: AskTogether
    ) -> str | None:
        """Return the text of the member's answer; None if the member must be asked alone. Raises
        `InquiryFailed`."""
        group = self._open.get(key)
        if group is None:
            group = self._open[key] = _Group()
        elif member.inquiry.inquiry_id in group.members:
            return None

        async def lead() -> Mapping[str, str]:
            await trio.sleep(gather_s)
            if self._open.get(key) is group:
                del self._open[key]
            members = tuple(group.members.values())
            return await ask(members) if len(members) > 1 else {}

        try:
            return await group.reply(member, lead)
        finally:
            if not group.members and self._open.get(key) is group:
                del self._open[key]


class _Group:
    """Questions of one request. The first waiting member leads; if its question is answered
    elsewhere, the next asks again."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self._has_leader = False
        self._changed = trio.Event()
        self._texts: Mapping[str, str] | None = None
        self._failure = ""

    async def reply(
        self, member: Member, lead: Callable[[], Awaitable[Mapping[str, str]]]
    ) -> str | None:
        """Wait for the texts, which one member gets by `lead`; return this member's, or None if it must
        be asked alone. A failure of the request fails all members."""
        id = member.inquiry.inquiry_id
        self.members[id] = member
        try:
            while self._texts is None and not self._failure:
                if self._has_leader:
                    await self._changed.wait()
                    continue
                self._has_leader = True
                try:
                    self._texts = await lead()
                except InquiryFailed as failed:
                    self._failure = str(failed)
                finally:
                    self._has_leader = False
                    self._changed.set()
                    self._changed = trio.Event()
        finally:
            del self.members[id]
        if self._texts is None:
            raise InquiryFailed(self._failure)
        return self._texts.get(id)


class LlmBackend(Backend):
    """Secrets, approvals and questions for a user decline. So do a question for the caller without a
    context, a context that is no conversation, a definition for another provider, and a schema that
    the provider cannot express. Wrong settings in the definition, a missing key, a server that
    refuses or is out of reach, and a truncated answer fail the inquiry."""

    name = "llm"
    takes_secrets = False

    def __init__(
        self, settings: LlmSettings, environ: Mapping[str, str], sender: Sender | None = None
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._provider = _PROVIDERS[settings.provider]
        self._sender = sender or Sender()
        self._turns = trio.Semaphore(_MAX_CONCURRENT)
        self._groups = Groups()

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        inquiry = pending.kind.make_message()
        if not isinstance(inquiry, Inquiry) or inquiry.is_secret or inquiry.is_for_a_person:
            raise Declined("it is for a person")
        if inquiry.target == "caller" and has_no_conversation(inquiry.context):
            raise Declined("the call has no context, and the definition names no model to ask")
        table = _find_settings(inquiry)
        if (
            table is None
            or table.get("provider", self._settings.provider) != self._settings.provider
        ):
            raise Declined("the definition names a user or another provider")
        try:
            settings = read_model_settings(table, self._settings)
            exchange = self._make_exchange(
                inquiry, pending.kind.tool, read_context(inquiry.context)
            )
            key = read_key(settings, self._environ)
        except InvalidField as wrong:
            place = ".".join(str(step) for step in wrong.path)
            raise InquiryFailed(
                f"`target.assistant.{place}` in the tool's definition is wrong: {wrong.message}"
            ) from None
        except NoConversation as no:
            raise Declined(str(no)) from None
        except UnsupportedSchema as no:
            raise Declined(f"the choice cannot be put to the provider: {no}") from None
        except NoKey as no:
            raise InquiryFailed(f"the model cannot be asked: {no}") from None
        model = settings.model
        yield Candidate(
            self._make_attempt(settings, key, exchange, pending.kind.tool),
            {"by": "llm", "provider": settings.provider, "model": model},
            exhausted=f"the model {model} gave no valid answer in {MAX_ATTEMPTS} attempts",
        )

    def _make_exchange(self, inquiry: Inquiry, tool: str, conversation: Conversation) -> Exchange:
        calls = self._provider.find_open_calls(conversation.messages)
        # The question at a turn's end belongs to no call.
        call_id = inquiry.call_id
        asks = None if isinstance(call_id, UnsetType) else find_paused(calls, call_id, tool)
        pause = prompt.compose_pause(inquiry.question)
        return Exchange(
            conversation,
            tuple((call, pause if call is asks else prompt.ELSEWHERE) for call in calls),
            (Turn("user", prompt.compose_question(inquiry, tool)),),
            fit(inquiry.schema, self._provider.dialect),
        )

    def _make_attempt(
        self, settings: LlmSettings, key: str | None, exchange: Exchange, tool: str
    ) -> Callable[[Inquiry], Awaitable[object]]:
        """Return a function that makes one attempt: the first may share a request, each later one sends
        the earlier answers and their faults."""
        turns = exchange.turns
        text = ""

        async def attempt(inquiry: Inquiry) -> object:
            nonlocal turns, text
            if isinstance(inquiry.refused, str):
                attempted = (Turn("assistant", text),) if text.strip() else ()
                turns = (
                    *turns,
                    *attempted,
                    Turn("user", prompt.compose_correction(inquiry, inquiry.refused)),
                )
            elif settings.gather_ms and inquiry.handle is not UNSET:
                member = Member(inquiry, tool)
                together = partial(self._ask_together, settings, key, exchange.conversation)
                answer = await self._groups.ask(
                    _make_group_key(settings, key, inquiry),
                    member,
                    settings.gather_ms / 1000,
                    together,
                )
                if answer is not None:
                    text = answer
                    return prompt.read_text(inquiry, text)
            now = Exchange(exchange.conversation, exchange.replies, turns, exchange.schema)
            text = await self._request_text(settings, key, now)
            return prompt.read_text(inquiry, text)

        return attempt

    async def _ask_together(
        self,
        settings: LlmSettings,
        key: str | None,
        conversation: Conversation,
        members: Sequence[Member],
    ) -> dict[str, str]:
        inquiries = [member.inquiry for member in members]
        try:
            schema = fit(prompt.make_joint_schema(inquiries), self._provider.dialect)
        except UnsupportedSchema:
            return {}
        calls = self._provider.find_open_calls(conversation.messages)
        paused: dict[int, str] = {}
        for member in members:
            open_calls = [call for at, call in enumerate(calls) if at not in paused]
            call_id = member.inquiry.call_id
            if isinstance(call_id, UnsetType):
                continue
            asks = find_paused(open_calls, call_id, member.tool)
            at = next((at for at, call in enumerate(calls) if call is asks), None)
            if at is not None:
                paused[at] = prompt.compose_pause(member.inquiry.question)
        replies = tuple((call, paused.get(at, prompt.ELSEWHERE)) for at, call in enumerate(calls))
        question = prompt.compose_questions([(member.inquiry, member.tool) for member in members])
        if settings.max_tokens is not None:
            settings = msgspec.structs.replace(
                settings, max_tokens=settings.max_tokens * len(members)
            )
        exchange = Exchange(conversation, replies, (Turn("user", question),), schema)
        log.info("asked together", inquiries=[inquiry.inquiry_id for inquiry in inquiries])
        return prompt.read_all(inquiries, await self._request_text(settings, key, exchange))

    async def _request_text(
        self, settings: LlmSettings, key: str | None, exchange: Exchange
    ) -> str:
        request = self._provider.make_request(settings, key, exchange)
        async with self._turns:
            reply = self._provider.read(await self._sender.send(request, settings))
        match reply:
            case None:
                raise InquiryFailed(
                    "the model's server did not answer in the format of"
                    f" {settings.provider}: check `inquiry.llm.url`"
                )
            case Refused():
                raise InquiryFailed(f"the model {settings.model} refused to answer")
            case Truncated():
                raise InquiryFailed(
                    f"the answer of the model {settings.model} was truncated: raise `max_tokens`"
                )
            case ModelText(text):
                return text


def _make_group_key(settings: LlmSettings, key: str | None, inquiry: Inquiry) -> Hashable:
    context = b"" if inquiry.context is UNSET else msgspec.json.encode(inquiry.context)
    return settings, key, inquiry.session, hashlib.sha256(context).digest()


def _find_settings(inquiry: Inquiry) -> Mapping[str, object] | None:
    """Return the definition's settings for a model, perhaps empty; None if it names a user alone."""
    target = inquiry.target
    if not isinstance(target, dict):
        return {}
    table = target.get("assistant", {})
    if not isinstance(table, dict) or ("user" in target and "assistant" not in target):
        return None
    return table
