"""The provider's view of a conversation: open calls, replies, accepted forms."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from haft_protocol.inquiries import Inquiry, schema
from haft_protocol.questions import AnswerType, Boolean, Select, Text
from haftd.config.inquiry_settings import ProviderName
from haftd.inquiries.llm.backend import _PROVIDERS, LlmBackend
from haftd.inquiries.llm.provider import (
    Conversation,
    Exchange,
    OpenCall,
    Turn,
    find_paused,
    fit,
    read_context,
)
from haftd.schemas import expose_names
from tests.schemas.provider_judges import refusals

from .recorded_conversations import NAMES, Recorded, recorded
from .request_judges import judge
from .scripted_provider import Asked

PAUSED = "Tool paused: Create backup files?"
RUNNING = "Still running."


def call(provider: str, id: str, name: str) -> dict[str, Any]:
    """Return a call as in a message of the model."""
    match provider:
        case "openai":
            return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        case "anthropic":
            return {"type": "tool_use", "id": id, "name": name, "input": {}}
        case "google":
            return {"functionCall": {"id": id, "name": name, "args": {}}}
        case _:
            return {"id": id, "function": {"name": name, "arguments": {}}}


def turn(provider: str, *calls: dict[str, Any]) -> dict[str, Any]:
    """The model's message with these calls."""
    match provider:
        case "anthropic":
            return {"role": "assistant", "content": list(calls)}
        case "google":
            return {"role": "model", "parts": list(calls)}
        case _:
            return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def result(provider: str, id: str, name: str) -> dict[str, Any]:
    """Return the message with one result."""
    match provider:
        case "openai":
            return {"role": "tool", "tool_call_id": id, "content": "done"}
        case "anthropic":
            block = {"type": "tool_result", "tool_use_id": id, "content": "done"}
            return {"role": "user", "content": [block]}
        case "google":
            response = {"id": id, "name": name, "response": {"output": "done"}}
            return {"role": "user", "parts": [{"functionResponse": response}]}
        case _:
            return {"role": "tool", "tool_name": name, "tool_call_id": id, "content": "done"}


def begun(said: Recorded) -> list[dict[str, Any]]:
    """The messages of the conversation before any call."""
    key = "contents" if said.provider == "google" else "messages"
    return copy.deepcopy(said.asks("opens")[key])


def sent(said: Recorded, context: Any) -> dict[str, Any]:
    """Return the request body for this context; the provider would accept the body, and the
    context is unchanged."""
    before = copy.deepcopy(context)
    settings = said.settings("http://127.0.0.1:1")
    backend = LlmBackend(settings, {})
    inquiry = said.pending(context=context).kind.make_message()
    assert isinstance(inquiry, Inquiry)
    exchange = backend._make_exchange(inquiry, "modify_file", read_context(context))
    request = _PROVIDERS[said.provider].make_request(settings, None, exchange)
    assert context == before
    path = settings.url.removeprefix("http://127.0.0.1:1") + request.path
    headers = {"content-type": "application/json", **request.headers}
    assert judge(said.provider, key=None)(Asked("POST", path, headers, request.body)) == []
    return request.body


@pytest.fixture(params=NAMES)
def said(request: pytest.FixtureRequest) -> Recorded:
    provider: ProviderName = request.param
    return recorded(provider)


def test_each_open_call_of_the_turn_gets_a_reply(said: Recorded) -> None:
    own = said.said["call"]
    calls = [
        call(said.provider, "call_a", "other"),
        call(said.provider, own, "modify_file"),
        call(said.provider, "call_b", "modify_file"),
    ]
    messages = [*begun(said), turn(said.provider, *calls)]
    body = sent(said, {"messages": messages, "tools": said.wrapped()})
    key = "contents" if said.provider == "google" else "messages"
    assert body[key][: len(messages)] == messages
    texts = _behind(said, body, messages)
    assert texts[:3] == [RUNNING, PAUSED, RUNNING] and len(texts) == 4


def test_a_call_with_a_result_gets_no_other(said: Recorded) -> None:
    own = said.said["call"]
    calls = [call(said.provider, own, "modify_file"), call(said.provider, "call_a", "other")]
    messages = [
        *begun(said),
        turn(said.provider, *calls),
        result(said.provider, "call_a", "other"),
    ]
    body = sent(said, {"messages": messages, "tools": said.wrapped()})
    key = "contents" if said.provider == "google" else "messages"
    assert body[key][: len(messages) - 1] == messages[:-1]
    texts = _behind(said, body, messages[:-1])
    assert texts[:2] == ["done", PAUSED] and len(texts) == 3


def test_a_result_with_a_text_behind_it_keeps_its_place() -> None:
    """Anthropic wants all results of a turn before any text."""
    recording = recorded("anthropic")
    calls = [
        call("anthropic", recording.said["call"], "modify_file"),
        call("anthropic", "a", "other"),
    ]
    given = result("anthropic", "a", "other")
    given["content"].append({"type": "text", "text": "Go on."})
    messages = [*begun(recording), turn("anthropic", *calls), given]
    last = sent(recording, {"messages": messages, "tools": recording.wrapped()})["messages"][-1]
    assert [block["type"] for block in last["content"]] == ["tool_result"] * 2 + ["text"] * 2


def test_a_conversation_without_an_open_call_gets_the_question_only(said: Recorded) -> None:
    messages = begun(said)
    assert len(_behind(said, sent(said, messages), messages)) == 1
    own = said.said["call"]
    closed = [
        *messages,
        turn(said.provider, call(said.provider, own, "modify_file")),
        result(said.provider, own, "modify_file"),
    ]
    body = sent(said, {"messages": closed, "tools": said.wrapped()})
    assert PAUSED not in repr(body) and RUNNING not in repr(body)


def _behind(said: Recorded, body: dict[str, Any], messages: list[Any]) -> list[str]:
    """All texts behind these messages."""
    key = "contents" if said.provider == "google" else "messages"
    before = len(said.context()[key])
    return said.texts({key: [*range(before), *body[key][len(messages) :]]})


def test_a_plain_form_is_accepted_by_each_provider(said: Recorded) -> None:
    """`system`, `user` and `assistant` with a text."""
    plain = [
        {"role": "system", "content": "Be careful."},
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three."},
    ]
    body = sent(said, plain)
    shown = repr(body)
    for text in ("Be careful.", "One.", "Two.", "Three."):
        assert text in shown
    match said.provider:
        case "anthropic":
            assert body["system"] == "Be careful." and body["messages"][:3] == plain[1:]
        case "google":
            assert body["systemInstruction"] == {"parts": [{"text": "Be careful."}]}
            assert [one["role"] for one in body["contents"]] == ["user", "model", "user", "user"]
        case _:
            assert body["messages"][:4] == plain


def test_a_system_message_of_blocks_reaches_anthropics_system() -> None:
    said = recorded("anthropic")
    block = {"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}}
    user = {"role": "user", "content": "One."}
    body = sent(said, [{"role": "system", "content": [block]}, user])
    assert body["system"] == [block] and body["messages"][0] == user
    before = {"role": "system", "content": "Be brief."}
    body = sent(said, [before, {"role": "system", "content": [block]}, user])
    assert body["system"] == [{"type": "text", "text": "Be brief."}, block]


@pytest.mark.parametrize("context", [None, [], {"messages": []}])
def test_without_a_conversation_the_question_goes_alone(said: Recorded, context: Any) -> None:
    body = sent(said, context)
    key = "contents" if said.provider == "google" else "messages"
    assert len(body[key]) == 1 and body[key][0]["role"] == "user" and "tools" not in body


def test_the_contexts_system_prompt_takes_precedence(said: Recorded) -> None:
    """The configuration's `system` applies where the context has none."""
    provider = _PROVIDERS[said.provider]
    settings = said.settings("http://127.0.0.1:1", system="Configured.")

    def told(context: Any) -> str:
        asked = Exchange(read_context(context), (), (Turn("user", "Well?"),), {})
        return repr(provider.make_request(settings, None, asked).body)

    assert "Configured." in told([{"role": "user", "content": "One."}])
    assert "Configured." not in told({"messages": [], "system": "Own."})
    assert "Own." in told({"messages": [], "system": "Own."})
    assert "Configured." not in told([{"role": "system", "content": "Own."}])


def test_a_key_is_in_a_header_and_nowhere_else(said: Recorded) -> None:
    provider, settings = _PROVIDERS[said.provider], said.settings("http://127.0.0.1:1")
    asked = Exchange(Conversation(), (), (Turn("user", "Well?"),), {})
    with_key = provider.make_request(settings, "canary", asked)
    assert "canary" in repr(with_key.headers) and "canary" not in repr(with_key)
    assert "canary" not in repr((with_key.path, with_key.body))
    assert "canary" not in repr(provider.make_request(settings, None, asked).headers)


@pytest.mark.parametrize(("own", "bound"), [(True, "max_completion_tokens"), (False, "max_tokens")])
def test_the_answer_limit_has_each_providers_name(own: bool, bound: str) -> None:
    recording = recorded("openai")
    settings = recording.settings("http://127.0.0.1:1", max_tokens=5, is_default_url=own)
    asked = Exchange(Conversation(), (), (Turn("user", "Well?"),), {})
    body = _PROVIDERS["openai"].make_request(settings, None, asked).body
    assert body[bound] == 5 and sum("tokens" in key for key in body) == 1


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([OpenCall("a", "x"), OpenCall("c", "y")], 1),
        ([OpenCall("a", "x"), OpenCall("b", "my_tool")], 1),
        ([OpenCall(None, "my_tool"), OpenCall(None, "my_tool")], 0),
        ([OpenCall("a", "served__my_tool")], 0),
        ([OpenCall("a", "x"), OpenCall("b", "y")], None),
        ([], None),
    ],
)
def test_the_asking_call_is_found_by_id_then_name_then_alone(
    calls: list[OpenCall], found: int | None
) -> None:
    assert find_paused(calls, "c", "my_tool") == (None if found is None else calls[found])


def test_a_mapped_name_finds_its_call() -> None:
    [shown] = expose_names(["süß"]).values()
    assert find_paused([OpenCall("a", "x"), OpenCall("b", shown)], "c", "süß") is not None
    assert shown != "süß"


@pytest.mark.parametrize(
    "answer_type",
    [
        Boolean(),
        Text(),
        Select(options=("a", "b")),
        Select(options=("a", 1, 2.5, True, None)),
        Select(options=tuple(f"option {n}" for n in range(1_500))),
    ],
    ids=lambda kind: type(kind).__name__,
)
def test_the_schema_of_an_answer_is_accepted_by_the_provider(
    said: Recorded, answer_type: AnswerType
) -> None:
    written = fit(schema("tool_call.x.y", answer_type), said.provider)
    assert refusals(said.provider, "answer", "An answer.", written) == []
    assert set(written["properties"]) == {"inquiry_id", "answer"}
    assert written["properties"]["inquiry_id"]["enum"] == ["tool_call.x.y"]
    assert "const" not in repr(written)


@pytest.mark.parametrize("provider", NAMES)
def test_any_reply_is_parsed_without_an_error(provider: ProviderName) -> None:
    reads = _PROVIDERS[provider].read
    nothing: list[Any] = [None, [], "x", 7, {}, {"choices": [], "content": 3, "candidates": [None]}]
    for junk in nothing:
        assert reads(junk) is None
    odd: list[Any] = [
        {"choices": [{"message": {"content": None}}]},
        {"content": [None, {"type": "text", "text": 3}]},
        {"candidates": [{"content": {"parts": [None, {"text": 3}]}}]},
        {"message": {"content": None}},
    ]
    for body in odd:
        reads(body)


@pytest.mark.parametrize("provider", NAMES)
def test_open_calls_of_any_messages_are_found_without_an_error(
    provider: ProviderName,
) -> None:
    found = _PROVIDERS[provider].find_open_calls
    odd: list[Any] = [
        [],
        [{}],
        [{"role": "tool"}],
        [{"role": "tool", "tool_call_id": {}, "tool_name": []}],
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": []}]}],
        [{"role": "user", "parts": [{"functionResponse": {"id": {}, "name": []}}]}],
        [{"role": "user", "content": [None, 3]}],
        [{"role": "assistant", "tool_calls": [None, {}, {"id": 3}], "content": [None, {}]}],
        [{"role": "assistant", "tool_calls": 3, "content": 3}],
        [{"role": "model", "parts": [None, {"functionCall": 3}, {"functionCall": {"id": []}}]}],
        [{"role": "model", "parts": 3}, {"role": "user", "parts": [{"functionResponse": {}}]}],
    ]
    for messages in odd:
        found(messages)
