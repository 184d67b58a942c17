"""A tool as models read it, word for word: its translations, and the replies to arguments."""

from __future__ import annotations

import json

import pytest

from .boundaries import FAULTS
from .definitions import NASTY
from .record_translations import RECORD, forms, replies, reply, translations

RECORDED = json.loads(RECORD.read_text())
DEFINED = forms()


def test_nothing_else_is_recorded() -> None:
    assert RECORDED["translations"].keys() == DEFINED.keys()
    assert RECORDED["replies"].keys() == NASTY.keys()
    assert RECORDED["faults"].keys() == FAULTS.keys()


@pytest.mark.parametrize("name", DEFINED)
def test_a_translation_is_the_recorded_one(name: str) -> None:
    assert translations(DEFINED[name]) == RECORDED["translations"][name]


@pytest.mark.parametrize("name", NASTY)
def test_a_reply_to_arguments_is_the_recorded_one(name: str) -> None:
    assert replies(*NASTY[name]) == RECORDED["replies"][name]


@pytest.mark.parametrize("name", FAULTS)
def test_a_reply_at_a_limit_is_the_recorded_one(name: str) -> None:
    assert reply(*FAULTS[name]) == RECORDED["faults"][name]
