"""What the host of an assistant calls, once for the plain client and once for the one on trio.

Rules: the two say the same; a test holds them to it. Sections 5 and 7 of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from haft_protocol.methods import NoticesResult, TurnEndResult, TurnResult
from haft_protocol.states import Notice

from .requests import Common, given

__all__ = ["Hosting", "HostingOnTrio"]


class Hosting:
    """Of the plain client."""

    def call(self, method: str, /, *, timeout: float | None = None, **params: object) -> Any:
        """Call a method; see `client`."""
        raise NotImplementedError

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
        """Call a tool as an assistant does: a verb by `action` in its arguments, else a run to the
        end, which is ended when this call is. `context` goes along with the tool's questions.
        Without `timeout` it may take as long as it likes."""
        fields = given(arguments=arguments, call_id=call_id, context=context, env=env)
        result: dict[str, Any] = self.call(
            "tools/call", timeout=timeout, tool=tool, **fields, **common
        )
        return result

    def notices(
        self, *, timeout: float | None = None, **common: Unpack[Common]
    ) -> tuple[Notice, ...]:
        """Take what the session has not seen; it rides on the next `call_tool` otherwise."""
        drained: NoticesResult = self.call("notifications/drain", timeout=timeout, **common)
        return drained.notifications

    def begin_turn(self, *, timeout: float | None = None, **common: Unpack[Common]) -> int:
        """Begin a turn of the session and return its number."""
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
        """End the turn, and what is not to outlast it; `target` and `context` are for who is asked."""
        fields = given(policy=policy, timeout_ms=timeout_ms, target=target, context=context)
        ended: TurnEndResult = self.call("turn/end", timeout=timeout, **fields, **common)
        return ended


class HostingOnTrio:
    """Of the client on trio."""

    async def call(self, method: str, /, **params: object) -> Any:
        """Call a method; see `aio`."""
        raise NotImplementedError

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
        """Call a tool as an assistant does: a verb by `action` in its arguments, else a run to the
        end, which is ended with the task that waits for it. `context` goes along with questions."""
        fields = given(arguments=arguments, call_id=call_id, context=context, env=env)
        result: dict[str, Any] = await self.call("tools/call", tool=tool, **fields, **common)
        return result

    async def notices(self, **common: Unpack[Common]) -> tuple[Notice, ...]:
        """Take what the session has not seen; it rides on the next `call_tool` otherwise."""
        drained: NoticesResult = await self.call("notifications/drain", **common)
        return drained.notifications

    async def begin_turn(self, **common: Unpack[Common]) -> int:
        """Begin a turn of the session and return its number."""
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
        """End the turn, and what is not to outlast it; `target` and `context` are for who is asked."""
        fields = given(policy=policy, timeout_ms=timeout_ms, target=target, context=context)
        ended: TurnEndResult = await self.call("turn/end", **fields, **common)
        return ended
