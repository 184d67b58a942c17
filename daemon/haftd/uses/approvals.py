"""What waits for a person's word, and the words that count for longer than one call.

Rules: an action is done only after somebody has allowed it, and each is decided once: whoever
decides first counts, and who is being asked hears that it is no longer wanted. A client with the
capability is asked, the caller's own first, then others of its session, one after the other; one
that comes later is asked then. One that is gone, declines or answers with an error has decided
nothing: the next is asked, and it stays open for `approvals/decide`. Changed arguments are checked
before they count. Nobody's word within the time is a no. What is remembered is a word about a tool
and an action in a session, and of what starts a tool, about that very definition. Arguments are in
no log and in no record.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import structlog
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import (
    ASK_APPROVAL,
    Approval,
    BadDecision,
    Decided,
    Decision,
    PolicedAction,
    read_decision,
)
from haft_protocol.errors import RpcError, not_approved, shutting_down
from haft_protocol.rpc import BadReply
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.remembered import Remembered
from haftd.links import Link, Links, Round, Unreachable

__all__ = ["Approvals", "Request", "Verdict"]

AGAIN = 2
"""How often a client that decided in a way that cannot be is asked again."""

T = TypeVar("T")
log = structlog.get_logger("haftd.uses.approvals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """An action that is to be approved. `check` makes of changed arguments what is done with them, or
    raises `RpcError` (invalid_arguments). `bound_to` is what a remembered word is about besides the
    tool's name."""

    caller: Caller
    handle: Handle
    action: PolicedAction
    approval: Approval
    check: Callable[[dict[str, Any]], T]
    bound_to: Hashable = None
    render: Callable[[], Awaitable[str]] | None = None
    """What makes `rendered`, where that has to be waited for; nobody is asked before."""

    @property
    def about(self) -> tuple[str, str, str]:
        """What a word about it can be remembered under."""
        return "approval", self.approval.tool, self.action


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """What was decided: `decision` is `allow`, `skip` or `edit`. `edited` is what `check` made of the
    arguments. `by` names the client."""

    decision: Decision
    reason: str = ""
    by: str | UnsetType = UNSET
    edited: T | None = None


class _Open(Generic[T]):
    __slots__ = ("approval", "is_shown", "refusal", "request", "settled", "verdict")

    def __init__(self, request: Request[T]) -> None:
        self.request = request
        self.approval = request.approval
        self.is_shown = request.render is None
        self.settled = trio.Event()
        self.verdict: Verdict[T] | None = None
        self.refusal: RpcError | None = None

    def refuse(self, error: RpcError) -> None:
        self.refusal = error
        self.settled.set()


class Approvals:
    """What waits. `remembered` holds the words that count for longer; `members` names the connections
    of a session, in order; `record` writes each decision into the audit log."""

    def __init__(
        self,
        links: Links,
        members: Callable[[str], Iterable[Caller]],
        record: Callable[..., None],
        timeout_s: float,
        remembered: Remembered,
    ) -> None:
        self._links = links
        self._remembered = remembered
        self._members = members
        self._record = record
        self._timeout_s = timeout_s
        self._open: dict[str, _Open[Any]] = {}

    def new_id(self) -> str:
        """An id that nothing that waits has; not to be guessed from another."""
        while (found := secrets.token_hex(4)) in self._open:
            pass
        return found

    async def seek(self, request: Request[T]) -> Verdict[T]:
        """Wait for a word. Raises `RpcError` (not_approved, shutting_down). Cancelled, it waits no
        more, and nobody is asked any more."""
        known = self._remembered.find(request.approval.session, request.about, request.bound_to)
        if known is not None:
            return _verdict(request, known.said, None)
        one = _Open(request)
        self._open[request.approval.approval_id] = one
        try:
            with trio.move_on_after(self._timeout_s):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._push, one)
                    await one.settled.wait()
                    nursery.cancel_scope.cancel()
        except (trio.Cancelled, BaseExceptionGroup):
            if one.refusal is not None:
                # It was refused because all ends, and so is this task: the word came first.
                raise one.refusal from None
            raise
        finally:
            del self._open[request.approval.approval_id]
        if one.refusal is not None:
            raise one.refusal
        if one.verdict is None:
            why = f"nobody has decided within {self._timeout_s:g} s (`approval_timeout_s`)"
            raise not_approved(request.approval.tool, request.action, why)
        return one.verdict

    def waiting(self, session: str | None = None) -> list[Approval]:
        """What waits in a session, or in all, the longest first."""
        return [
            one.approval
            for one in self._open.values()
            if session in (None, one.approval.session) and one.is_shown and not one.settled.is_set()
        ]

    def decide(self, session: str, approval_id: str, decided: Decided, by: Caller) -> bool:
        """Take a word; false when nothing waits under this id. Raises `RpcError` (invalid_arguments),
        and then it still waits."""
        one = self._open.get(approval_id)
        if one is None or one.request.approval.session != session or one.settled.is_set():
            return False
        self._take(one, decided, by)
        return True

    def close(self, session: str) -> None:
        """The session is closed: what waits in it is refused."""
        for one in list(self._open.values()):
            asked = one.request.approval
            if asked.session == session and not one.settled.is_set():
                one.refuse(not_approved(asked.tool, asked.action, "its session was closed"))

    def stop(self) -> None:
        """The daemon stops: nothing waits any more."""
        for one in self._open.values():
            if not one.settled.is_set():
                one.refuse(shutting_down())

    def _take(self, one: _Open[T], decided: Decided, by: Caller) -> None:
        request = one.request
        verdict: Verdict[T] | None = None
        refusal: RpcError | None = None
        try:
            verdict = _verdict(request, decided, by)
        except RpcError as error:
            if decided.decision != "deny":
                raise
            refusal = error
        if not isinstance(decided.remember, UnsetType):
            self._remembered.keep(
                request.approval.session,
                request.about,
                decided,
                decided.remember,
                request.bound_to,
            )
        self._write_down(request, decided, by)
        one.verdict, one.refusal = verdict, refusal
        one.settled.set()

    def _write_down(self, request: Request[T], decided: Decided, by: Caller) -> None:
        more = {"remember": decided.remember, "reason": decided.reason}
        self._record(
            "approval",
            client=by.identity,
            session=request.handle.session,
            handle=request.handle.id,
            generation=request.handle.generation,
            tool=request.approval.tool,
            action=request.action,
            decision=decided.decision,
            **{key: value for key, value in more.items() if value is not UNSET},
        )

    async def _push(self, one: _Open[T]) -> None:
        if one.request.render is not None:
            try:
                rendered = await one.request.render()
                one.approval = msgspec.structs.replace(one.approval, rendered=rendered)
            except Exception:
                log.exception("an approval could not be shown", handle=one.request.handle.id)
            one.is_shown = True
        try:
            await self._ask_around(one)
        except Exception:
            log.exception("an approval could not be asked for", handle=one.request.handle.id)

    async def _ask_around(self, one: _Open[T]) -> None:
        members = partial(self._members, one.request.approval.session)
        asked = Round(self._links, members, one.request.caller, "approval")
        while not one.settled.is_set():
            link = asked.next()
            if link is None:
                await asked.more()
            else:
                await self._ask(link, one)

    async def _ask(self, link: Link, one: _Open[T]) -> None:
        approval = one.approval
        for _ in range(1 + AGAIN):
            try:
                reply = await link.ask(ASK_APPROVAL, approval)
            except (Unreachable, BadReply):
                return
            except RpcError as error:
                log.info("declined", client=link.caller.label, code=error.code)
                return
            if one.settled.is_set():
                return
            try:
                self._take(one, read_decision(reply), link.caller)
            except BadDecision as wrong:
                approval = msgspec.structs.replace(approval, refused=f"{wrong}.")
            except RpcError as wrong:
                approval = msgspec.structs.replace(approval, refused=wrong.message)
            else:
                return


def _verdict(request: Request[T], decided: Decided, by: Caller | None) -> Verdict[T]:
    """What a word means for a request; `by` is None where it was remembered. Raises `not_approved`
    for a no, and `invalid_arguments`."""
    reason = "" if isinstance(decided.reason, UnsetType) else decided.reason
    if decided.decision == "deny":
        who = "an earlier word for this session" if by is None else by.label
        why = f"{who} denied it" + (f": {reason}" if reason else "")
        raise not_approved(request.approval.tool, request.action, why)
    edited = None
    if not isinstance(decided.arguments, UnsetType):
        edited = request.check(decided.arguments)
    return Verdict(decided.decision, reason, UNSET if by is None else by.label, edited)
