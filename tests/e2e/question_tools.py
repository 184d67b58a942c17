"""Tools that ask, and a client that can be asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tests.e2e.session_clients import AskedClient

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


class Client(AskedClient):
    """A connection that can be asked, by a name, in a session."""

    capability = "inquiry"

    def reply(self, request: Mapping[str, Any], answer: object) -> None:
        """Answer a request of the daemon."""
        self.result(request, {"answer": answer})


Join = Callable[..., Client]
