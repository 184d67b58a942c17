"""Takes each inquiry to the backends, in order, until it is answered or fails."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import structlog
import trio
from msgspec import UnsetType

from haft_protocol.approvals import Approval
from haft_protocol.errors import RpcError
from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import InvalidAnswer
from haftd.arrival_order import ArrivalOrder, Place
from haftd.caller import Caller
from haftd.core.termination import internal_failure

from .backend import MAX_ATTEMPTS, Backend, Candidate, Declined, InquiryFailed
from .kind import Answered, End, InquiryKind, Timeouts, Unanswered, Withdrawn
from .memory import AnswerCache
from .pending_inquiry import PendingInquiry

M = TypeVar("M", Inquiry, Approval)
log = structlog.get_logger("haftd.inquiries")


def _ignore(kind: InquiryKind) -> None:
    pass


def _discard(event: str, **fields: object) -> None:
    pass


class InquiryRouter:
    """All pending inquiries. `clients` is the only backend of kinds with `clients_only`; `record`
    writes to the audit log."""

    def __init__(
        self,
        backends: Sequence[Backend] = (),
        clients: Backend | None = None,
        *,
        record: Callable[..., None] = _discard,
        cache: AnswerCache | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008
    ) -> None:
        self.cache = AnswerCache() if cache is None else cache
        self._backends = tuple(backends)
        self._clients = () if clients is None else (clients,)
        self._replaced = trio.Event()
        self._record = record
        self._timeouts = timeouts
        self._numbers = itertools.count(1)
        self._pending: dict[PendingInquiry, Callable[[], None]] = {}
        self._is_stopped = False
        self._asking = ArrivalOrder()
        """Open inquiries that have asked no backend."""
        self.on_open: Callable[[InquiryKind], None] = _ignore
        """Called when an inquiry is open, so that answers are accepted."""
        self.on_close: Callable[[InquiryKind], None] = _ignore
        """Called at the end of each opened inquiry."""

    def replace(self, backends: Sequence[Backend]) -> None:
        """Ask these backends from now on, also for inquiries that other backends have declined. A
        running request still counts."""
        self._backends = tuple(backends)
        self._replaced.set()
        self._replaced = trio.Event()

    # -- pending inquiries

    def put(
        self,
        kind: InquiryKind,
        *,
        is_queued: bool = False,
        on_end: Callable[[PendingInquiry], None] = lambda pending: None,
    ) -> PendingInquiry:
        """Open or queue an inquiry, to be answered by `resolve`. One with a known end is settled at
        once, and after `stop` one that `end_on_close` ends."""

        def ended(pending: PendingInquiry) -> None:
            if self._pending.pop(pending, None) is not None:
                for handle in pending.kind.depends_on:
                    handle.unlisten(withdraw_if_stopped)
            if pending.turn.is_set() and pending.kind.is_ready:
                self.on_close(pending.kind)
            on_end(pending)

        def withdraw_if_stopped() -> None:
            if all(handle.stopped for handle in kind.depends_on):
                pending.settle(Withdrawn())

        pending = PendingInquiry(kind, ended, self._announce)
        end = self._find_known_end(kind)
        if end is not None:
            pending.settle(end)
            return pending
        if self._is_stopped and (withdrawn := kind.end_on_close(stopping=True)) is not None:
            pending.settle(withdrawn)
            return pending
        self._pending[pending] = withdraw_if_stopped
        for handle in kind.depends_on:
            handle.listen(withdraw_if_stopped)
        if not is_queued:
            pending.open()
        return pending

    def list_open(
        self, message_type: type[M], session: str | None = None, caller: Caller | None = None
    ) -> list[tuple[PendingInquiry, M]]:
        """Return the open inquiries visible to the caller, with messages of this type, in their
        order; those of all sessions, and for all callers, with None."""
        inquiries = (
            (pending, message)
            for pending in sorted(self._pending, key=lambda pending: pending.kind.order)
            if pending.is_open
            and session in (None, pending.kind.session)
            and (caller is None or pending.kind.is_visible_to(caller))
            and isinstance(message := pending.kind.make_message(), message_type)
        )
        return list(inquiries)

    def open_kinds(self, session: str | None = None) -> list[InquiryKind]:
        """Return the open inquiries of a session, with None of all sessions, in their order."""
        return [
            pending.kind
            for pending in sorted(self._pending, key=lambda pending: pending.kind.order)
            if pending.is_open and session in (None, pending.kind.session)
        ]

    def _announce(self, pending: PendingInquiry) -> None:
        if pending.is_open:
            self.on_open(pending.kind)

    def find(
        self, message_type: type[M], session: str, caller: Caller, id: str
    ) -> tuple[PendingInquiry, M] | None:
        """Return the first open inquiry with this id that the caller may see, and its message; None without
        one."""
        inquiries = self.list_open(message_type, session, caller)
        return next((entry for entry in inquiries if entry[0].kind.id == id), None)

    def new_id(self) -> str:
        """Return an unused, unpredictable id."""
        ids = {pending.kind.id for pending in self._pending}
        while (id := secrets.token_hex(4)) in ids:
            pass
        return id

    def new_number(self) -> int:
        """Return 1, 2, … at each call."""
        return next(self._numbers)

    def close(self, session: str) -> None:
        """Forget the session's remembered answers, and end its inquiries, except those that end with
        their handles."""
        self.cache.close(session)
        self._end_all(session, stopping=False)

    def stop(self) -> None:
        """End all inquiries, and from now on each new one, except those that end with their
        handles."""
        self._is_stopped = True
        self._end_all(None, stopping=True)

    def _end_all(self, session: str | None, *, stopping: bool) -> None:
        for pending in list(self._pending):
            if session in (None, pending.kind.session):
                end = pending.kind.end_on_close(stopping=stopping)
                if end is not None:
                    pending.settle(end)

    # --- answers -----------------------------------------------------------------------------

    def accept(self, pending: PendingInquiry, answer: Answered) -> bool:
        """Remember and record a checked answer, and settle the inquiry with it. Return False, without
        effects, for an inquiry that is not open."""
        if not pending.is_open:
            return False
        kind, until = pending.kind, answer.remember
        if not isinstance(until, UnsetType) and (key := kind.memory_key) is not None:
            subject, bound_to = key
            self.cache.keep(kind.session, subject, answer.value, until, bound_to)
        self._record_answer(kind, answer)
        return pending.settle(answer)

    def _find_known_end(self, kind: InquiryKind) -> Answered | Unanswered | None:
        """Return and record an end that needs no backend, the kind's or a remembered answer; None if there
        is neither."""
        end = kind.find_known_end()
        if end is None and (key := kind.memory_key) is not None:
            end = self._recall(kind, *key)
        if isinstance(end, Answered):
            self._record_answer(kind, end)
        return end

    def _recall(self, kind: InquiryKind, subject: object, bound_to: object) -> Answered | None:
        """Return a remembered answer; None without one, and for one that no longer fits, which is
        forgotten."""
        kept = self.cache.find(kind.session, subject, bound_to)
        if kept is None:
            return None
        try:
            return Answered(kind.recall(kept.value), {"by": "remembered"})
        except InvalidAnswer:
            self.cache.drop(kind.session, subject)
            return None

    def _record_answer(self, kind: InquiryKind, answer: Answered) -> None:
        record = kind.make_audit_record(answer)
        if record is not None:
            event, fields = record
            self._record(event, **fields)

    # --- the search --------------------------------------------------------------------------

    async def resolve(self, pending: PendingInquiry) -> End:
        """Look for an answer and return the end. A cancellation withdraws the inquiry; an earlier
        withdrawal's error is raised instead, and an accepted answer is returned."""
        try:
            if pending.end is None:
                with self._asking.place() as place:
                    if not pending.turn.is_set():
                        place.leave()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._search, pending, place)
                        await pending.wait()
                        nursery.cancel_scope.cancel()
        except (trio.Cancelled, BaseExceptionGroup) as stop:
            if isinstance(pending.end, Withdrawn) and pending.end.error is not None:
                raise pending.end.error from None
            if not (isinstance(pending.end, Answered) and _is_cancellation(stop)):
                raise
        finally:
            pending.settle(Withdrawn())
        if pending.end is None:
            raise AssertionError("the inquiry has no end after `settle`")
        return pending.end

    async def _search(self, pending: PendingInquiry, place: Place) -> None:
        if not pending.turn.is_set():
            await pending.turn.wait()
        elif not place.has_left:
            # The backends are asked in the order of the inquiries.
            await place.wait_first()
            place.leave()
        if pending.end is not None:
            return  # answered while queued
        seconds, reason = pending.kind.choose_timeout(self._timeouts)
        end: Answered | Unanswered = Unanswered(reason)
        with trio.move_on_after(seconds):
            try:
                if not pending.kind.is_ready:
                    pending.kind = await pending.kind.prepare()
                    self._announce(pending)
                end = await self._find(pending)
            except InquiryFailed as failed:
                end = Unanswered(pending.kind.explain_failure(str(failed)))
            except Exception:
                log.exception("an inquiry could not be made", inquiry=pending.kind.id)
                end = Unanswered(internal_failure())
        if isinstance(end, Answered):
            self.accept(pending, end)
        else:
            pending.settle(end)

    async def _find(self, pending: PendingInquiry) -> Answered:
        """Return the first answer; once all have declined, wait for other candidates. Raises
        `InquiryFailed`."""
        backends = changed = self._choose_backends(pending.kind)
        while True:
            for backend in changed:
                answer = await ask_backend(backend, pending)
                if answer is not None:
                    return answer
            pending.claim(False)
            changed = await self._wait_for_change(pending, backends)
            backends = self._choose_backends(pending.kind)
            pending.claim(True)

    def _choose_backends(self, kind: InquiryKind) -> tuple[Backend, ...]:
        return self._clients if kind.clients_only else self._backends

    async def _wait_for_change(
        self, pending: PendingInquiry, declined: tuple[Backend, ...]
    ) -> tuple[Backend, ...]:
        """Wait until a backend has another candidate, or the backends are replaced."""
        changed: list[Backend] = []
        while not changed and self._choose_backends(pending.kind) is declined:
            async with trio.open_nursery() as nursery:

                async def watch(backend: Backend, scope: trio.CancelScope) -> None:
                    await backend.change(pending)
                    changed.append(backend)
                    scope.cancel()

                for backend in declined:
                    nursery.start_soon(watch, backend, nursery.cancel_scope)
                await self._replaced.wait()
                nursery.cancel_scope.cancel()
        if self._choose_backends(pending.kind) is not declined:
            return self._choose_backends(pending.kind)
        return tuple(backend for backend in declined if backend in changed)


def _is_cancellation(stop: BaseException) -> bool:
    if isinstance(stop, BaseExceptionGroup):
        return all(map(_is_cancellation, stop.exceptions))
    return isinstance(stop, trio.Cancelled)


async def ask_backend(backend: Backend, pending: PendingInquiry) -> Answered | None:
    """Ask a backend's candidates; return None if all have declined, or if a secret needs another
    backend. Raises `InquiryFailed`."""
    message = pending.kind.make_message()
    reason = "there is nobody to ask"
    if isinstance(message, Inquiry) and message.is_secret and not backend.takes_secrets:
        return None
    try:
        for candidate in backend.candidates(pending):
            pending.routed.set()
            try:
                pending.asked = candidate.caller
                answer = await _ask(candidate, pending)
            except Declined as declined:
                reason = str(declined)
            else:
                return answer
            finally:
                pending.asked = None
    except Declined as declined:
        reason = str(declined)
    log.info(
        "declined",
        inquiry=pending.kind.id,
        tool=pending.kind.tool,
        backend=backend.name,
        why=reason,
    )
    return None


async def _ask(candidate: Candidate, pending: PendingInquiry) -> Answered:
    """Return the first reply that fits. Raises `Declined` and `InquiryFailed`."""
    refused: str | UnsetType = msgspec.UNSET
    for _ in range(MAX_ATTEMPTS):
        message = msgspec.structs.replace(pending.kind.make_message(), refused=refused)
        try:
            value, remember = pending.kind.read(await candidate.ask(message))
        except InvalidAnswer as wrong:
            refused = f"{wrong}."
        except RpcError as wrong:
            refused = wrong.message
        else:
            caller = candidate.caller
            if caller is not None and not caller.may(pending.kind.permission):
                remember = msgspec.UNSET  # only users decide on that
            return Answered(value, candidate.source, caller, remember)
    if candidate.exhausted:
        raise InquiryFailed(candidate.exhausted)
    raise Declined("its answers are not valid")
