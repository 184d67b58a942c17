"""The wire is what it was: the conversation is answered as recorded, but for times, ids and wording."""

from __future__ import annotations

import json

from haft_protocol.errors import CODES
from haft_protocol.methods import METHODS

from .record import RECORDED, record
from .recording import comparable, joined

WITHOUT_A_CLIENT = {
    "internal_error",
    "not_authorized",
    "limit_exceeded",
    "shutting_down",
    "unsupported_runtime",
}
"""Kinds of errors that take more than a client and its own mistakes."""


def test_the_conversation_is_answered_as_recorded() -> None:
    said = record()
    for number, (now, then) in enumerate(
        zip(said.splitlines(), RECORDED.read_text().splitlines(), strict=False), 1
    ):
        assert now == then, f"message {number}; meant so? then run `python -m tests.conversation`"
    assert said == RECORDED.read_text()


def test_every_method_and_every_error_of_a_client_is_in_the_conversation() -> None:
    text = RECORDED.read_text()
    sent = {
        message["method"]
        for line in map(json.loads, text.splitlines())
        for message in (
            [line.get("sent")] if isinstance(line.get("sent"), dict) else line.get("sent", [])
        )
        if message and "method" in message
    }
    noted = {"rpc.discover", "daemon/status", "approvals/list"}
    assert set(METHODS) - sent - noted == set()
    assert all(f'"{kind}"' in text for kind in CODES.keys() - WITHOUT_A_CLIENT)


def test_wording_times_and_paths_are_not_compared_and_all_else_is() -> None:
    message = {"message": "No.", "at": 1.5, "path": "/tmp/x/a", "id": "a", "n": 3, "pid": None}
    assert comparable(message, "/tmp/x") == {
        "message": "<text>",
        "at": "<float>",
        "path": "<folder>/a",
        "id": "a",
        "n": 3,
        "pid": None,
    }


def test_output_is_the_same_in_however_many_pieces_it_came() -> None:
    def pushed(start: int, data: str) -> dict[str, object]:
        params = {"id": "a", "start": start, "cursor": start + len(data), "data": data}
        return {"method": "handle/output", "params": params}

    assert joined([pushed(0, "ab"), pushed(2, "c")]) == joined([pushed(0, "abc")])


def test_a_notification_and_the_state_beside_it_have_one_order() -> None:
    state = {"method": "handle/state", "params": {"id": "a"}}
    notification = {"method": "session/notification", "params": {"id": "a"}}
    reply = {"id": 1, "result": {}}
    assert joined([state, notification, reply]) == [notification, state, reply]
    assert joined([notification, state, reply]) == [notification, state, reply]
