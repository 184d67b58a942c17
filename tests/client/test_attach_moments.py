"""Moments of an attach that only a fake daemon can hold."""

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


class Acting:
    """A daemon with one handle on a terminal; subclasses implement `apply`."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.state = running("h")
        self.picture = "before"
        self.waiting: list[tuple[Any, Peer]] = []
        self.given: list[tuple[object, object]] = []
        self.daemon = FakeDaemon(path, lambda request, peer: hello(request) or self(request, peer))
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HAFT_", "XDG_"))}
        self.env = env | {"HAFT_SOCKET": str(path)}

    def __call__(self, request: dict[str, Any], peer: Peer) -> Any:
        with self.lock:
            params = request["params"]
            if request["method"] == "apply":
                self.given.append((params["input"], params.get("question")))
                return self.apply(request, peer)
            if params.get("view") == "screen":
                screen = {"rows": 24, "cols": 80, "cursor": [0, 0], "alt": False, "scrollback": 0}
                return self.state | {"screen": screen | {"title": "", "revision": 1, "lines": []}}
            if params.get("view") == "paint":
                return self.state | {"content": encoded(self.picture)}
            if params.get("wait") == "output" and self.state["state"] == "running":
                self.waiting.append((request, peer))
                return LATER
            return self.state

    def apply(self, request: dict[str, Any], peer: Peer) -> Any:
        raise NotImplementedError

    def attach(self) -> Person:
        place: Any = SimpleNamespace(env=self.env)
        return Person(place, "h")


class Asking(Acting):
    """Ask a question at the very moment of typing."""

    def apply(self, request: dict[str, Any], peer: Peer) -> Any:
        answer = request["params"]["input"]
        if self.picture == "before" and self.state["state"] == "running":
            self.state = running("h", question=QUESTION) | {"state": "waiting"}
            for waits, whose in self.waiting:
                whose.reply(waits, self.state | {"waited": "input"})
        if self.state["state"] == "waiting":
            if answer is not True:
                raise Refuse(-32011, "invalid_answer", "It takes true or false.")
            self.state, self.picture = running("h"), "after"
        return self.state


def test_text_typed_for_the_program_answers_no_question_and_is_typed_afterwards(
    short_tmp: Path,
) -> None:
    asking = Asking(short_tmp / "s")
    try:
        with asking.attach() as person:
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


class Picky(Acting):
    """Delay the first text, and refuse any text with a `!`."""

    first: tuple[Any, Peer] | None = None

    def apply(self, request: dict[str, Any], peer: Peer) -> Any:
        if self.first is None:
            self.first = request, peer
            return LATER
        if "!" in request["params"]["input"]["text"]:
            raise Refuse(-32004, "action_not_supported", "Not this one.")
        return self.state


def test_only_the_refused_line_of_several_is_not_typed(short_tmp: Path) -> None:
    picky = Picky(short_tmp / "s")
    try:
        with picky.attach() as person:
            person.until("before")
            person.type("a")
            person.until(lambda: picky.first)
            person.type("one\r!\rthree\r" + "\x1c?")
            person.until("detaches")  # so all of it has been read
            assert picky.first is not None
            request, peer = picky.first
            peer.reply(request, picky.state)
            person.until("Not this one.")
            assert b"\a" in person.drawn
            person.until(lambda: len(picky.given) == 5)
            person.type(b"\x1cd")
            assert person.ends() == 0
    finally:
        picky.daemon.close()
    texts = [given["text"] for given, _ in picky.given if isinstance(given, dict)]
    assert texts == ["a", "one\r!\rthree\r", "one\r", "!\r", "three\r"]
