"""The typed calls of the blocking client; see `client`.

Made from `aio_calls` by `python -m tests.unasync`: edit that module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from haft_protocol.methods import (
    AwaitResult,
    HandleInfo,
    InquiriesAskResult,
    NoticesResult,
    PingResult,
    ReloadResult,
    SearchResult,
    SessionCloseResult,
    SessionListResult,
    StatusResult,
    TimelineResult,
    ToolsListResult,
    TurnEndResult,
    TurnResult,
)
from haft_protocol.params import Reader
from haft_protocol.pushes import PushEvent, SubscribeResult
from haft_protocol.questions import Answer
from haft_protocol.states import HandleState, Notice

from .requests import Common, Reading, drop_unset, handle_infos, ids


class Calls:
    """Methods of the protocol, typed; a client provides `call`."""

    def call(self, method: str, /, *, timeout: float | None = None, **params: object) -> Any:
        """Call a method by its wire name and return its typed result; raises `RemoteError`."""
        raise NotImplementedError

    def spawn(
        self,
        tool: str,
        id: str,
        args: Mapping[str, object] | None = None,
        *,
        call_id: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin_from: str | None = None,
        split_stderr: bool | None = None,
        retain: bool | None = None,
        cursor: int | None = None,
        approval_timeout_ms: int | None = None,
        timeout: float | None = None,
        **reading: Unpack[Reading],
    ) -> HandleState:
        """Start `tool` under `id`. `env` replaces the daemon's environment; the output of the
        handle `stdin_from` becomes the input. `split_stderr` gives standard error a pipe of its
        own; with `retain=False` the handle is forgotten soon after its end. After
        `approval_timeout_ms` without a decision the call returns the handle `pending`, and the
        start outlives this client."""
        source = None if stdin_from is None else {"id": stdin_from}
        fields = drop_unset(
            tool=tool,
            id=id,
            args=args,
            call_id=call_id,
            env=env,
            stdin_from=source,
            split_stderr=split_stderr,
            retain=retain,
            approval_timeout_ms=approval_timeout_ms,
            cursor=cursor,
        )
        state: HandleState = self.call("spawn", timeout=timeout, **fields, **reading)
        return state

    def fetch(
        self,
        id: str,
        *,
        cursor: int | None = None,
        since_revision: int | None = None,
        reader: Reader | None = None,
        clipboard: bool | None = None,
        styles: bool | None = None,
        timeout: float | None = None,
        **reading: Unpack[Reading],
    ) -> HandleState:
        """Read a handle; with `cursor` from that byte, leaving the session's read offset unchanged.

        `reader` (`for` on the wire) = `terminal` leaves queries out of bytes, and clipboard writes
        unless `clipboard`. `styles` gives a screen's rows as `runs`.
        """
        fields = drop_unset(
            id=id, cursor=cursor, since_revision=since_revision, clipboard=clipboard, styles=styles
        )
        if reader is not None:
            fields["for"] = reader
        state: HandleState = self.call("fetch", timeout=timeout, **fields, **reading)
        return state

    def apply(
        self,
        id: str,
        input: object,
        *,
        question: str | None = None,
        cursor: int | None = None,
        since_revision: int | None = None,
        timeout: float | None = None,
        **reading: Unpack[Reading],
    ) -> HandleState:
        """Give input or an answer; then read as `fetch` does. With `question` the input counts only
        while that question is open."""
        fields = drop_unset(id=id, cursor=cursor, since_revision=since_revision, question=question)
        state: HandleState = self.call("apply", timeout=timeout, input=input, **fields, **reading)
        return state

    def abort(
        self,
        id: str,
        *,
        grace_ms: int | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> HandleState:
        """End a handle; return when all of its processes have ended."""
        state: HandleState = self.call(
            "abort", timeout=timeout, **drop_unset(id=id, grace_ms=grace_ms), **common
        )
        return state

    def await_(
        self,
        *,
        all: Iterable[str] = (),
        any: Iterable[str] = (),
        timeout_secs: float | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> AwaitResult:
        """Wait until every handle in `all` and one of `any` has stopped."""
        fields = drop_unset(all=ids(all), any=ids(any), timeout_secs=timeout_secs)
        result: AwaitResult = self.call("await", timeout=timeout, **fields, **common)
        return result

    def ping(self, *, timeout: float | None = None) -> PingResult:
        result: PingResult = self.call("ping", timeout=timeout)
        return result

    def handles(
        self, session: str | None = None, *, timeout: float | None = None
    ) -> tuple[HandleInfo, ...]:
        """List the handles of this session, of the one named, or of all with `*`."""
        return handle_infos(
            self.call("handles/list", timeout=timeout, **drop_unset(session=session))
        )

    def search(
        self,
        pattern: str,
        ids: Iterable[str] | None = None,
        *,
        max_matches: int | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> SearchResult:
        """Find lines in the kept output of handles."""
        names = None if ids is None else tuple(ids)
        fields = drop_unset(pattern=pattern, ids=names, max_matches=max_matches)
        result: SearchResult = self.call("output/search", timeout=timeout, **fields, **common)
        return result

    def timeline(
        self,
        id: str,
        *,
        cursor: int | None = None,
        max_points: int | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> TimelineResult:
        """Return when the bytes of a handle's output were printed."""
        fields = drop_unset(id=id, cursor=cursor, max_points=max_points)
        result: TimelineResult = self.call("output/timeline", timeout=timeout, **fields, **common)
        return result

    def tools(self, *, timeout: float | None = None, **common: Unpack[Common]) -> ToolsListResult:
        result: ToolsListResult = self.call("tools/list", timeout=timeout, **common)
        return result

    def reload_tools(self, *, timeout: float | None = None) -> ReloadResult:
        result: ReloadResult = self.call("tools/reload", timeout=timeout)
        return result

    def subscribe(
        self,
        events: Iterable[PushEvent],
        *,
        handles: Iterable[str] | None = None,
        start: Mapping[str, int] | None = None,
        reader: Reader | None = None,
        clipboard: bool | None = None,
        backpressure: bool | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> str:
        """Receive pushes by `hear`, of all sessions with `session="*"`; return the name of the
        subscription.

        `start` (`from` on the wire) has the offset of the output by id, `reader` is `for` on the
        wire. With `backpressure` the processes of `handles` wait for this reader of `bytes`.
        """
        fields = drop_unset(
            events=tuple(events),
            handles=None if handles is None else tuple(handles),
            clipboard=clipboard,
            backpressure=backpressure,
        )
        if start is not None:
            fields["from"] = dict(start)
        if reader is not None:
            fields["for"] = reader
        opened: SubscribeResult = self.call("subscribe", timeout=timeout, **fields, **common)
        return opened.subscription

    def unsubscribe(self, subscription: str, *, timeout: float | None = None) -> None:
        """End a subscription; no push follows the reply."""
        self.call("unsubscribe", timeout=timeout, subscription=subscription)

    def sessions(self, *, timeout: float | None = None) -> SessionListResult:
        result: SessionListResult = self.call("session/list", timeout=timeout)
        return result

    def close_session(self, session: str, *, timeout: float | None = None) -> SessionCloseResult:
        """Close a session and abort its handles."""
        result: SessionCloseResult = self.call("session/close", timeout=timeout, session=session)
        return result

    def status(self, *, timeout: float | None = None) -> StatusResult:
        result: StatusResult = self.call("daemon/status", timeout=timeout)
        return result

    def reload(self, *, timeout: float | None = None) -> ReloadResult:
        result: ReloadResult = self.call("daemon/reload", timeout=timeout)
        return result

    def shutdown(self, policy: str = "abort", *, timeout: float | None = None) -> None:
        """Stop the daemon; `refuse` fails when a handle is live."""
        self.call("daemon/shutdown", timeout=timeout, policy=policy)

    def discover(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the OpenRPC document of the protocol."""
        document: dict[str, Any] = self.call("rpc.discover", timeout=timeout)
        return document

    def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        *,
        call_id: str | None = None,
        context: object = None,
        env: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> dict[str, Any]:
        """Call a tool as an assistant does: a verb by `action`, else a run that ends with this call.

        `context` accompanies the tool's questions. The call has no time limit by default.
        """
        fields = drop_unset(arguments=arguments, call_id=call_id, context=context, env=env)
        result: dict[str, Any] = self.call(
            "tools/call", timeout=timeout, tool=tool, **fields, **common
        )
        return result

    def ask(
        self,
        question: Mapping[str, object],
        *,
        target: str = "user",
        timeout_s: float | None = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> Answer:
        """Ask the user, a model or the session's other clients a question; return the answer.

        Raises `RemoteError` without an answer.
        """
        fields = drop_unset(question=question, target=target, timeout_s=timeout_s)
        result: InquiriesAskResult = self.call("inquiries/ask", timeout=timeout, **fields, **common)
        return result.answer

    def notices(
        self, *, timeout: float | None = None, **common: Unpack[Common]
    ) -> tuple[Notice, ...]:
        """Take the session's unread notices; otherwise the next `call_tool` brings them."""
        drained: NoticesResult = self.call("notifications/drain", timeout=timeout, **common)
        return drained.notifications

    def begin_turn(self, *, timeout: float | None = None, **common: Unpack[Common]) -> int:
        begun: TurnResult = self.call("turn/begin", timeout=timeout, **common)
        return begun.turn

    def end_turn(
        self,
        *,
        policy: str | None = None,
        timeout_ms: int | None = None,
        target: str | None = None,
        context: object = None,
        timeout: float | None = None,
        **common: Unpack[Common],
    ) -> TurnEndResult:
        """End the turn and the handles that must not outlast it; `target` and `context` go to the inquiry."""
        fields = drop_unset(policy=policy, timeout_ms=timeout_ms, target=target, context=context)
        ended: TurnEndResult = self.call("turn/end", timeout=timeout, **fields, **common)
        return ended
