"""The view `answer`: the delta without the echo and the prompt."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.methods.conftest import Room

PASTE = "def twice(n):\n    found = n * 2\n    return found\n\n"


def on_terminal(room: Room, id: str, *argv: str, **more: Any) -> Any:
    args = {"argv": argv, "terminal": True}
    return room.call("spawn", tool="run", id=id, args=args, timeout_ms=20_000, **more)


def give(room: Room, id: str, value: object, **more: Any) -> Any:
    return room.call("apply", id=id, input=value, timeout_ms=20_000, **more)


def test_a_shells_answer_is_without_echo_and_prompt(room: Room) -> None:
    state = on_terminal(room, "one", "sh", "-c", "PS1='ready> ' exec sh -i", view="answer")
    assert state["content"] == "" and state["input_wanted"]["prompt"] == "ready> "
    state = give(room, "one", {"line": "echo $((20 + 1))"}, view="answer")
    assert state["content"] == "21\n" and state["input_wanted"]["prompt"] == "ready> "
    assert state["echoed"] == len("echo $((20 + 1))\n")
    # Already read: the next delta does not repeat it.
    assert room.call("fetch", id="one")["content"] == ""
    state = give(room, "one", {"line": "exit"}, wait="stopped", view="answer")
    assert state["state"] == "stopped" and state["result"] == "" and state["echoed"] == 5


def test_a_pastes_echo_is_removed_and_its_output_stays(room: Room) -> None:
    for id in ("one", "other"):
        on_terminal(room, id, sys.executable, "-q")
    answer = give(room, "one", {"paste": PASTE}, view="answer")
    delta = give(room, "other", {"paste": PASTE})
    assert answer["content"] == "" and answer["input_wanted"]["prompt"] == ">>> "
    assert len(delta["content"]) == answer["echoed"] + len(">>> ")
    answer = give(room, "one", {"line": "twice(21)"}, view="answer")
    assert answer["content"] == "42\n" and answer["echoed"] == len("twice(21)\n")


def test_echo_answer_and_prompt_are_the_delta(room: Room) -> None:
    for value in ({"line": "print('a b')"}, {"text": "1"}, {"line": ""}, {"paste": PASTE}):
        states = {}
        for view in ("delta", "answer"):
            id = f"{view}{len(str(value))}"
            on_terminal(room, id, sys.executable, "-q")
            states[view] = give(room, id, value, view=view)
        answer, delta = states["answer"], states["delta"]["content"]
        prompt = answer["input_wanted"]["prompt"]
        echo = delta.encode()[: answer.get("echoed", 0)].decode()
        assert delta in (echo + answer["content"], echo + answer["content"] + prompt)


@pytest.mark.parametrize("mode", ["-echo", "raw -echo"])
def test_a_program_without_echo_loses_nothing(room: Room, mode: str) -> None:
    sh = f"stty {mode}; printf 'word? '; head -c 3 >/dev/null; printf 'you said it\\r\\n'; cat"
    on_terminal(room, "one", "sh", "-c", sh)
    state = give(
        room, "one", {"text": "it\n"}, view="answer", wait="pattern", pattern="said it\r?\n"
    )
    assert state["content"] == "you said it\n" and "echoed" not in state


def test_hidden_input_is_not_searched_even_where_printed(room: Room) -> None:
    sh = "stty -echo; printf 'word? '; read word; echo $word; cat"
    on_terminal(room, "one", "sh", "-c", sh)
    state = give(room, "one", {"line": "it", "secret": True}, view="answer")
    assert state["content"] == "it\n" and "echoed" not in state


def test_earlier_output_is_shown_with_all_later_output(room: Room) -> None:
    """The echo is not at the beginning of the delta then."""
    on_terminal(room, "one", "sh", "-c", "echo before; cat", wait="input", view="tail")
    state = give(room, "one", {"line": "x"}, view="answer", wait="pattern", pattern="x\r?\n")
    assert state["content"] == "before\nx\nx\n"


def test_a_pipe_has_no_echo(room: Room) -> None:
    room.spawn("one", "exec cat")
    state = give(room, "one", {"line": "x"}, view="answer", wait="output")
    assert state["content"] == "x\n" and "echoed" not in state
