from __future__ import annotations

import json

from haft_protocol.errors import CODES
from haft_protocol.methods import METHODS

from .comparable import comparable, joined
from .record import RECORDED, record

WITHOUT_A_CLIENT = {
    "internal_error",
    "not_authorized",
    "limit_exceeded",
    "shutting_down",
    "unsupported_runtime",
}
"""Kinds of errors that take more than a client and its own mistakes."""


def test_the_conversation_is_answered_as_recorded() -> None:
    recording = record()
    for number, (now, then) in enumerate(
        zip(recording.splitlines(), RECORDED.read_text().splitlines(), strict=False), 1
    ):
        assert now == then, f"message {number}; meant so? then run `python -m tests.conversation`"
    assert recording == RECORDED.read_text()


def test_the_conversation_covers_every_method_and_client_error() -> None:
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


def test_only_wording_times_and_paths_are_not_compared() -> None:
    message = {"message": "No.", "at": 1.5, "path": "/tmp/x/a", "id": "a", "n": 3, "pid": None}
    assert comparable(message, "/tmp/x") == {
        "message": "<text>",
        "at": "<float>",
        "path": "<folder>/a",
        "id": "a",
        "n": 3,
        "pid": None,
    }


def test_output_is_compared_independently_of_its_pieces() -> None:
    def pushed(start: int, data: str) -> dict[str, object]:
        params = {"id": "a", "start": start, "cursor": start + len(data), "data": data}
        return {"method": "handle/output", "params": params}

    assert joined([pushed(0, "ab"), pushed(2, "c")]) == joined([pushed(0, "abc")])


def test_a_notification_and_its_state_have_one_order() -> None:
    state = {"method": "handle/state", "params": {"id": "a"}}
    notification = {"method": "session/notification", "params": {"id": "a"}}
    reply = {"id": 1, "result": {}}
    assert joined([state, notification, reply]) == [notification, state, reply]
    assert joined([notification, state, reply]) == [notification, state, reply]
