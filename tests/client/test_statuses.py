"""Exit statuses and errors around a command: one sentence and a status, never a traceback."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from haft.__main__ import main
from haft.cli.statuses import Status, table
from haft.errors import NotUnicode
from haft.wire import Conversation
from tests.client.conftest import Serve
from tests.client.fake import Peer, Refuse, running, stopped

Capture = pytest.CaptureFixture[str]
HAFT = [sys.executable, "-m", "haft"]
ODD = "d\udcff"


def test_the_help_has_every_exit_status(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    assert table() in capsys.readouterr().out
    assert [line.split()[0] for line in table().splitlines()] == [str(int(s)) for s in Status]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["spawn", "run", "--id", "a", "--root", "/" + ODD], "`--root`"),
        (["spawn", "run", "--id", ODD], "`id`"),
        (["spawn", "run", "--id", "a", "--arg", f"{ODD}=1"], "`args`"),
        (["spawn", "run", "--id", "a", "--call-id", ODD], "`--call-id`"),
        (["fetch", ODD], "`id`"),
        (["fetch", "a", "--pattern", ODD], "`pattern`"),
        (["apply", "a", "--keys", ODD], "`--keys`"),
        (["apply", "a", "--line", ODD], "an argument"),
        (["search", ODD], "`pattern`"),
        (["search", "x", ODD], "`ids`"),
        (["await", ODD], "`all`"),
        (["abort", ODD], "`id`"),
        (["tools", ODD], "`tools`"),
        (["ps", "--session", ODD], "--session"),
        (["version", "--session", ODD], "--session"),
        (["doctor", "--session", ODD], "--session"),
    ],
)
def test_RB_091_invalid_utf8_is_one_sentence(
    serve: Serve, capsys: Capture, words: list[str], named: str
) -> None:
    serve(lambda request, peer: {"tools": []} if "tools" in request["method"] else running())
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert f"{named} is not UTF-8" in err and "d\\xff'" in err


def test_RB_091_in_a_folder_with_an_invalid_utf8_name(
    serve: Serve, capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = short_tmp / ODD
    folder.mkdir()
    monkeypatch.chdir(folder)
    daemon = serve(lambda request, peer: running())
    for words in (["spawn", "run", "--id", "a"], ["tools"], ["trust"]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "the name of this folder is not UTF-8" in err and "d\\xff'; name another" in err
    assert main(["fetch", "a"]) == 0
    assert main(["spawn", "run", "--id", "a", "--root", "/"]) == 0
    assert daemon.calls("spawn")[0]["root"] == "/"


def test_RB_091_a_session_name_from_the_environment(
    serve: Serve, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(lambda request, peer: running())
    monkeypatch.setenv("HAFT_SESSION", ODD)
    assert main(["fetch", "a"]) == 2
    assert "HAFT_SESSION is not UTF-8" in capsys.readouterr().err


def test_a_request_that_cannot_be_encoded_names_the_field() -> None:
    with pytest.raises(NotUnicode) as refused:
        Conversation().request("spawn", {"args": {"list": ["a", {"b": ODD}]}})
    assert refused.value.field == "args.list.b"


@pytest.mark.parametrize("words", [["ps"], ["ps", "--json"], ["fetch", "a"], ["--help"]])
def test_a_full_disk_is_one_sentence_and_status_6(serve: Serve, words: list[str]) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        return running("a", "x") if request["method"] == "fetch" else {"handles": []}

    serve(answer)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*HAFT, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    name = "haft" if words == ["--help"] else f"haft {words[0]}"
    message = f"{name}: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (6, message)


def test_a_refusal_whose_document_cannot_be_written_keeps_its_status(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "There is no 'x'.", id="x")

    serve(answer)
    with open("/dev/full", "wb") as full:
        words = [*HAFT, "fetch", "x", "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    assert "There is no 'x'" in done.stderr and "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr


def test_messages_that_cannot_be_written_change_no_status(serve: Serve) -> None:
    serve(lambda request, peer: stopped("a", "text\n", exit={"code": 0}))
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") as full:
        for stream in (full.fileno(), writing):
            done = subprocess.run([*HAFT, "fetch", "a"], stdout=subprocess.PIPE, stderr=stream)
            assert (done.returncode, done.stdout) == (0, b"text\n")
    os.close(writing)


def test_a_nonblocking_pipe_gets_all_output(serve: Serve) -> None:
    """Another program that shares the pipe may set O_NONBLOCK: ssh, node."""
    text = "line\n" * 200_000
    serve(lambda request, peer: stopped("a", text, cursor=len(text)))
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
    process = subprocess.Popen([*HAFT, "logs", "a"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read().decode() == text
    _, err = process.communicate(timeout=20)
    assert (process.returncode, b"Traceback" in err) == (0, False)


def test_a_removed_folder_is_reported(serve: Serve, short_tmp: Path) -> None:
    serve(lambda request, peer: {"roots": []})
    folder = short_tmp / "gone"
    folder.mkdir()
    for command in ("trust", "spawn run --id a", "tools"):
        folder.mkdir(exist_ok=True)
        script = f'cd {folder} && rmdir {folder} && exec "$@"'
        words = ["sh", "-c", script, "sh", *HAFT, *command.split()]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "the current folder is gone" in done.stderr


@pytest.mark.parametrize(
    "words", [["--color", "always", "nothing"], ["ps", "--color=always", "-x"]]
)
def test_the_colour_is_chosen_before_a_later_mistake(words: list[str], capsys: Capture) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("\x1b[31mhaft")
    assert main(["nothing"]) == 2
    assert "\x1b" not in capsys.readouterr().err, "each call decides anew"


def test_a_table_is_coloured_as_the_option_says(serve: Serve, capsys: Capture) -> None:
    serve(lambda request, peer: {"handles": [running("a") | _FIGURES]})
    assert main(["ps", "--color", "always"]) == 0
    assert capsys.readouterr().out.startswith("\x1b[1mID")
    assert main(["ps"]) == 0
    assert "\x1b" not in capsys.readouterr().out


_FIGURES = {"command": "make", "root": "/", "started_at": 1.0, "bytes": 0, "age_s": 1.0}
