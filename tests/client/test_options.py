"""Options of every command: how their words are read, and how mistakes are named."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from haft import NotRunning
from haft.cli import show
from haft.cli.options import (
    MAX_WHOLE,
    Parser,
    UsageError,
    _folded,
    _folded_command,
    _Help,
    command_for,
    is_remote,
    non_empty,
    open_address,
    require_local,
    seconds,
    split_at_dashes,
    suggestion,
    whole,
)
from haft.local_address import Local


@pytest.mark.parametrize(
    ("host", "variable", "message"),
    [
        (None, None, ""),
        ("ssh://me@box", None, "me@box: run `ssh me@box haft x` for that one, or leave --host out"),
        (
            None,
            "ssh://box:22",
            "box:22: run `ssh -p 22 box haft x` for that one, or unset HAFT_HOST",
        ),
        ("ws://box:1/", "ssh://other", "leave --host out"),
        (None, "wss://box/", "unset HAFT_HOST"),
    ],
)
def test_a_command_of_this_machine_names_the_way_back_from_another(
    monkeypatch: pytest.MonkeyPatch, host: str | None, variable: str | None, message: str
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", "/run/s")
    if variable is not None:
        monkeypatch.setenv("HAFT_HOST", variable)
    options = argparse.Namespace(address=host, socket=None, name="haft x")
    assert is_remote(options) is bool(message)
    if not message:
        require_local(options, subject="the service")
        return
    with pytest.raises(UsageError) as refused:
        require_local(options, subject="the service")
    text = str(refused.value)
    assert text.startswith("the service of this machine, and the chosen host is ")
    assert text.endswith(message) and ("run `ssh" in text) == ("run `ssh" in message)


@pytest.mark.parametrize(
    ("given", "variable", "shown"),
    [
        ({}, None, "`haft answer q yes`"),
        ({}, "a", "`haft answer q yes`"),
        ({"session": "a"}, "a", "`haft answer q yes`"),
        ({"session": "b"}, "a", "`haft --session b answer q yes`"),
        ({"session": "b c"}, None, "`haft --session 'b c' answer q yes`"),
        ({"session": "default"}, "a", "`haft --session default answer q yes`"),
        ({"socket": "/run/a b"}, "a", "`haft --socket '/run/a b' answer q yes`"),
        ({"address": "ssh://box", "session": "b"}, "a", "`haft --host ssh://box --session b answer q yes`"),
    ],
)  # fmt: skip
def test_a_command_in_a_message_repeats_the_options_that_choose_daemon_and_session(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], variable: str | None, shown: str
) -> None:
    monkeypatch.delenv("HAFT_SESSION", raising=False)
    if variable is not None:
        monkeypatch.setenv("HAFT_SESSION", variable)
    options = argparse.Namespace(**{"session": None, "socket": None, "address": None} | given)
    assert command_for(options, "answer q yes") == shown


def test_the_command_that_starts_a_daemon_is_a_field_of_the_error(short_tmp: Path) -> None:
    """Each command decides whether to show it."""
    address = Local(str(short_tmp / "none"))
    with pytest.raises(NotRunning) as refused:
        open_address(address, start=False)
    assert str(refused.value) == f"haftd is not running: no daemon listens at {address.socket}"
    assert refused.value.remedy.startswith("`haft run`")


def parsed(words: list[str]) -> dict[str, Any]:
    parser = Parser("haft x")
    parser.add_argument("id", metavar="ID", help="the handle")
    parser.add_argument("rest", nargs="*", metavar="REST")
    parser.add_argument("-n", "--number", type=whole(1, 9))
    parser.add_argument("--name", type=non_empty)
    parser.add_argument("--pause", type=seconds)
    parser.add_argument("--keys", nargs="+")
    parser.add_argument("--when", choices=["always", "never"])
    options = argparse.Namespace()
    parser.read(words, options)
    return vars(options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "ID is missing: the handle"),
        (["a", "--name"], "--name needs a value"),
        (
            ["a", "--name", "-x"],
            "--name needs a value; for one that begins with a dash write --name=-x",
        ),
        (
            ["--name", "-x", "a"],
            "--name needs a value; for one that begins with a dash write --name=-x",
        ),
        (
            ["a", "b", "--keys", "-x", "c"],
            "--keys needs a value; for one that begins with a dash write --keys=-x",
        ),
        (["a", "--name", "--keys", "c"], "--name needs a value"),
        (["a", "--name", "--keys=c"], "--name needs a value"),
        (["a", "--name", "--", "b"], "--name needs a value"),
        (["a", "-n", "0"], "it must be a whole number from 1 to 9, not '0'"),
        (["a", "-n", "10"], "it must be a whole number from 1 to 9, not '10'"),
        (["a", "-n", "1.0"], "it must be a whole number from 1 to 9, not '1.0'"),
        (["a", "--name="], "it is empty; give a value, or omit it"),
        (["a", "--pause", "x"], "it must be a number of seconds such as 90 or 0.5, not 'x'"),
        (["a", "--when", "nevr"], "there is no 'nevr'; did you mean 'never'?"),
        (["a", "--when", "x"], "there is no 'x'; it is one of always, never"),
        (["a", "--nmae"], "unrecognized arguments: --nmae; did you mean '--name'?"),
        (["a", "--zzzz=1"], "unrecognized arguments: --zzzz=1"),
    ],
)
def test_a_mistake_is_named_with_its_option_and_the_help(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(words)
    text = str(refused.value)
    assert message in text
    assert text.endswith(f"{' See' if '?' in message else '; see'} `haft x --help`")
    if message.endswith("needs a value"):
        assert "begins with a dash" not in text


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["a", "-n", "1"], {"id": "a", "rest": [], "number": 1}),
        (["-n", "+9", "a", "b"], {"id": "a", "rest": ["b"], "number": 9}),
        (["a", "-n", "3", "b", "c"], {"id": "a", "rest": ["b", "c"], "number": 3}),
        (["a", "--name=-x"], {"id": "a", "rest": [], "name": "-x"}),
        (["a", "--name=--"], {"id": "a", "rest": [], "name": "--"}),
        (["a", "--keys=--"], {"id": "a", "rest": [], "keys": ["--"]}),
        (["a", "-", "--", "-b"], {"id": "a", "rest": ["-", "-b"]}),
        (["a", "--pause", ".5"], {"id": "a", "rest": [], "pause": 0.5}),
    ],
)
def test_words_are_read_wherever_the_options_stand(
    words: list[str], values: dict[str, Any]
) -> None:
    assert {"rest": []} | parsed(words) == values


@pytest.mark.parametrize(("text", "value"), [("90", 90.0), ("0.5", 0.5), (".5", 0.5), ("2.", 2.0)])
def test_seconds_are_a_decimal_number(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1e3", "nan", ".", "1" * 11, "1,5"])
def test_other_numbers_are_no_seconds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


def test_a_whole_number_is_within_its_bounds() -> None:
    assert (whole()("0"), whole()(str(MAX_WHOLE))) == (0, MAX_WHOLE)
    assert whole(-3, -1)("-3") == -3
    for text in ("-1", str(MAX_WHOLE + 1), "1" * 19, "", " 1", "1_0", "٣"):
        with pytest.raises(argparse.ArgumentTypeError):
            whole()(text)


@pytest.mark.parametrize(
    ("words", "split"),
    [
        ([], ([], None)),
        (["a"], (["a"], None)),
        (["--"], ([], [])),
        (["a", "--", "b", "--", "c"], (["a"], ["b", "--", "c"])),
    ],
)
def test_the_words_behind_the_first_dashes_are_another_commands(
    words: list[str], split: tuple[list[str], list[str] | None]
) -> None:
    assert split_at_dashes(words) == split


def test_a_suggestion_is_one_close_word() -> None:
    assert suggestion("sesion", ["--session", "session"]) == "; did you mean 'session'?"
    assert suggestion("x", ["session"]) == suggestion("x", []) == ""


@pytest.mark.parametrize("width", [20, 33])
def test_a_long_command_is_continued_between_its_words(width: int) -> None:
    line = "  haft spawn run --id 'a b  c' -- make -j4 all"
    lines = _folded_command(line, width)
    assert all(part.endswith(" \\") for part in lines[:-1]) and not lines[-1].endswith("\\")
    joined = " ".join(part.removesuffix(" \\").strip() for part in lines)
    assert joined == line.strip() and lines[0].startswith("  haft")
    assert all(part.startswith("    ") for part in lines[1:])
    assert all(len(part) <= width or len(part.split("'")) > 1 for part in lines)
    assert _folded_command(line, len(line)) == [line]
    assert len(_folded_command(line, len(line) - 1)) == 2


@pytest.mark.parametrize("width", [16, 24, 40])
def test_a_long_line_of_help_is_broken_behind_a_blank_a_comma_or_a_bar(width: int) -> None:
    line = "  one,two|three four, five six,seven|eight nine"
    lines = _folded(line, width)
    assert len(lines) > 1 and all(len(part) <= width for part in lines)
    assert lines[0].startswith("  one") and all(part.startswith("      ") for part in lines[1:])
    pieces = [part.strip() for part in lines]
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")
    for left_alone in (line[:width], f"{line} \\", f"{line} 'quoted'"):
        assert _folded(left_alone, width) == [left_alone]


def test_prose_of_the_help_is_wrapped_and_examples_stand_above_their_explanation() -> None:
    example = "  haft spawn run --id a   starts a command"
    text = f"one two three\nfour-five six\n\n  short\n{example}\nlast"

    def filled(width: int) -> list[str]:
        return _Help("haft")._fill_text(text, width, "").splitlines()

    wide = ["one two three four-five six", "", "  short", example, "last"]
    assert filled(len(example)) == wide
    assert filled(len(example) - 1) == [
        *wide[:3],
        "  haft spawn run --id a",
        "        starts a command",
        "last",
    ]
    assert filled(20) == [
        "one two three",
        "four-five six",
        "",
        "  short",
        "  haft spawn run \\",
        "      --id a",
        "        starts a",
        "        command",
        "last",
    ]


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_no_line_of_the_help_is_longer_than_the_terminal_or_forty_columns(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(show, "columns", lambda: columns)
    parser = Parser("haft x", about="Shows one thing, and then another, and all of the rest.")
    parser.add_argument(
        "--when", choices=["always", "sometimes", "never", "tomorrow"], help="a b c"
    )
    lines = parser.format_help().splitlines()
    assert max(map(len, lines)) <= max(columns, 40)
    assert max(map(len, lines)) > max(columns, 40) - 14
