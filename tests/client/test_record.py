"""`haft record` and `haft play`: a handle's output with its times, also after its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from haft.__main__ import main
from haft.asciicast import MAX_LINE, Event, read
from haft.cli.commands.play import _Pauses
from tests.client.person import Person, Place
from tests.forkserver import run_haft, run_haft_on_bytes
from tests.running_daemon import RunningDaemon

SCRIPT = r"printf 'caf\303'; read -r _ < gate; printf '\251\n\033[31mred\033[0m\n'; exit 3"


def record(place: Place, *words: str) -> bytes:
    command = ["--session", place.session, "record", *words]
    done = run_haft_on_bytes(command, env=place.daemon.env)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_a_handle_that_has_stopped_is_recorded_with_its_times(
    place: Place, tmp_path: Path, terminal: bool
) -> None:
    os.mkfifo(tmp_path / "gate")
    args = {"argv": ["sh", "-c", SCRIPT], "terminal": terminal}
    place.call("spawn", tool="run", id="h", args=args, wait="output", root=str(tmp_path))
    (tmp_path / "gate").write_text("\n")
    place.call("fetch", id="h", wait="stopped")
    header, events = read(record(place, "h").splitlines())
    shown = list(events)
    assert (header.version, header.cols > 0, header.rows > 0) == (3, True, True)
    text = "".join(event.data for event in shown if event.code == "o")
    assert text == "café\r\n\x1b[31mred\x1b[0m\r\n"
    assert (shown[-1].code, shown[-1].data) == ("x", "3")
    again = read(record(place, "h", "--format", "v2").splitlines())[1]
    assert "".join(event.data for event in again) == text


def test_a_resize_stands_between_what_was_printed_before_and_after(place: Place) -> None:
    place.run("sh", "-c", "read -r _; echo one; read -r _; echo two", rows=10, cols=40)
    place.call("apply", id="h", input={"line": ""}, wait="input")
    place.call("apply", id="h", input={"resize": {"rows": 20, "cols": 60}}, wait="none")
    place.call("apply", id="h", input={"line": ""}, wait="stopped")
    header, events = read(record(place, "h").splitlines())
    assert (header.cols, header.rows) == (40, 10)
    shown = [(event.code, event.data) for event in events]
    at = shown.index(("r", "60x20"))
    before, after = ("".join(text for _, text in part) for part in (shown[:at], shown[at + 1 :]))
    assert "one" in before and "two" not in before and "two" in after


def test_output_that_is_no_longer_kept_is_counted_and_the_rest_recorded(short_tmp: Path) -> None:
    daemon = RunningDaemon(short_tmp, config='[spool]\nmemory = "4 KiB"\ndisk = "16 KiB"\n').start()
    try:
        place = Place(daemon, "default")
        place.call("spawn", tool="run", id="h", args={"argv": ["seq", "20000"]}, wait="stopped")
        done = run_haft(["record", "h"], env=daemon.env)
        assert done.returncode == 0, done.stderr
        place.wire.close()
    finally:
        daemon.close()
    events = read(done.stdout.encode().splitlines())[1]
    text = "".join(event.data for event in events if event.code == "o").replace("\r", "")
    whole = "".join(f"{number}\n" for number in range(1, 20_001))
    dropped = int(done.stderr.removeprefix("haft record: ").split()[0])
    assert dropped > 0 and dropped + len(text) == len(whole)
    begin = next(at for at, (a, b) in enumerate(zip(text, whole, strict=False)) if a != b)
    assert text == whole[:begin] + whole[begin + dropped :]


def cast(path: Path, *events: tuple[float, str, str]) -> str:
    lines = [{"version": 3, "term": {"cols": 80, "rows": 24}}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_recording_is_drawn_and_the_terminal_restored(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    file = cast(
        tmp_path / "a.cast", (0, "o", "\x1b[?1049h\x1b[?2004h\x1b[6nhello"), (0.01, "o", " there")
    )
    with Person(shared_daemon, file, command="play") as person:
        person.until(b"hello there")
        assert person.ends() == 0
        assert b"\x1b[6n" not in person.drawn, "the terminal would answer"
        assert b"\x1b[?1049l" in person.drawn and b"\x1b[?2004l" in person.drawn
        assert termios.tcgetattr(person.slave) == person.before


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_the_playback(shared_daemon: RunningDaemon, tmp_path: Path, key: str) -> None:
    file = cast(tmp_path / "a.cast", (0, "o", "hello"), (1000, "o", "never"))
    with Person(shared_daemon, file, command="play") as person:
        person.until(b"hello")
        person.type(key)
        assert person.ends() == 0
        assert b"never" not in person.drawn


def test_a_paused_playback_goes_on_by_steps(shared_daemon: RunningDaemon, tmp_path: Path) -> None:
    file = cast(tmp_path / "a.cast", (0, "o", "one"), (1000, "o", "two"), (1000, "o", "three"))
    with Person(shared_daemon, file, command="play") as person:
        person.until(b"one")
        person.type(" .")
        person.until(b"two")
        person.type(".")
        person.until(b"three")
        assert person.ends() == 0


def test_a_signal_ends_the_playback(shared_daemon: RunningDaemon, tmp_path: Path) -> None:
    file = cast(tmp_path / "a.cast", (0, "o", "hello"), (1000, "o", "never"))
    with Person(shared_daemon, file, command="play") as person:
        person.until(b"hello")
        os.kill(person.pid, signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM


def test_a_longest_pause_shortens_the_playback(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    file = cast(tmp_path / "a.cast", (1000, "o", "one"), (1000, "o", "two"))
    done = run_haft(["play", file, "--idle", "0.01"], env=shared_daemon.env)
    assert (done.stdout, done.returncode) == ("onetwo", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is not valid JSON"),
        ('{"version":2,"width":1,"height":1}\nx', "line 2 is not valid JSON"),
    ],
)
def test_what_is_no_recording_is_named(
    shared_daemon: RunningDaemon, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "a.cast").write_text(text)
    done = run_haft(["play", str(tmp_path / "a.cast")], env=shared_daemon.env)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


V2 = '{"version": 2, "width": 80, "height": 24}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (V2 + '[1e10, "o", "x"]', "line 2: an event must be"),
        (V2 + "[" * 100_000, "line 2 is not valid JSON"),
        (V2 + " " * (MAX_LINE + 1), "line 2 is longer than 16 MiB"),
    ],
    ids=["time", "nesting", "length"],
)
def test_a_line_that_no_recording_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (tmp_path / "a.cast").write_text(content)
    assert main(["play", str(tmp_path / "a.cast")]) == 2
    assert message in capsys.readouterr().err


def test_a_pause_is_never_longer_than_a_system_call_takes() -> None:
    assert _Pauses(0.001, None).before(Event(10**12, "o", "")) == 2_000_000


@pytest.mark.parametrize("words", [["man"], ["play", "-"], ["play", "a.cast", "--idle", "nan"]])
@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_one_sentence(words: list[str], closed: str) -> None:
    command = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "haft", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.stderr.count("\n") == (0 if words == ["man"] and closed == "<&-" else 1)
