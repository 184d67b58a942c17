from __future__ import annotations

import ast
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import FIXTURES, Desk, text
from tests.wire import Wire


def fixture(desk: Desk, name: str, *flags: str) -> str:
    """Start a fixture program on a terminal, and wait for READY."""
    handle = desk.spawn(sys.executable, "-S", str(FIXTURES / name), *flags, pty=True)
    desk.fetch(handle, wait="pattern", pattern="READY", timeout_ms=20_000)
    return handle


def got(desk: Desk, handle: str) -> bytes:
    """Return the bytes that the raw reader reports, with the final `q`."""
    state = desk.apply(handle, {"keys": ["q"]}, wait="stopped", timeout_ms=20_000, view="all")
    found = ast.literal_eval(text(state).partition("GOT ")[2].strip())
    assert isinstance(found, bytes)
    return found


# -- RB-027: text, Enter, and the names of keys


@pytest.mark.parametrize(
    "inputs",
    [
        [{"line": "hello"}],
        ["hello", {"keys": ["Enter"]}],
        [{"text": "hel"}, "lo", {"line": ""}],
        [{"paste": "hello"}, {"keys": ["Enter"]}],
        [{"keys": ["h", "e", "l", "l", "o", "Enter"]}],
    ],
    ids=["line", "text and key", "texts and line", "paste and key", "keys"],
)
def test_RB_027_enter_is_a_key_of_its_own(desk: Desk, inputs: list[Any]) -> None:
    """Sent without a pause between the calls."""
    handle = fixture(desk, "burst.py")
    for value in inputs:
        desk.apply(handle, value, wait="none", view="tail", max_bytes=0)
    state = desk.done(handle, view="all")
    assert text(state).endswith("SUBMITTED b'hello'\n") and "NOT-" not in text(state)


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_027_enter_is_a_key_of_its_own_every_time(desk: Desk, rounds: int) -> None:
    for _ in range(rounds):
        handle = fixture(desk, "burst.py")
        desk.apply(handle, {"line": "hello"}, wait="none", view="tail", max_bytes=0)
        assert text(desk.done(handle, view="all")).endswith("SUBMITTED b'hello'\n")


@pytest.mark.parametrize("kind", ["text", "line"])
def test_RB_027_text_is_never_a_key(desk: Desk, kind: str) -> None:
    """Names of keys, separators of other tools, and written escapes come back as typed."""
    lines = ["ls;", "Enter", "C-c", "\\u0003", "\\n", "^D", ";", "é ≤ 漢", "-l", " x  "]
    handle = desk.spawn(sh="stty -echo; echo READY; exec cat", pty=True)
    desk.fetch(handle, wait="pattern", pattern="READY")
    for line in lines:
        values = {"line": line} if kind == "line" else line + "\n"
        desk.apply(handle, values, wait="none", view="tail", max_bytes=0)
    state = desk.apply(handle, {"eof": True}, wait="stopped", view="all")
    assert text(state) == "".join(f"{line}\n" for line in ["READY", *lines])
    assert state["exit"] == {"code": 0}


# -- RB-028: pastes


@pytest.mark.parametrize(
    ("flags", "pasted", "arrives"),
    [
        (["--paste"], "a\nb\x1b[201~c", b"\x1b[200~a\nbc\x1b[201~"),
        (["--paste"], "a\x1b[20\x1b[201~1~b", b"\x1b[200~ab\x1b[201~"),
        ([], "a\nb", b"a\rb"),
        ([], "a\x1b[201~b", b"ab"),
    ],
    ids=["wanted", "wanted, the end nested", "not wanted", "not wanted, the end within"],
)
def test_RB_028_a_paste_is_bracketed_only_on_request(
    desk: Desk, flags: list[str], pasted: str, arrives: bytes
) -> None:
    handle = fixture(desk, "rawread.py", *flags)
    desk.apply(handle, {"paste": pasted}, wait="none", view="tail", max_bytes=0)
    assert got(desk, handle) == arrives + b"q"


def test_RB_028_a_paste_of_many_lines_is_one_input_of_a_shell(desk: Desk) -> None:
    """bash with line editing takes a bracketed paste as one text, and runs no line by itself."""
    handle = desk.spawn("bash", "--norc", pty=True, wait="input", timeout_ms=20_000)
    desk.apply(handle, {"line": "PS1='$ '; bind 'set enable-bracketed-paste on'"}, wait="input")
    desk.apply(handle, {"paste": "echo o''ne\necho t''wo"}, wait="input")
    assert not {"one", "two"} & set(text(desk.fetch(handle, view="all")).split())
    state = desk.apply(handle, {"keys": ["Enter"]}, wait="pattern", pattern="two")
    assert state["waited"] == "matched"


# -- RB-030: several clients type


@pytest.mark.parametrize(
    ("rounds", "kind"),
    [(20, "text"), (10, "line"), pytest.param(50, "text", marks=pytest.mark.soak)],
)
def test_RB_030_inputs_of_several_clients_never_mix(desk: Desk, rounds: int, kind: str) -> None:
    handle = desk.spawn(sh="stty -echo -icanon; echo READY; exec cat", pty=True)
    desk.fetch(handle, wait="pattern", pattern="READY", cursor=0)
    faults: list[BaseException] = []

    def typing(wire: Wire, letter: str) -> None:
        try:
            for n in range(rounds):
                line = letter * 1996 + f"{n:04}"
                values = {"line": line} if kind == "line" else line + "\n"
                wire.call(
                    "apply",
                    session=desk.session,
                    id=handle,
                    input=values,
                    wait="none",
                    view="tail",
                    max_bytes=0,
                )
        except BaseException as fault:
            faults.append(fault)

    with desk.daemon.connect() as one, desk.daemon.connect("headers") as other:
        threads = [
            threading.Thread(target=typing, args=pair) for pair in ((one, "A"), (other, "B"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not faults
    size = len("READY\r\n") + 2 * rounds * 2002
    at = 0
    while at < size:
        state = desk.fetch(
            handle, wait="output", cursor=at, timeout_ms=20_000, view="tail", max_bytes=0
        )
        assert state["waited"] == "output", f"{at} of {size} bytes came back"
        at = state["cursor"]
    said = text(desk.fetch(handle, view="all", max_bytes=1 << 20))
    lines = said.split("\n")[1:-1]
    assert len(lines) == 2 * rounds
    for letter in "AB":
        own = [line for line in lines if line[0] == letter]
        assert own == [letter * 1996 + f"{n:04}" for n in range(rounds)]
    desk.abort(handle)


# -- RB-082: Windows line ends


@pytest.mark.parametrize(
    ("flags", "value", "arrives"),
    [
        ([], {"line": "a\r\nb"}, b"a\rb\r"),
        ([], {"line": "a\r\n"}, b"a\r"),
        ([], {"line": "a\n"}, b"a\r"),
        ([], {"line": "\n"}, b"\r"),
        ([], {"line": "a\n\n"}, b"a\r\r"),
        ([], {"paste": "a\r\nb\r\n"}, b"a\rb\r"),
        (["--paste"], {"paste": "a\r\nb\r\n"}, b"\x1b[200~a\nb\n\x1b[201~"),
        ([], {"text": "a\r\nb"}, b"a\rb"),
        ([], "\r\n\r\n", b"\r\r"),
        ([], "a\nb\rc", b"a\nb\rc"),
    ],
)
def test_RB_082_a_windows_line_end_is_one_line_end(
    desk: Desk, flags: list[str], value: Any, arrives: bytes
) -> None:
    handle = fixture(desk, "rawread.py", *flags)
    desk.apply(handle, value, wait="none", view="tail", max_bytes=0)
    assert got(desk, handle) == arrives + b"q"


@pytest.mark.parametrize("kind", ["line", "text", "paste"])
@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["windows", "unix"])
def test_RB_082_a_here_document_has_exactly_its_lines(
    desk: Desk, tmp_path: Path, kind: str, end: str
) -> None:
    """On a terminal in canonical mode, with or without a mapping of CR."""
    for modes in ("sane", "-icrnl"):
        handle = desk.spawn("dash", pty=True, wait="input", timeout_ms=20_000, cwd=str(tmp_path))
        desk.apply(handle, {"line": f"stty {modes}"}, wait="input")
        given = end.join(["cat >f <<'EOF'", "line 1", "line 2", "EOF"])
        if kind != "line":
            given += end
        if kind == "paste" and modes != "sane":
            continue  # A paste types CR, as a terminal does.
        desk.apply(handle, {kind: given}, wait="none", view="tail", max_bytes=0)
        desk.apply(handle, {"line": "exit"}, wait="stopped")
        assert (tmp_path / "f").read_bytes() == b"line 1\nline 2\n"


def test_RB_082_a_line_on_a_pipe_with_a_line_end_is_one_line(desk: Desk) -> None:
    handle = desk.spawn("cat")
    for value in ("one\n", "two", "three\r\n"):
        desk.apply(handle, {"line": value}, wait="none")
    state = desk.apply(handle, {"eof": True}, wait="stopped", view="all")
    assert text(state) == "one\ntwo\nthree\n"


# -- RB-083: tabs, and lines of several rows, for a program with line editing


CODE = "cat >out.py <<'EOF'\ndef f():\n\tif 1:\n\t\treturn 1\n    # four blanks\nEOF"
WRITTEN = CODE.partition("\n")[2].removesuffix("EOF")


@pytest.mark.parametrize("value", [CODE, CODE.replace("\n", "\r\n"), CODE + "\n"])
@pytest.mark.parametrize("tool", ["editing", "shell", "bash"])
def test_RB_083_a_line_of_several_rows_reaches_a_shell_unchanged(
    desk: Desk, tmp_path: Path, tool: str, value: str
) -> None:
    """In a folder with more files than a completion lists without asking."""
    for n in range(150):
        (tmp_path / f"file{n}").touch()
    if tool == "bash":
        argv = ("bash", "--norc", "-i")
        handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000, cwd=str(tmp_path))
    else:
        args = {"cwd": str(tmp_path), "editing": tool == "editing"}
        state = desk.wire.call(
            "spawn", session=desk.session, tool="shell", args=args, wait="input", id="sh"
        )
        handle = state["id"]
    state = desk.apply(handle, {"line": value}, wait="input", timeout_ms=20_000)
    assert state["waited"] == "input"
    assert (tmp_path / "out.py").read_text() == WRITTEN
    desk.apply(handle, {"line": "exit"}, wait="stopped")


@pytest.mark.parametrize(
    "argv", [("sqlite3", "-interactive"), ("zsh", "-f")], ids=["sqlite3", "zsh"]
)
def test_RB_083_a_tab_within_a_line_is_a_tab(desk: Desk, argv: tuple[str, ...]) -> None:
    if not shutil.which(argv[0]):
        pytest.skip(f"no {argv[0]}")
    handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000)
    line = "select hex('a\tb');" if argv[0] == "sqlite3" else "printf 'a\tb' | od -An -tx1"
    state = desk.apply(handle, {"line": line}, wait="input", timeout_ms=20_000)
    assert "610962" in text(state).replace(" ", "")
    desk.abort(handle)


@pytest.mark.parametrize(
    ("flags", "value", "arrives"),
    [
        (["--paste"], {"line": "a\tb"}, b"\x1b[200~a\tb\x1b[201~\r"),
        (["--paste"], {"line": "a\nb\n"}, b"\x1b[200~a\nb\x1b[201~\r"),
        (["--paste"], {"line": "ab"}, b"ab\r"),
        (["--paste"], {"line": "a\tb\x1b[C"}, b"a\tb\x1b[C\r"),
        (["--paste"], {"text": "a\tb\n"}, b"a\tb\n"),
        ([], {"line": "a\tb\nc"}, b"a\tb\rc\r"),
        (["--paste", "--screen"], {"line": "a\tb\nc"}, b"a\tb\rc\r"),
    ],
    ids=["tab", "rows", "plain", "controls", "text", "no pastes", "full screen"],
)
def test_RB_083_only_a_line_that_editing_would_change_is_pasted(
    desk: Desk, flags: list[str], value: Any, arrives: bytes
) -> None:
    handle = fixture(desk, "rawread.py", *flags)
    desk.apply(handle, value, wait="none", view="tail", max_bytes=0)
    assert got(desk, handle) == arrives + b"q"
