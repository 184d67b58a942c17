"""A client that can be asked to approve, and a session's audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.session_clients import AskedClient
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused


class Host(AskedClient):
    """A connection in a session, that can be asked to approve, or cannot."""

    capability = "approval"

    def say(self, request: Any, decision: str, **more: Any) -> None:
        self.result(request, {"decision": decision, **more})

    def spawn(self, tool: str, id: str = "h", **more: Any) -> int:
        args = more.pop("args", {"text": "hello"})
        return self.start("spawn", tool=tool, id=id, args=args, **{"wait": "output"} | more)

    def waiting(self) -> list[Any]:
        found: list[Any] = self.call("approvals/list")["approvals"]
        return found

    def one_waiting(self) -> Any:
        """Return the single pending approval, once there is one."""
        until(lambda: len(self.waiting()) == 1, "an approval that waits")
        return self.waiting()[0]

    def decide(self, approval: Any, decision: str, **more: Any) -> Any:
        return self.call(
            "approvals/decide", approval_id=approval["approval_id"], decision=decision, **more
        )

    def states(self) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self.call("handles/list")["handles"]}

    def refused(self, number: int) -> Refused:
        with pytest.raises(Refused) as caught:
            self.finish(number)
        return caught.value


Join = Callable[..., Host]


def records(daemon: RunningDaemon, session: str) -> list[dict[str, Any]]:
    lines = (daemon.state / "haft" / "audit.jsonl").read_text().splitlines()
    found = (json.loads(line) for line in lines)
    return [
        one for one in found if one.get("session") == session and one["event"] != "session/close"
    ]
