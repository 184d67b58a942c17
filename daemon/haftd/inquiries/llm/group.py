"""Questions of several tools in one request to a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

import msgspec
import trio

from haft_protocol.inquiries import Inquiry

from ..backend import InquiryFailed


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
        """Wait for the texts, which one member gets by `lead`. A failure fails all."""
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
