"""`requestState`: signed, for one call, for an hour, and good once."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest

from haft.mcp.request_state import MAX_AGE_S, InvalidState, State, sign_state, verify_state
from tests.mcp.conftest import Open
from tests.mcp.host import Legacy, McpError, Modern, text_of

KEY = secrets.token_bytes(32)
CALL = ["ask_user", {"question": "Sure?"}, "mcp.repo.1"]
STATE = State(1_000_000.0, "ask_user-1", "tool_call.ask_user.c1", "answer")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the time."""

    def set_time(at: float) -> None:
        monkeypatch.setattr("haft.mcp.request_state.time.time", lambda: at)

    set_time(STATE.at)
    return set_time


def is_broken(text: str, key: bytes = KEY, call: object = CALL) -> bool:
    try:
        verify_state(key, text, call)
    except InvalidState:
        return True
    return False


def test_a_state_opens_for_its_call_alone(now: Any) -> None:
    sealed = sign_state(KEY, STATE, CALL)
    assert verify_state(KEY, sealed, CALL) == STATE
    assert is_broken(sealed, key=secrets.token_bytes(32))
    for other in (
        ["run", *CALL[1:]],
        [CALL[0], {"question": "Sure!"}, CALL[2]],
        [*CALL[:2], "mcp"],
    ):
        assert is_broken(sealed, call=other)


@pytest.mark.parametrize("change", ["\n", "AAAA"])
def test_a_state_that_was_not_given_for_the_call_is_refused_in_one_sentence(
    now: Any, change: str
) -> None:
    """Also for characters that the decoder of base64 ignores."""
    sealed = sign_state(KEY, STATE, CALL)
    with pytest.raises(InvalidState, match="not one that haft mcp gave for this call"):
        verify_state(KEY, sealed + change, CALL)


def test_no_flipped_byte_is_taken(now: Any) -> None:
    sealed = urlsafe_b64decode(sign_state(KEY, STATE, CALL))
    for at in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[at] ^= 1 << bit
            assert is_broken(urlsafe_b64encode(changed).decode()), f"byte {at}, bit {bit}"


def test_no_changed_character_and_no_other_length_is_taken(now: Any) -> None:
    """Also where the decoded bytes are the same: padding, and letters that base64 passes over."""
    sealed = sign_state(KEY, STATE, CALL)
    for at in range(len(sealed)):
        assert is_broken(sealed[:at]) and is_broken(sealed[at + 1 :])
        for letter in ("A", "B", "\n", " ", "=", "é", "\0", ""):
            text = sealed[:at] + letter + sealed[at + 1 :]
            assert text == sealed or is_broken(text)
            assert letter == "" or is_broken(sealed[:at] + letter + sealed[at:])
    assert is_broken(sealed + sealed) and is_broken(sealed + "=")


@pytest.mark.parametrize(
    ("age", "is_good"), [(0, True), (MAX_AGE_S, True), (MAX_AGE_S + 1, False), (-1, False)]
)
def test_a_state_is_good_for_an_hour(now: Any, age: float, is_good: bool) -> None:
    sealed = sign_state(KEY, STATE, CALL)
    now(STATE.at + age)
    assert is_broken(sealed) is not is_good


SURE = {"question": "Sure?", "type": "boolean"}
REALLY = {"question": "Really?", "type": "boolean"}


def test_the_state_of_another_question_answers_nothing(host: Open) -> None:
    client = host(Modern)
    sure, really = (
        client.request("tools/call", name="ask_user", arguments=asked) for asked in (SURE, REALLY)
    )
    for asked, arguments in ((really, SURE), (sure, REALLY)):
        with pytest.raises(McpError, match="-32602: `requestState`: the state is not one"):
            client.retry("ask_user", arguments, asked, {"answer": True})
    listed = client.call("handle_list").splitlines()
    assert len(listed) == 2 and all(": asks, " in line for line in listed)


def test_a_replayed_state_gives_the_result_again_and_changes_nothing(host: Open) -> None:
    client = host(Modern)
    asked = client.request("tools/call", name="ask_user", arguments=SURE)
    first = client.retry("ask_user", SURE, asked, {"answer": True})
    assert text_of(first).endswith("\ntrue")
    again = client.retry("ask_user", SURE, asked, {"answer": False})
    assert text_of(again).endswith("\ntrue") and not again.get("isError")
    # A newer question of the same tool and the same words is not answered by the state of the older.
    newer = client.request("tools/call", name="ask_user", arguments=SURE)
    client.retry("ask_user", SURE, asked, {"answer": False})
    (open_handle,) = [
        line for line in client.call("handle_list").splitlines() if ": asks, " in line
    ]
    assert text_of(client.retry("ask_user", SURE, newer, {"answer": True})).endswith("\ntrue"), (
        open_handle
    )


def test_an_invalid_answer_is_asked_again_twice_and_then_reported(host: Open) -> None:
    modern = host(Modern)
    result = modern.request("tools/call", name="ask_user", arguments=SURE)
    messages = []
    while result["resultType"] == "input_required":
        messages.append(result["inputRequests"]["answer"]["params"]["message"])
        result = modern.retry("ask_user", SURE, result, {"answer": "maybe"})
    assert messages[0] == "Sure?" and len(messages) == 3
    assert all("The previous answer was not valid: " in message for message in messages[1:])
    legacy = host(Legacy)
    text = legacy.ask("ask_user", REALLY, {"answer": "maybe"})
    asked = [message for message in legacy.seen if message.get("method") == "elicitation/create"]
    assert len(asked) == 3
    for reply in (text, text_of(result)):
        first, *rest = reply.splitlines()
        assert first.startswith("[the host's answers were refused 3 times, the last one with: ")
        assert "asks" in rest[0]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refused_form_is_not_shown_again_and_leaves_the_question_open(
    host: Open, action: str
) -> None:
    client = host(Modern)
    asked = client.request("tools/call", name="ask_user", arguments=SURE)
    result = client.request(
        "tools/call",
        name="ask_user",
        arguments=SURE,
        inputResponses={key: {"action": action} for key in asked["inputRequests"]},
        requestState=asked["requestState"],
    )
    assert result["resultType"] == "complete"
    assert "haft answer" in text_of(result)
    assert ": asks, " in client.call("handle_list")
