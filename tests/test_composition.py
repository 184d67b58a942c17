"""Values that the daemon is composed of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from haftd import composition
from haftd.composition import _find_backend_problems
from haftd.config.inquiry_settings import InquiryCommand, InquirySettings, LlmSettings

COMMAND = {
    None: None,
    "found": InquiryCommand(argv=("sh", "-c")),
    "missing": InquiryCommand(argv=("/no/sh",)),
}
MODEL = {
    None: None,
    "keyless": LlmSettings(provider="ollama", model="m", url="http://h", is_default_url=True),
    "keyed": LlmSettings(
        provider="openai", model="m", url="http://h", is_default_url=True, key_env="KEY"
    ),
}


@pytest.mark.parametrize("has_client", [True, False])
@pytest.mark.parametrize("model", MODEL)
@pytest.mark.parametrize("command", COMMAND)
@pytest.mark.parametrize("backends", [("client",), ("command", "llm"), ("llm",), ("command",)])
def test_a_backend_that_is_used_and_cannot_answer_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
    backends: tuple[str, ...],
    command: str | None,
    model: str | None,
    has_client: bool,
) -> None:
    monkeypatch.setattr(composition, "_has_http_client", lambda: has_client)
    inquiry = InquirySettings(backends=backends, command=COMMAND[command], llm=MODEL[model])
    parts = SimpleNamespace(
        environ={"PATH": "/bin:/usr/bin"}, paths=SimpleNamespace(config="/c/config.toml")
    )
    problems = _find_backend_problems(cast(Any, parts), cast(Any, SimpleNamespace(inquiry=inquiry)))
    expected = []
    if "command" in backends and command == "missing":
        expected.append(("inquiry.command.argv", "/no/sh"))
    if "llm" in backends and model is not None:
        if not has_client:
            expected.append(("inquiry.llm", "the HTTP client is not installed"))
        elif model == "keyed":
            expected.append(("inquiry.llm", "KEY"))
    assert [problem.key for problem in problems] == [key for key, _ in expected]
    for problem, (_, words) in zip(problems, expected, strict=True):
        assert problem.file == "/c/config.toml" and words in problem.message
