"""Tools that ask, and a client that can be asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tests.running import RunningDaemon
from tests.wire import Wire

_ASKS = """
import json, os
call = json.loads(os.environ["HAFT_CALL"])["tool"]
for question in json.loads(os.environ["ASKS"]):
    if question["id"] not in call["answers"]:
        raise SystemExit(print(json.dumps({"type": "needs_input", "question": question})))
print(json.dumps({"type": "success", "content": json.dumps(call["answers"], sort_keys=True)}))
"""


def asking(id: str, kind: object = "Boolean", text: str = "") -> dict[str, Any]:
    """Return a question as a tool writes it."""
    return {"id": id, "text": text or f"{id}?", "answer_type": kind}


def tool(name: str, *questions: Mapping[str, Any], more: str = "", stateful: bool = False) -> str:
    """Return the definition of a tool that asks questions in order and prints its answers as
    JSON."""
    parameters = "" if "parameters" in more else "parameters = {}"
    asks = json.dumps(json.dumps(questions))
    return f"""
[tools.{name}]
source = "local"
stateful = {str(stateful).lower()}
output = "outcome"
{parameters}
command = ["{sys.executable}", "-I", "-S", "-c", '''{_ASKS}''']
env = {{ ASKS = {asks} }}
{more}
"""


class Client(Wire):
    """A connection that can be asked, by a name, in a session."""

    def __init__(
        self, daemon: RunningDaemon, name: str = "host", session: str = "s", *, able: bool = True
    ) -> None:
        super().__init__(daemon.socket)
        self.session = session
        self.call(
            "initialize",
            client={"name": name},
            protocol=1,
            session=session,
            capabilities={"inquiry": able},
        )

    def __enter__(self) -> Client:
        return self

    def asked(self) -> Any:
        """The next request of the daemon."""
        return self.told("inquiry/ask")

    def reply(self, request: Mapping[str, Any], answer: object) -> None:
        """Answer a request of the daemon."""
        self.result(request, {"answer": answer})

    def result(self, request: Mapping[str, Any], result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Mapping[str, Any], code: int, message: str = "no") -> None:
        error = {"code": code, "message": message}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def is_asked_nothing(self) -> bool:
        """Return true if the client has had no request so far."""
        for _ in range(5):
            self.call("ping")
            self.call("handles/list")
        return not any("method" in message for message in self._kept)
