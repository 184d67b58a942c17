"""The fate of a request: retried, after a pause, or failed for good."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from haftd.config.inquiry_settings import LlmSettings
from haftd.inquiries.llm.retry import GiveUp, Outcome, Pause, Received, Unsent, decide
from tests.effort import examples

NOW = 1_795_843_000.0  # Sat, 28 Nov 2026 05:16:40 GMT


def settings(attempts: int = 4) -> LlmSettings:
    return LlmSettings(
        provider="openai",
        model="m",
        url="https://example.org",
        is_default_url=False,
        key_env="K",
        attempts=attempts,
    )


def decided(outcome: Outcome, tries: int = 1, chance: float = 1.0, attempts: int = 4) -> Any:
    return decide(outcome, settings(attempts), tries=tries, chance=chance, now=NOW)


def received(status: int, body: bytes = b"", /, **headers: Any) -> Received:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Received(status, named, body)


def test_a_reply_is_parsed() -> None:
    assert decided(received(200)) is None


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_a_transient_error_is_retried(status: int) -> None:
    assert isinstance(decided(received(status)), Pause)


@pytest.mark.parametrize("status", [201, 204, 301, 307, 400, 401, 403, 404, 413, 422])
def test_a_permanent_error_is_not_retried(status: int) -> None:
    assert isinstance(decided(received(status)), GiveUp)


def test_the_pause_doubles_up_to_a_bound_and_half_of_it_is_random() -> None:
    pauses = [decided(Unsent("broke off"), tries, attempts=20).seconds for tries in range(1, 10)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert decided(Unsent("broke off"), 3, chance=0.0).seconds == 1.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "60"}, 60.0),
        ({"retry_after": "0"}, 0.5),
        ({"retry_after_ms": "2500", "retry_after": "3"}, 2.5),
        ({"retry_after": "Sat, 28 Nov 2026 05:16:50 GMT"}, 10.0),
        ({"retry_after": "Sat, 28 Nov 2020 05:16:50 GMT"}, 0.5),
        ({"retry_after": "soon"}, 0.5),
        ({"retry_after": "-5"}, 0.5),
        ({"retry_after": "1e9"}, 0.5),
        ({"retry_after": "9" * 400}, 0.5),
    ],
)
def test_a_requested_pause_is_respected(headers: dict[str, str], seconds: float) -> None:
    assert decided(received(429, **headers)) == Pause(seconds)


def test_a_requested_pause_over_a_minute_is_not_waited_for() -> None:
    end = decided(received(429, retry_after="3600"))
    assert isinstance(end, GiveUp) and "3600 s" in end.why


def test_attempts_are_bounded() -> None:
    assert isinstance(decided(received(503), 3), Pause)
    end = decided(received(503, b'{"error": {"type": "overloaded_error"}}'), 4)
    assert end == GiveUp("the model's server answered with HTTP 503 overloaded_error, 4 times")
    assert decided(Unsent("broke off (X)"), 1, attempts=1) == GiveUp(
        "the model's server broke off (X)"
    )


@effort(max_examples=examples(16))
@given(
    status=st.sampled_from([200, 429, 503]) | st.integers(100, 599),
    body=st.binary(max_size=50) | st.sampled_from([b'{"error": 3}', b'{"error": {"code": "a1"}}']),
    after=st.sampled_from(["7", "60", "61", "0"]) | st.text(max_size=30),
    tries=st.integers(1, 30),
    chance=st.floats(0, 1),
)
@example(status=200, body=b"", after="", tries=1, chance=0.0)
@example(status=429, body=b"", after="60", tries=19, chance=0.0)
@example(status=503, body=b"", after="", tries=20, chance=1.0)
def test_any_sequence_of_replies_ends_in_a_decision(
    status: int, body: bytes, after: str, tries: int, chance: float
) -> None:
    outcome = Received(status, {"retry-after": after}, body)
    decision = decide(outcome, settings(20), tries=tries, chance=chance, now=NOW)
    if isinstance(decision, Pause):
        assert 0 < decision.seconds <= 60 and tries < 20
    elif decision is None:
        assert status == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "canary", "code": "sk-canary-1"}}',
        b'{"error": {"type": "the canary is a sentence"}}',
        b'{"error": "canary"}',
        b"canary",
    ],
)
def test_messages_contain_only_plain_words_of_a_body(body: bytes) -> None:
    for status in (400, 401, 404, 503):
        end = decided(received(status, body), 4)
        assert isinstance(end, GiveUp) and "canary" not in end.why and str(status) in end.why
