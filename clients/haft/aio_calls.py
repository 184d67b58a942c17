"""Typed calls of the client on trio.

`python -m tests.unasync` makes the blocking `calls` from this module: each coroutine becomes a
function with a `timeout`.
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


class AsyncCalls:
    """Methods of the protocol, typed; a client provides `call`."""

    async def call(self, method: str, /, **params: object) -> Any:
        """Call a method by its wire name and return its typed result; raises `RemoteError`."""
        raise NotImplementedError

    async def spawn(
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
        state: HandleState = await self.call("spawn", **fields, **reading)
        return state

    async def fetch(
        self,
        id: str,
        *,
        cursor: int | None = None,
        since_revision: int | None = None,
        reader: Reader | None = None,
        clipboard: bool | None = None,
        styles: bool | None = None,
        **reading: Unpack[Reading],
    ) -> HandleState:
        """Read a handle; with `cursor` from that byte, leaving the session's read offset unchanged.

        `reader` (`for` on the wire) = `terminal` leaves queries out of bytes, and clipboard writes
        unless `clipboard`. `styles` gives a screen's rows as `runs`.
        """
        fields = drop_unset(
            id=id,
            cursor=cursor,
            since_revision=since_revision,
            clipboard=clipboard,
            styles=styles,
        )
        if reader is not None:
            fields["for"] = reader
        state: HandleState = await self.call("fetch", **fields, **reading)
        return state

    async def apply(
        self,
        id: str,
        input: object,
        *,
        question: str | None = None,
        cursor: int | None = None,
        since_revision: int | None = None,
        **reading: Unpack[Reading],
    ) -> HandleState:
        """Give input or an answer; then read as `fetch` does. With `question` the input counts only
        while that question is open."""
        fields = drop_unset(id=id, cursor=cursor, since_revision=since_revision, question=question)
        state: HandleState = await self.call("apply", input=input, **fields, **reading)
        return state

    async def abort(
        self, id: str, *, grace_ms: int | None = None, **common: Unpack[Common]
    ) -> HandleState:
        """End a handle; return when all of its processes have ended."""
        state: HandleState = await self.call(
            "abort", **drop_unset(id=id, grace_ms=grace_ms), **common
        )
        return state

    async def await_(
        self,
        *,
        all: Iterable[str] = (),
        any: Iterable[str] = (),
        timeout_secs: float | None = None,
        **common: Unpack[Common],
    ) -> AwaitResult:
        """Wait until every handle in `all` and one of `any` has stopped."""
        fields = drop_unset(all=ids(all), any=ids(any), timeout_secs=timeout_secs)
        result: AwaitResult = await self.call("await", **fields, **common)
        return result

    async def ping(self) -> PingResult:
        result: PingResult = await self.call("ping")
        return result

    async def handles(self, session: str | None = None) -> tuple[HandleInfo, ...]:
        """List the handles of this session, of the one named, or of all with `*`."""
        return handle_infos(await self.call("handles/list", **drop_unset(session=session)))

    async def search(
        self,
        pattern: str,
        ids: Iterable[str] | None = None,
        *,
        max_matches: int | None = None,
        **common: Unpack[Common],
    ) -> SearchResult:
        """Find lines in the kept output of handles."""
        names = None if ids is None else tuple(ids)
        fields = drop_unset(pattern=pattern, ids=names, max_matches=max_matches)
        result: SearchResult = await self.call("output/search", **fields, **common)
        return result

    async def timeline(
        self,
        id: str,
        *,
        cursor: int | None = None,
        max_points: int | None = None,
        **common: Unpack[Common],
    ) -> TimelineResult:
        """Return when the bytes of a handle's output were printed."""
        fields = drop_unset(id=id, cursor=cursor, max_points=max_points)
        result: TimelineResult = await self.call("output/timeline", **fields, **common)
        return result

    async def tools(self, **common: Unpack[Common]) -> ToolsListResult:
        result: ToolsListResult = await self.call("tools/list", **common)
        return result

    async def reload_tools(self) -> ReloadResult:
        result: ReloadResult = await self.call("tools/reload")
        return result

    async def subscribe(
        self,
        events: Iterable[PushEvent],
        *,
        handles: Iterable[str] | None = None,
        start: Mapping[str, int] | None = None,
        reader: Reader | None = None,
        clipboard: bool | None = None,
        backpressure: bool | None = None,
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
        opened: SubscribeResult = await self.call("subscribe", **fields, **common)
        return opened.subscription

    async def unsubscribe(self, subscription: str) -> None:
        """End a subscription; no push follows the reply."""
        await self.call("unsubscribe", subscription=subscription)

    async def sessions(self) -> SessionListResult:
        result: SessionListResult = await self.call("session/list")
        return result

    async def close_session(self, session: str) -> SessionCloseResult:
        """Close a session and abort its handles."""
        result: SessionCloseResult = await self.call("session/close", session=session)
        return result

    async def status(self) -> StatusResult:
        result: StatusResult = await self.call("daemon/status")
        return result

    async def reload(self) -> ReloadResult:
        result: ReloadResult = await self.call("daemon/reload")
        return result

    async def shutdown(self, policy: str = "abort") -> None:
        """Stop the daemon; `refuse` fails when a handle is live."""
        await self.call("daemon/shutdown", policy=policy)

    async def discover(self) -> dict[str, Any]:
        """Return the OpenRPC document of the protocol."""
        document: dict[str, Any] = await self.call("rpc.discover")
        return document

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        *,
        call_id: str | None = None,
        context: object = None,
        env: Mapping[str, str | None] | None = None,
        **common: Unpack[Common],
    ) -> dict[str, Any]:
        """Call a tool as an assistant does: a verb by `action`, else a run that ends with this call.

        `context` accompanies the tool's questions. The call has no time limit by default.
        """
        fields = drop_unset(arguments=arguments, call_id=call_id, context=context, env=env)
        result: dict[str, Any] = await self.call("tools/call", tool=tool, **fields, **common)
        return result

    async def ask(
        self,
        question: Mapping[str, object],
        *,
        target: str = "user",
        timeout_s: float | None = None,
        **common: Unpack[Common],
    ) -> Answer:
        """Ask the user, a model or the session's other clients a question; return the answer.

        Raises `RemoteError` without an answer.
        """
        fields = drop_unset(question=question, target=target, timeout_s=timeout_s)
        result: InquiriesAskResult = await self.call("inquiries/ask", **fields, **common)
        return result.answer

    async def notices(self, **common: Unpack[Common]) -> tuple[Notice, ...]:
        """Take the session's unread notices; otherwise the next `call_tool` brings them."""
        drained: NoticesResult = await self.call("notifications/drain", **common)
        return drained.notifications

    async def begin_turn(self, **common: Unpack[Common]) -> int:
        begun: TurnResult = await self.call("turn/begin", **common)
        return begun.turn

    async def end_turn(
        self,
        *,
        policy: str | None = None,
        timeout_ms: int | None = None,
        target: str | None = None,
        context: object = None,
        **common: Unpack[Common],
    ) -> TurnEndResult:
        """End the turn and the handles that must not outlast it; `target` and `context` go to the inquiry."""
        fields = drop_unset(policy=policy, timeout_ms=timeout_ms, target=target, context=context)
        ended: TurnEndResult = await self.call("turn/end", **fields, **common)
        return ended
