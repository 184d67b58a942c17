from __future__ import annotations

import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from typing import Any

import pytest

from haft.__main__ import main
from haft.cli import COMMANDS
from haft.cli.options import _folded_command
from haft.cli.show import fit, short_amount, short_duration
from tests.client.conftest import Serve
from tests.client.fake import Peer, running
from tests.client.person import Place
from tests.forkserver import run_haft

Capture = pytest.CaptureFixture[str]
HEAD = ["ID", "TOOL", "STATE", "PID", "AGE", "CPU", "MEMORY", "OUTPUT", "COMMAND"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_help_fits_the_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*command.split(), "--help"]) == 0
    long = [line for line in capsys.readouterr().out.splitlines() if len(line) > width]
    # A word of an example is never broken.
    assert [line for line in long if len(shlex.split(line.removesuffix("\\"))) > 1] == []


@pytest.mark.parametrize("width", range(40, 100, 7))
def test_a_folded_example_is_the_same_command(width: int) -> None:
    command = (
        """haft spawn run --id n --arg 'command=ls | wc -l' --args '{"a": "b c d e f g h"}' -- x"""
    )
    lines = _folded_command(f"  {command}", width)
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)
    assert max(map(len, lines)) <= max(width, len(""" '{"a": "b c d e f g h"}' """) + 6)


def test_help_is_80_columns_wide_without_a_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["spawn", "--help"]) == 0
    assert 70 < max(map(len, capsys.readouterr().out.splitlines())) <= 80


def _listed(id: str, **fields: Any) -> dict[str, Any]:
    row = {"command": "make -j4 " + "x" * 200, "root": "/", "started_at": 1.0, "bytes": 2048}
    one = {**running(id), **row, "age_s": 3675.0, "pid": 4_000_000, "cpu_s": 75.0}
    one.pop("content", None)
    return {**one, "memory": 300 << 20, **fields}


def _ps_at_80(serve: Serve, handles: list[dict[str, Any]], *words: str) -> list[str]:
    """Return the lines that `haft ps` shows in a terminal."""

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        return {"handles": handles}

    serve(answer)
    shown = _shown_in_terminal(["ps", *words], 80, dict(os.environ))
    assert len(shown) == 1 + len(handles)
    assert all(len(line) <= 80 for line in shown)
    return shown


def _shown_in_terminal(words: list[str], width: int, env: dict[str, str]) -> list[str]:
    """Return the lines that a command writes to a terminal."""
    control, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
    env = {k: v for k, v in env.items() if k != "COLUMNS"} | {"TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "haft", *words], stdout=terminal, stderr=subprocess.PIPE, env=env
    )
    os.close(terminal)
    shown = os.read(control, 65_536).decode().splitlines()
    os.close(control)
    assert done.returncode in (0, 1) and done.stderr == b""
    return shown


def test_ps_at_80_shows_the_beginning_of_each_command(serve: Serve) -> None:
    """Columns of figures are left out whole for it, the least telling first."""
    python = "/usr/bin/python3 "
    live = [_listed("web", command=f"{python}serve.py"), _listed("db", command=f"{python}load.py")]
    shown = _ps_at_80(serve, live)
    assert shown[0].split() == [*HEAD[:5], "MEMORY", "OUTPUT", "COMMAND"]
    for line, script in zip(shown[1:], ("serve.p", "load.py"), strict=True):
        assert f"{python}{script}" in line
        for cell in ("running", "4000000", "1h1m", "300M", "2.0K"):
            assert cell in line


def test_figures_give_way_to_a_command_and_the_age_does_not(serve: Serve) -> None:
    shown = _ps_at_80(serve, [_listed("i" * 20, tool="t" * 20, command="c" * 60)])
    assert shown[0].split() == ["ID", "TOOL", "STATE", "AGE", "COMMAND"]
    assert "c" * 16 in shown[1]


def test_ps_at_80_cuts_no_id_state_or_need(serve: Serve) -> None:
    id = "tool_call.modify_file.call_7"
    live = [_listed(id, needs="decision", session="work"), _listed("b", suspended=True)]
    shown = _ps_at_80(serve, live, "-a")
    assert shown[0].split() == ["SESSION", *HEAD[:3], "NEEDS", "AGE", "COMMAND"]
    assert shown[1].split()[:5] == ["work", id, "run", "running", "decision"]
    assert shown[2].split()[:5] == ["default", "b", "run", "suspended", "-"]
    assert shown[1].endswith("…")


def test_columns_are_left_out_in_their_order_before_a_cell_is_cut() -> None:
    rows = [("ID", "CPU", "OUTPUT", "COMMAND"), ("i" * 20, "1m15s", "2.0K", "c" * 40)]
    options: dict[str, Any] = {"whole": ("ID", "CPU", "OUTPUT"), "spare": {"OUTPUT": 8, "CPU": 8}}
    heads = [fit(rows, room, **options)[0].split() for room in (45, 44, 37, 36)]
    assert heads == [
        list(rows[0]),
        ["ID", "CPU", "COMMAND"],
        ["ID", "CPU", "COMMAND"],
        ["ID", "COMMAND"],
    ]
    for room in range(28, 60):
        lines = fit(rows, room, **options)
        assert max(map(len, lines)) <= room and lines[1].startswith("i" * 20 + " ")
    assert max(map(len, fit(rows, 14, **options))) <= 14


@pytest.mark.parametrize("words", ["status", "doctor", "access git_stage"])
def test_lines_of_text_are_folded_at_the_terminals_width(place: Place, words: str) -> None:
    env = place.daemon.env
    shown = _shown_in_terminal(words.split(), 50, env)
    long = [line for line in shown if len(line) > 50]
    assert [line for line in long if " " in line.strip()] == [], "only a word is never broken"
    whole = _shown_in_terminal(words.split(), 1000, env)
    assert len(shown) > len(whole)
    assert max(map(len, run_haft(words.split(), env=env).stdout.splitlines())) > 50


def test_the_widest_column_gives_way_first() -> None:
    rows = [("ID", "STATE", "COMMAND"), ("short", "running", "c" * 40)]
    assert fit(rows, 30) == [
        "ID     STATE    COMMAND",
        "short  running  " + "c" * 13 + "…",
    ]
    assert fit(rows, None)[1].endswith("c" * 40)
    assert all(line.count("…") or "ID" in line for line in fit(rows, 5)), "something of each"


def test_short_forms_have_the_same_content() -> None:
    assert [short_duration(s) for s in (9.51, 75, 7500, 360_000)] == [
        "9.5s",
        "1m15s",
        "2h5m",
        "4d4h",
    ]
    assert [short_amount(n) for n in (58, 2048, 300 << 20)] == ["58B", "2.0K", "300M"]
