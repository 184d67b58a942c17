"""Manual pages: made from the help's own source, and good roff."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from haft.__main__ import main
from haft.cli import COMMANDS
from haft.cli.manual import page, pages
from haft.cli.parsers import command_parser

Capture = pytest.CaptureFixture[str]


def plain(text: str) -> str:
    """Return a page's text without its quoting."""
    return re.sub(r"\\&|\\(?=-)", "", text).replace(r"\(aq", "'").replace(r"\e", "\\")


def test_each_page_has_every_option_of_its_command() -> None:
    assert set(pages().values()) == {*COMMANDS, ""}
    for name, command in pages().items():
        if command:
            text = plain(page(name))
            for action in command_parser(command).options():
                for option in action.option_strings:
                    assert re.search(rf"^\.B .*{re.escape(option)}", text, re.MULTILINE), option


def test_the_first_page_has_every_command_and_status() -> None:
    text = plain(page("haft"))
    for command, summary in COMMANDS.items():
        assert f".B haft-{command}(1)\n" in text and summary.split()[0] in text
    assert text.count(".SH EXIT STATUS") == 1


def test_a_page_is_good_roff(tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("needs mandoc")
    for name in pages():
        (tmp_path / f"{name}.1").write_text(page(name))
    files = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(["mandoc", "-Tlint", *files], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0)


def test_what_looks_like_a_request_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "ps", ".so /etc/passwd \\fB ~^`")
    line = next(line for line in page("haft-ps").splitlines() if "so" in line)
    assert line == r"haft\-ps \- .so /etc/passwd \efB \(ti\(ha\(ga"
    monkeypatch.setitem(COMMANDS, "ps", "x" * 59 + " .so /etc/passwd")
    assert r"\&.so /etc/passwd" in page("haft-ps").splitlines()


def test_the_date_is_that_of_a_reproducible_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert page("haft").startswith(".TH HAFT 1 1970-01-02 ")


def test_man_prints_a_page_where_there_is_no_terminal(capsys: Capture) -> None:
    assert main(["man", "spawn"]) == 0
    assert capsys.readouterr().out == page("haft-spawn")


def test_the_command_line_does_not_load_the_manual() -> None:
    code = "import sys; from haft.__main__ import main; main(['version']); print('haft.cli.manual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
