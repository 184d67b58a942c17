from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haft_protocol.inputs import SIGNALS, Input, Mouse, read_input


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("y\n", Input(kind="text", text="y\n")),
        ("", Input(kind="text", text="")),
        ({"text": "y"}, Input(kind="text", text="y")),
        ({"line": "y"}, Input(kind="line", text="y")),
        ({"line": ""}, Input(kind="line", text="")),
        ({"paste": "a\nb"}, Input(kind="paste", text="a\nb")),
        ({"keys": ["C-c", "Up"]}, Input(kind="keys", keys=("C-c", "Up"))),
        ({"eof": True}, Input(kind="eof")),
        ({"signal": "INT"}, Input(kind="signal", signal="INT")),
        ({"signal": "SIGTERM"}, Input(kind="signal", signal="TERM")),
        ({"signal": "usr1"}, Input(kind="signal", signal="USR1")),
        ({"resize": {"rows": 40, "cols": 120}}, Input(kind="resize", rows=40, cols=120)),
        (
            {"mouse": {"row": 2, "col": 4, "action": "click"}},
            Input(kind="mouse", mouse=Mouse(row=2, col=4, action="click")),
        ),
        (
            {"mouse": {"row": 0, "col": 0, "action": "move", "button": "left", "mods": ["ctrl"]}},
            Input(
                kind="mouse",
                mouse=Mouse(row=0, col=0, action="move", button="left", mods=("ctrl",)),
            ),
        ),
        ({"line": "pw", "secret": True}, Input(kind="line", text="pw", secret=True)),
        ({"line": "pw", "secret": False}, Input(kind="line", text="pw")),
    ],
)  # fmt: skip
def test_each_form_is_parsed(form: object, read: Input) -> None:
    assert read_input(form) == read


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (None, "a string"),
        (5, "a string"),
        (True, "a string"),
        (["a"], "a string"),
        ({}, "no kind"),
        ({"secret": True}, "no kind"),
        ({"line": "a", "eof": True}, "line and eof"),
        ({"lines": "a"}, "unknown field 'lines'"),
        ({"line": "a", "x": 1}, "unknown field 'x'"),
        ({"line": 5}, "`line` is a string"),
        ({"paste": None}, "`paste` is a string"),
        ({"keys": []}, "array of key names"),
        ({"keys": "Up"}, "array of key names"),
        ({"keys": ["Up", ""]}, "1 to 64"),
        ({"keys": ["Up", 5]}, "1 to 64"),
        ({"keys": ["x" * 65]}, "1 to 64"),
        ({"keys": ["a"] * 1025}, "at most 1024"),
        ({"eof": False}, "`eof` is true"),
        ({"eof": 1}, "`eof` is true"),
        ({"signal": "NOPE"}, "`signal` must be one of"),
        ({"signal": 9}, "`signal` must be one of"),
        ({"signal": "SIG"}, "`signal` must be one of"),
        ({"resize": {"rows": 40}}, "`resize` must be"),
        ({"resize": {"rows": 40, "cols": 1, "x": 1}}, "`resize` must be"),
        ({"resize": {"rows": 0, "cols": 80}}, "`resize.rows` must be an integer from 1"),
        ({"resize": {"rows": 24, "cols": 10**9}}, "`resize.cols`"),
        ({"resize": {"rows": True, "cols": 80}}, "`resize.rows`"),
        ({"resize": {"rows": 24.0, "cols": 80}}, "`resize.rows`"),
        ({"mouse": {"row": 1, "col": 1}}, "`mouse` must be"),
        ({"mouse": {"row": 1, "col": 1, "action": "wheel"}}, "`mouse` must be"),
        ({"mouse": {"row": -1, "col": 1, "action": "click"}}, "`mouse` must be"),
        ({"mouse": {"row": 1, "col": 10**9, "action": "click"}}, "`mouse` must be"),
        ({"mouse": {"row": True, "col": 1, "action": "click"}}, "`mouse` must be"),
        ({"mouse": {"row": 1, "col": 1, "action": "click", "x": 1}}, "`mouse` must be"),
        ({"mouse": {"row": 1, "col": 1, "action": "click", "button": "up"}}, "`mouse` must be"),
        (
            {"mouse": {"row": 1, "col": 1, "action": "scroll_up", "button": "left"}},
            "a scroll has no button",
        ),
        (
            {"mouse": {"row": 1, "col": 1, "action": "click", "mods": ["ctrl", "ctrl"]}},
            "name each key once",
        ),
        ({"line": "a", "secret": 1}, "`secret` must be true or false"),
    ],
)  # fmt: skip
def test_any_other_input_is_refused_with_a_sentence(form: object, words: str) -> None:
    with pytest.raises(RpcError) as caught:
        read_input(form)
    assert caught.value.code == -32602
    assert words in caught.value.message, caught.value.message
    assert caught.value.data["field"] == "input"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["line", "keys", "mouse", "eof", "resize", "signal", "secret", "rows", "cols"]
                ),
                inner,
                max_size=3,
            )
        ),
    )
)
def test_any_value_is_parsed_or_refused(form: Any) -> None:
    try:
        assert read_input(form).kind
    except RpcError as error:
        assert error.code == -32602


def test_typed_text_is_in_no_repr_and_in_no_refusal() -> None:
    good: list[object] = ["hunter2", {"line": "hunter2", "secret": True}, {"keys": ["hunter2"]}]
    for form in good:
        assert "hunter2" not in repr(read_input(form))
    bad: list[object] = [
        {"line": ["hunter2"]},
        {"signal": "hunter2"},
        {"line": "hunter2", "secret": "hunter2"},
    ]
    for form in bad:
        with pytest.raises(RpcError) as caught:
            read_input(form)
        assert "hunter2" not in str(caught.value)


def test_every_signal_is_known_to_the_system() -> None:
    import signal

    assert all(hasattr(signal, f"SIG{name}") for name in SIGNALS)
