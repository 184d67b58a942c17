from __future__ import annotations

import msgspec

from haft_protocol.pushes import PushedOutput


def test_output_without_an_omission_has_no_field_for_it() -> None:
    pushed = PushedOutput(subscription="s", id="h", generation=1, start=0, cursor=3, data="abc")
    assert msgspec.to_builtins(pushed) == {
        "subscription": "s",
        "id": "h",
        "generation": 1,
        "start": 0,
        "cursor": 3,
        "data": "abc",
    }


def test_a_reader_may_rely_on_zero_without_an_omission() -> None:
    text = b'{"subscription":"s","id":"h","generation":1,"start":0,"cursor":3,"data":"abc"}'
    pushed = msgspec.json.decode(text, type=PushedOutput)
    assert (pushed.omitted, pushed.omitted_from) == (0, 0)
