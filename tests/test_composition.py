"""Values that the daemon is composed of."""

from __future__ import annotations

import site
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from haftd import composition
from haftd.composition import _find_backend_problems, _list_installation, _programs
from haftd.config.inquiry_settings import InquiryCommand, InquirySettings, LlmSettings
from haftd.executions.calls import find_askpass


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_users_site_packages_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    """Python looks there before the installation, so a tool could plant a module for the next start."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", is_enabled)
    monkeypatch.setattr(site, "USER_SITE", "/home/me/.local/lib/python3/site-packages")
    assert (str(site.USER_SITE) in list(_list_installation())) is is_enabled


@pytest.mark.parametrize("place", ["executable", "argv"])
def test_the_programs_beside_the_interpreter_or_the_script_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    names = ("haft", "haftd", "haft-askpass")
    for name in names:
        (tmp_path / name).touch(mode=0o755)
    program = str(tmp_path / "haftd")
    monkeypatch.setattr(sys, "executable", program if place == "executable" else "/none/python")
    monkeypatch.setattr(sys, "argv", ["haftd" if place == "executable" else program, "--socket"])
    assert {str(tmp_path / name) for name in names} <= set(_list_installation())
    assert find_askpass(_programs()) == str(tmp_path / "haft-askpass")


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
