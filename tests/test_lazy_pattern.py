"""A stand-in acts like the expression, and is compiled when an attribute is first looked up."""

from __future__ import annotations

import re

import pytest

from haftd.lazy_pattern import lazy_pattern


def test_a_stand_in_matches_like_the_expression() -> None:
    pattern = lazy_pattern(r"(\w+)=(\d+)", re.IGNORECASE)
    match = pattern.fullmatch("a=1")
    assert match is not None and match.groups() == ("a", "1")
    assert pattern.sub(r"\2", "b=2 c=3") == "2 3"
    assert pattern.flags & re.IGNORECASE and pattern.pattern == r"(\w+)=(\d+)"


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[bytes] = []
    original = re.compile

    def compile_(source: bytes, flags: int) -> re.Pattern[bytes]:
        compiled.append(source)
        return original(source, flags)

    pattern = lazy_pattern(b"x+")
    monkeypatch.setattr(re, "compile", compile_)
    assert compiled == []
    assert pattern.search(b"axx") and pattern.search(b"x")
    assert compiled == [b"x+"]
