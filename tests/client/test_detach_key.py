from __future__ import annotations

import pytest

from haft.__main__ import main
from haft.cli.terminal.keyboard import Command, Keyboard, prefix_key
from tests.client.person import Place


def test_a_ctrl_key_that_types_no_other_key_can_be_the_detach_key() -> None:
    assert [prefix_key(name) for name in ("C-a", "C-]", "C-\\", "c-B")] == ["a", "]", "\\", "b"]
    for name in ("a", "C-", "C-m", "C-i", "C-[", "C-ab", "M-a", "C-é", "C-5", ""):
        assert prefix_key(name) is None


@pytest.mark.parametrize("typed", [b"\x01", b"\x1b[97;5u", b"\x1b[27;5;97~"])
def test_the_chosen_key_detaches_in_each_of_its_forms(typed: bytes) -> None:
    assert Keyboard("a").feed(typed + b"d") == [Command.DETACH]
    assert Keyboard("a").feed(b"x" + typed + b"?") == ["x", Command.HELP]
    assert Keyboard("a").feed(typed + typed) == [typed.decode()]
    assert Keyboard("a").feed(b"\x1cd") == ["\x1cd"], "the usual one is a key like any other then"


def test_attach_shows_how_to_detach_with_the_chosen_key(place: Place) -> None:
    place.run("cat")
    with place.attach("--detach-key", "C-a") as person:
        person.until(b"C-a d leaves it running")
        person.type("\x01d")
        assert person.ends() == 0
        person.until("h: detached")


def test_an_impossible_detach_key_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["attach", "a", "--detach-key", "C-m"]) == 2
    assert "--detach-key must be a key with Ctrl" in capsys.readouterr().err
    monkeypatch.setenv("HAFT_DETACH_KEY", "x")
    assert main(["attach", "a"]) == 2
    assert "HAFT_DETACH_KEY must be a key with Ctrl" in capsys.readouterr().err
