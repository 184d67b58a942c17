from __future__ import annotations

import os
import re
import signal
import termios
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from haft.cli.terminal.attachment import Attachment
from haft.cli.terminal.own_terminal import OwnTerminal
from haft.cli.terminal.pollable_client import PollableClient
from haft.errors import ReplyTimeout
from haft_protocol.states import Screen
from tests.client.person import ASKS, DETACH, STARTED, Person, Place
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon


def test_a_size_set_by_another_client_since_is_kept(place: Place) -> None:
    place.shell(rows=40, cols=120)
    with place.attach() as person:
        person.until(lambda: place.size == (24, 80))
        place.call("apply", id="h", input={"resize": {"rows": 50, "cols": 60}}, wait="none")
        person.type(DETACH)
        assert person.ends() == 0
    assert place.size == (50, 60)


@pytest.mark.parametrize("how", ["exit 3", "exit 0"])
def test_all_output_is_drawn_when_the_handle_ends(place: Place, how: str) -> None:
    place.shell()
    with place.attach() as person:
        person.until(lambda: person.lines)
        person.type(f"exec bash -c 'seq -f last-%g- 1 20000; {how}'\r")
        assert person.ends() == int(how[-1] != "0")
        assert person.restored
        numbers = [int(n) for n in re.findall(rb"last-(\d+)-", person.drawn)]
        assert numbers == list(range(1, 20_001))
        assert re.match(rf"h: stopped, {how}, ", person.lines[-1])
    with place.attach() as person:
        assert person.ends() == int(how[-1] != "0")
        assert any(re.match(rf"h: stopped, {how}, ", line) for line in person.lines)
        assert f"--session {place.session} logs h`" in "".join(person.lines)


def test_the_terminal_is_restored_when_the_daemon_is_killed(daemon: RunningDaemon) -> None:
    place = Place(daemon, "s")
    place.run("cat")
    with place.attach() as person:
        person.until(STARTED)
        person.type("hello\r")
        person.until("hello")
        daemon.kill9()
        assert person.ends() == 3
        assert person.restored
        assert b"\x1b[Jhaft attach: haftd has ended, and all handles with it; " in person.drawn
    with place.attach() as person:
        assert person.ends() == 3
    place.wire.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_detaches(place: Place, number: signal.Signals) -> None:
    place.python("print('\\x1b[?1049h\\x1b[?2004hfull screen', flush=True); input()", rows=40)
    with place.attach() as person:
        person.until("full screen")
        assert person.terminal.snapshot().alt
        os.kill(person.pid, number)
        assert person.ends() == 128 + number
        assert person.restored
        assert any(f"detached by {number.name}" in line for line in person.lines)
    assert place.size == (40, 80)
    assert place.call("fetch", id="h")["state"] == "running"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_busy_attach(place: Place, number: signal.Signals) -> None:
    place.python("print('\\x1b[?1049hready', flush=True); input(); print('for' 'ever'); input()")
    with place.attach(module="tests.client.busy") as person:
        person.until("ready")
        place.call("apply", id="h", input={"line": ""}, wait="output")
        place.call("fetch", id="h", wait="input")
        os.kill(person.pid, number)
        assert person.ends() == 128 + number
        assert person.restored
    assert place.call("fetch", id="h")["state"] == "running"


@pytest.mark.parametrize(
    "hostile", ["\\x1b]21;' + '?' * 60_000 + '", "\\x1b[?' + '9' * 5_000 + 'h"]
)
def test_a_programs_output_neither_delays_nor_ends_the_attach(place: Place, hostile: str) -> None:
    place.python(
        f"print('ready'); input(); print('{hostile}', end='\\x07there', flush=True); input()"
    )
    with place.attach() as person:
        person.until("ready")
        place.call("apply", id="h", input={"line": ""}, wait="input")
        person.until(b"there")
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored


def test_closing_the_window_detaches(place: Place) -> None:
    place.shell(rows=40, cols=120)
    with place.attach() as person:
        person.until(lambda: place.size == (24, 80))
        person.hang_up()
        assert person.ends() in (129, -signal.SIGHUP)
    assert place.size == (40, 120)
    assert place.call("fetch", id="h")["state"] == "running"


def test_the_attach_can_be_suspended_and_resumed(place: Place) -> None:
    place.shell()
    with place.attach() as person:
        person.until(lambda: person.lines)
        os.kill(person.pid, signal.SIGTSTP)
        person.stops()
        assert person.restored
        place.call("apply", id="h", input={"line": "echo meanwhile"})
        os.kill(person.pid, signal.SIGCONT)
        person.until("meanwhile")
        person.type("echo again\r")
        person.until(lambda: person.lines == place.screen and "again" in person.lines)
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored


def test_detaching_is_possible_during_a_question(place: Place) -> None:
    place.run("sh", "-c", f"echo before; {ASKS}", rows=40)
    with place.attach() as person:
        person.until("The word: [a secret]")
        person.type(b"half" + DETACH)
        assert person.ends() == 0
        assert person.restored
    assert place.size == (40, 80)
    assert place.call("fetch", id="h")["state"] == "waiting"


@pytest.mark.parametrize("options", [[], ["--clipboard"]])
def test_modes_are_reset_and_queries_are_not_passed_on(place: Place, options: list[str]) -> None:
    program = (
        "import os, sys, tty; tty.setraw(0)\n"
        "sys.stdout.write('\\x1b[?1049h\\x1b[?1000;1006h\\x1b[?2004h\\x1b[?25lpicture')\n"
        "sys.stdout.flush()\n"
        "os.read(0, 1); sys.stdout.write('\\x1b[6n\\x1b[c\\x1b]11;?\\x07\\x1b]52;c;YQ==\\x07'); sys.stdout.flush()\n"
        "told = b''\n"
        "while b'!' not in told: told += os.read(0, 100)\n"
        "sys.stdout.write(f'told {told.count(27)}.'); sys.stdout.flush()\n"
        "while os.read(0, 100) != b'q': pass\n"
    )
    place.python(program)
    with place.attach(*options) as person:
        person.until("picture")
        assert person.terminal.snapshot().alt and person.terminal.bracketed_paste
        assert b"\x1b[?1000h" in person.drawn or b"1000;1006h" in person.drawn
        person.type("g")
        person.type("!")
        person.until("told ")
        told = int(re.search(r"told (\d+)\.", " ".join(person.lines))[1])  # type: ignore[index]
        assert person.replies == []
        assert told <= 3
        assert (b"]52;" in person.drawn) is bool(options)
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored
        assert b"\x1b[?1000l" in person.drawn and b"\x1b[?25h" in person.drawn


def test_a_handle_without_a_terminal_is_refused_with_the_alternative(place: Place) -> None:
    place.call("spawn", tool="run", id="h", args={"argv": ["cat"]}, wait="none")
    with place.attach() as person:
        assert person.ends() == 2
        assert person.restored
        text = " ".join(person.drawn.decode().split())
        assert f"haft --session {place.session} fetch h --wait output" in text
        assert f"haft --session {place.session} apply h --line" in text
    with Person(place.daemon, "--session", place.session, "nobody") as person:
        assert person.ends() == 4
        assert "nobody" in person.drawn.decode()


def test_attaching_after_the_end_reports_the_end_without_output(place: Place) -> None:
    place.call("spawn", tool="run", id="h", args={"argv": ["echo", "much"]}, wait="stopped")
    with place.attach() as person:
        assert person.ends() == 0
        text = " ".join(person.drawn.decode().split())
        assert "h: stopped, exit 0" in text and "logs h" in text
        assert "bytes" not in text


@pytest.mark.parametrize(
    ("arguments", "word"), [(["h"], "terminal"), (["h", "--json"], "--json"), ([], "ID")]
)
def test_attach_without_a_terminal_is_refused(
    place: Place, arguments: list[str], word: str
) -> None:
    done = run_haft(["attach", *arguments], env=place.daemon.env)
    assert done.returncode == 2
    assert word in done.stderr and done.stderr.count("\n") == 1


def test_the_client_that_ended_the_handle_is_reported(place: Place) -> None:
    place.run("cat")
    with place.attach() as person:
        person.until(STARTED)
        person.type("hello\r")
        person.until("hello")
        place.call("abort", id="h")
        assert person.ends() == 1
        assert "ended by abort" in person.lines[-1]


def test_a_full_stderr_delays_no_signal(place: Place) -> None:
    """As with a terminal that stalls with room for the modes, but not for the message."""
    place.run("cat")
    with place.attach(module="tests.client.full_stderr") as person:
        person.until(STARTED)
        os.kill(person.pid, signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM
        assert person.restored


@pytest.mark.parametrize("module", ["haft", "tests.client.busy"])
def test_a_stalled_terminal_delays_no_signal(place: Place, module: str) -> None:
    """As with a hung connection: the terminal is not read and all buffers are full. A busy
    attach is stopped while it still waits for room."""
    place.run("sh", "-c", "echo begin; exec yes", wait="output")
    with place.attach(module=module) as person:
        person.until("y")
        before = place.call("fetch", id="h", view="raw", max_bytes=0)["cursor"]
        place.call("fetch", id="h", wait="pattern", pattern="y", cursor=before + (1 << 20))
        os.kill(person.pid, signal.SIGTERM)
        assert person.has_ended(20), "it waits for the terminal"
        assert person.ends() == 128 + signal.SIGTERM
        assert termios.tcgetattr(person.slave) == person.before


class SlowDaemon:
    """A connection whose daemon answers each call after four seconds of a clock of the test's own,
    until its `timeout`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.size = (40, 120)
        self.resizes: list[dict[str, int]] = []
        self.hung = False

    def fetch(self, *_: object, timeout: float, **__: object) -> SimpleNamespace:
        self._wait(timeout)
        return SimpleNamespace(screen=Screen(*self.size, (0, 0), False, "", 1, 0))

    def apply(self, _: str, input: Any, *, timeout: float, **__: object) -> None:
        self.resizes.append(input["resize"])
        self._wait(timeout)
        self.size = input["resize"]["rows"], input["resize"]["cols"]

    def _wait(self, timeout: float) -> None:
        waited = 4.0 if self.hung else 0.0
        self.now += min(waited, timeout)
        if waited > timeout:
            raise ReplyTimeout("haftd did not answer in time")


def test_a_daemon_that_hangs_delays_the_end_by_the_time_of_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = SlowDaemon()
    monkeypatch.setattr(time, "monotonic", lambda: daemon.now)
    own = SimpleNamespace(size=lambda: (24, 80))
    attached = Attachment(
        cast(PollableClient, daemon), "h", cast(OwnTerminal, own), read_only=False
    )
    attached._set_size()
    assert daemon.size == (24, 80)
    daemon.hung = True
    began = daemon.now
    attached.leave()
    assert daemon.resizes[-1] == {"rows": 40, "cols": 120}
    assert daemon.now - began == 5.0
