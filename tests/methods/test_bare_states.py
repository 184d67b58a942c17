"""The states beside the text of a tool call repeat none of its output."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from haft_protocol.states import EndedBy, Stopped
from haftd.methods.model_text import _bare

BARE = Stopped(
    id="a", tool="t", session="s", cursor=1, generation=1, elapsed_ms=1, ended_by=EndedBy("exit")
)


@pytest.mark.parametrize("value", ["", "result", "content", "output", "result output"])
def test_an_end_keeps_which_texts_it_has_and_none_of_their_characters(value: str) -> None:
    names = value.split()
    bare = _bare(structs.replace(BARE, **dict.fromkeys(names, "long")))
    assert isinstance(bare, Stopped)
    for name in ("result", "content", "output"):
        assert getattr(bare, name) == ("" if name in names else UNSET)
    assert bare.screen is UNSET
