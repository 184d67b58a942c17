"""The source of a provider's key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from haftd.config.inquiry_settings import LlmSettings
from haftd.inquiries.llm.keys import NoKey, read_key


def settings(**more: Any) -> LlmSettings:
    return LlmSettings(
        provider="openai", model="m", url="https://example.org", is_default_url=False, **more
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text("canary-1\n")
    path.chmod(0o600)
    return path


def refused(file: Path) -> str:
    with pytest.raises(NoKey) as no:
        read_key(settings(key_file=str(file)), {})
    assert "canary" not in str(no.value) and str(file) in str(no.value)
    return str(no.value)


def test_a_key_is_in_the_environment_or_a_file_or_missing(file: Path) -> None:
    assert read_key(settings(key_env="K"), {"K": " canary-2\n"}) == "canary-2"
    assert read_key(settings(key_file=str(file)), {"K": "canary-2"}) == "canary-1"
    assert read_key(settings(), {"OPENAI_API_KEY": "canary-2"}) is None


@pytest.mark.parametrize("value", [None, "", "  ", "two words", "canary\r\nX-More: 1", "cänary"])
def test_an_invalid_key_is_refused_without_being_shown(value: str | None) -> None:
    with pytest.raises(NoKey) as no:
        read_key(settings(key_env="K"), {} if value is None else {"K": value})
    assert "K" in str(no.value) and "nary" not in str(no.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o610, 0o606])
def test_a_key_file_accessible_to_others_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert f"mode {mode:04o}" in refused(file) and "chmod 600" in refused(file)


def test_a_private_key_file_is_accepted(file: Path) -> None:
    file.chmod(0o400)
    assert read_key(settings(key_file=str(file)), {}) == "canary-1"


def test_a_non_file_is_refused_at_once(tmp_path: Path, file: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "is not a regular file" in refused(pipe)
    assert "is not a regular file" in refused(tmp_path)
    assert "cannot be read" in refused(tmp_path / "none")
    file.write_text("")
    assert "is not a key" in refused(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(file: Path) -> None:
    os.chown(file, 1, -1)
    assert "belongs to user 1" in refused(file)


def test_a_symlink_counts_as_its_target(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_key(settings(key_file=str(link)), {}) == "canary-1"
    file.chmod(0o644)
    assert "mode 0644" in refused(link)
