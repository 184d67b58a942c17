"""`[inquiry.llm]`: model, address, and the place of the key, never the key itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from haftd.config.inquiry_settings import LlmSettings
from haftd.config.options import Paths
from haftd.config.settings import Settings, load_settings
from tests.config.test_settings import places, written

ROOT = Path(__file__).parents[2]
BEGIN = '[inquiry]\nbackends = ["client", "llm"]\n[inquiry.llm]\n'
MODEL = 'provider = "openai"\nmodel = "m"\n'
OLLAMA = 'provider = "ollama"\nmodel = "m"\n'


def read(folder: Path, text: str) -> LlmSettings:
    found, problems = load_settings(written(folder, BEGIN + text))
    assert problems == [] and found.inquiry.backends == ("client", "llm")
    assert found.inquiry.llm is not None
    return found.inquiry.llm


@pytest.mark.parametrize(
    ("provider", "url", "key_env"),
    [
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("google", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
        ("ollama", "http://127.0.0.1:11434", None),
    ],
)
def test_a_provider_and_a_model_suffice(
    tmp_path: Path, provider: str, url: str, key_env: str | None
) -> None:
    llm = read(tmp_path, f'provider = "{provider}"\nmodel = "m"\n')
    assert (llm.provider, llm.model, llm.url, llm.key_env) == (provider, "m", url, key_env)
    assert (llm.key_file, llm.timeout_s, llm.attempts) == (None, 120.0, 4)
    assert (llm.max_tokens, llm.system, llm.is_default_url) == (None, "", True)


def test_a_providers_key_is_not_sent_to_another_address(tmp_path: Path) -> None:
    llm = read(tmp_path, MODEL + 'url = "https://example.org/v1/"\n')
    assert (llm.url, llm.key_env, llm.is_default_url) == ("https://example.org/v1", None, False)


def test_a_key_file_overrides_the_variable(tmp_path: Path) -> None:
    llm = read(tmp_path, MODEL + 'key_file = "/k"\n')
    assert (llm.key_env, llm.key_file) == (None, "/k")


@pytest.mark.parametrize(
    "text",
    [
        OLLAMA + 'url = "http://192.168.1.7:11434"\n',
        OLLAMA + 'url = "http://127.0.0.1:1"\nkey_env = "K"\n',
        OLLAMA + 'url = "http://[::1]:1"\nkey_env = "K"\n',
        OLLAMA + 'url = "http://localhost:1"\nkey_file = "/k"\n',
    ],
)
def test_plain_http_is_for_loopback_or_without_a_key(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).url.startswith("http://")


WRONG = [
    ("", ""),
    ('provider = "openai"\n', ""),
    ('model = "m"\n', ""),
    ('provider = "cohere"\nmodel = "m"\n', "provider"),
    ('provider = ["openai"]\nmodel = "m"\n', "provider"),
    ('provider = "openai"\nmodel = ""\n', "model"),
    ('provider = "openai"\nmodel = "a b"\n', "model"),
    (MODEL + "timeout_s = 0\n", "timeout_s"),
    (MODEL + "attempts = 0\n", "attempts"),
    (MODEL + "attempts = 1.5\n", "attempts"),
    (MODEL + 'max_tokens = "many"\n', "max_tokens"),
    (MODEL + "system = 3\n", "system"),
    (MODEL + 'modle = "m"\n', "modle"),
    (MODEL + 'api_key = "canary"\n', ""),
    (MODEL + 'key = "canary"\n', ""),
    (MODEL + 'key_env = "sk-canary"\n', "key_env"),
    (MODEL + 'key_env = ""\n', "key_env"),
    (MODEL + 'key_file = "canary"\n', "key_file"),
    (MODEL + 'key_file = "~/canary"\n', "key_file"),
    (MODEL + 'key_env = "K"\nkey_file = "/k"\n', ""),
    (MODEL + 'url = "ftp://example.org"\n', "url"),
    (MODEL + 'url = "example.org/v1"\n', "url"),
    (MODEL + 'url = "https://"\n', "url"),
    (MODEL + 'url = "https://example.org:99999"\n', "url"),
    (MODEL + 'url = "https://me:canary@example.org"\n', "url"),
    (MODEL + 'url = "https://example.org/v1?key=canary"\n', "url"),
    (MODEL + 'url = "https://example.org/v1#canary"\n', "url"),
    (MODEL + 'url = "https://example.org/a b"\n', "url"),
    (MODEL + "url = 3\n", "url"),
    (MODEL + 'url = "http://192.168.1.7/v1"\nkey_env = "K"\n', "url"),
    (MODEL + 'url = "http://localhost.example.org/v1"\nkey_env = "K"\n', "url"),
    (MODEL + 'url = "http://127.0.0.1.example.org/v1"\nkey_file = "/k"\n', "url"),
]


@pytest.mark.parametrize(("text", "key"), WRONG)
def test_an_invalid_section_is_named_and_the_model_left_out(
    tmp_path: Path, text: str, key: str
) -> None:
    """No possible key is shown."""
    found, problems = load_settings(written(tmp_path, BEGIN + text))
    assert [problem.key for problem in problems] == [
        "inquiry.llm" + (f".{key}" if key else ""),
        "inquiry.backends",
    ]
    assert found.inquiry.backends == ("client",) and found.inquiry.llm is None
    assert "canary" not in repr(problems)
    assert problems[0].message.endswith("; the section is not used"), "there is no default of it"


def test_a_model_without_a_section_is_left_out(tmp_path: Path) -> None:
    text = '[inquiry]\nbackends = ["llm", "command"]\n'
    found, problems = load_settings(written(tmp_path, text))
    assert found.inquiry.backends == ()
    assert [problem.key for problem in problems] == ["inquiry.backends"] * 2


PAGE = (ROOT / "docs" / "inquiries.md").read_text()
EXAMPLES = [
    text
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    if text.startswith("[inquiry")
]


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_documented_examples_are_valid(tmp_path: Path, text: str) -> None:
    if "[inquiry.llm]" not in text:
        text += "[inquiry.llm]\n" + MODEL
    found, problems = load_settings(written(tmp_path, text))
    assert problems == [] and found.inquiry.llm is not None


def test_no_section_configures_no_model(tmp_path: Path) -> None:
    paths: Paths = places(tmp_path)
    assert load_settings(paths)[0].inquiry == Settings().inquiry
