"""A question that comes up while somebody types: against a fake daemon, where that moment can be held."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.client.fake import LATER, FakeDaemon, Peer, Refuse, hello, running
from tests.client.person import Person

QUESTION = {"id": "q.1", "text": "Sure?", "answer_type": {"type": "boolean"}}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Asking:
    """A handle that asks its question at the very moment at which something is typed."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.asks = False
        self.answered = False
        self.waiting: list[tuple[Any, Peer]] = []
        self.given: list[tuple[object, object]] = []
        self.daemon = FakeDaemon(path, lambda request, peer: hello(request) or self(request, peer))

    @property
    def state(self) -> dict[str, Any]:
        if self.asks:
            return running("h", question=QUESTION) | {"state": "waiting"}
        return running("h")

    def __call__(self, request: dict[str, Any], peer: Peer) -> Any:
        with self.lock:
            params = request["params"]
            if request["method"] == "apply":
                return self.apply(params)
            if params.get("view") == "screen":
                screen = {"rows": 24, "cols": 80, "cursor": [0, 0], "alt": False, "scrollback": 0}
                return self.state | {"screen": screen | {"title": "", "revision": 1, "lines": []}}
            if params.get("view") == "paint":
                return self.state | {"content": encoded("after" if self.answered else "before")}
            if params.get("wait") == "output" and not self.asks:
                self.waiting.append((request, peer))
                return LATER
            return self.state

    def apply(self, params: dict[str, Any]) -> Any:
        self.given.append((params["input"], params.get("question")))
        if not self.answered and not self.asks:
            self.asks = True
            for request, peer in self.waiting:
                peer.reply(request, self.state | {"waited": "input"})
        if self.asks:
            if params["input"] is not True:
                raise Refuse(-32011, "invalid_answer", "It takes true or false.")
            self.asks, self.answered = False, True
        return self.state


def test_what_was_typed_for_the_program_answers_no_question_and_is_typed_afterwards(
    short_tmp: Path,
) -> None:
    asking = Asking(short_tmp / "s")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HAFT_", "XDG_"))}
    place: Any = SimpleNamespace(env=env | {"HAFT_SOCKET": str(short_tmp / "s")})
    try:
        with Person(place, "h") as person:
            person.until("before")
            person.type("yes")
            person.until("Sure? [yes/no]")
            person.type("maybe\r")
            person.until("yes or no")
            person.type("yes\r")
            person.until("after")
            person.until(lambda: len(asking.given) == 3)
            person.type(b"\x1cd")
            assert person.ends() == 0
    finally:
        asking.daemon.close()
    assert asking.given == [({"text": "yes"}, None), (True, "q.1"), ({"text": "yes"}, None)]
