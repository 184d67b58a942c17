from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.person import ASKS, DETACH, STARTED, Person, Place, same
from tests.running_daemon import RunningDaemon


def test_an_attached_user_types_sees_and_detaches_without_a_trace(place: Place) -> None:
    place.shell(rows=40, cols=120)
    place.call("apply", id="h", input={"line": "echo was here before"})
    with place.attach(rows=30, cols=100) as person:
        person.until("was here before")
        person.type("echo 'größe 🦊'; stty size\r")
        person.until("30 100")
        person.until(same(person, place))
        assert "größe 🦊" in person.lines
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored
        assert re.search(
            rf"^h: detached; `haft --session {place.session} attach h` comes back$",
            "\n".join(person.lines),
            re.MULTILINE,
        )
    assert place.size == (40, 120)
    state = place.call("apply", id="h", input={"line": "echo still here"})
    assert state["state"] == "running" and "still here" in state["content"]


def test_the_assistant_reads_all_output_once(place: Place) -> None:
    place.shell()
    text = place.call("fetch", id="h")["content"]
    with place.attach() as person:
        person.until(lambda: person.lines)
        person.type("for i in $(seq 300); do echo line-$i-; done; echo the-'end'\r")
        while "the-end" not in text:
            state = place.call("fetch", id="h", wait="output", timeout_ms=20_000)
            text += state["content"]
        person.until(b"the-end")
        expected = [str(n) for n in range(1, 301)]
        assert re.findall(r"line-(\d+)-", text) == expected
        assert [n.decode() for n in re.findall(rb"line-(\d+)-", person.drawn)] == expected
        person.type(DETACH)
        assert person.ends() == 0


@pytest.mark.skipif(not shutil.which("vim"), reason="vim is not installed")
def test_an_editor_is_drawn_in_its_current_state(place: Place, tmp_path: Path) -> None:
    (tmp_path / "poem").write_text("".join(f"line {n} of the poem\n" for n in range(60)))
    place.run("vim", "-u", "NONE", "-N", "poem", cwd=str(tmp_path), rows=24, cols=80)
    place.call("apply", id="h", input={"keys": ["3", "0", "G", "o"]})
    place.call("apply", id="h", input="added by the assistant", wait="quiet", quiet_ms=50)
    with place.attach() as person:
        person.until("added by the assistant")
        person.until(same(person, place))
        assert person.terminal.snapshot().alt
        person.type(" and by a person\x1b")
        person.until("assistant and by a person")
        person.type(":q!")
        person.until(same(person, place))
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored
    assert place.call("fetch", id="h")["state"] == "running"


def test_a_resize_is_passed_on(place: Place) -> None:
    place.shell(rows=40, cols=120)
    with place.attach() as person:
        person.until(lambda: place.size == (24, 80))
        person.resize(31, 91)
        person.until(lambda: place.size == (31, 91))
        person.type("stty size\r")
        person.until("31 91")
        person.type(DETACH)
        assert person.ends() == 0
    assert place.size == (40, 120)


def ends_with(person: Person, line: str) -> Callable[[], bool]:
    return lambda: person.lines[-1:] == [line]


SHOWS_BYTES = """
import os, sys, termios, tty
tty.setraw(0)
print("ready", end="\\r\\n", flush=True)
while True:
    print(os.read(0, 100).hex(), end="\\r\\n", flush=True)
"""


def test_keys_after_the_prefix(place: Place) -> None:
    place.python(SHOWS_BYTES)
    with place.attach() as person:
        person.until("ready")
        for keys, shown in (
            (b"\x1c\x1c", "1c"),
            (b"\x1cx", "1c78"),
            (b"\x03", "03"),
            (b"\x1b", "1b"),
        ):
            person.type(keys)
            person.until(ends_with(person, shown))
        person.type(b"\x1c?")
        person.until("detaches")
        assert place.screen[-1] == "1b"
        person.type("y")
        person.until(lambda: person.lines == place.screen and person.lines[-1] == "79")
        person.type(b"\xff")
        person.until("not UTF-8")
        person.type(DETACH)
        assert person.ends() == 0


def test_two_users_share_a_handle(place: Place) -> None:
    place.shell()
    with place.attach() as one, place.attach() as other:
        one.until(lambda: one.lines)
        other.until(lambda: other.lines)
        one.type("echo from-one\r")
        other.until(lambda: other.lines[-2:] == ["from-one", "$"])
        other.type("echo from-other\r")
        place.call("fetch", id="h", wait="pattern", pattern=r"\nfrom-other\r?\n\$")
        for person in (one, other):
            person.until(same(person, place))
            assert "from-other" in person.lines
        one.type(DETACH)
        assert one.ends() == 0
        other.type("echo alone\r")
        other.until(lambda: "alone" in other.lines)
        other.type(DETACH)
        assert other.ends() == 0


@pytest.mark.parametrize("modes", ["raw -echo", "-echo"])
def test_a_paste_arrives_whole_and_in_order(place: Place, tmp_path: Path, modes: str) -> None:
    text = "".join(f"{n} größe {'x' * 40}\n" for n in range(20_000))[: 1 << 20]
    text = text[: text.rindex("\n") + 1]
    size = len(text.encode())
    place.run("sh", "-c", f"stty {modes}; echo ready; head -c {size} > pasted", cwd=str(tmp_path))
    with place.attach() as person:
        person.until("ready")
        person.type(text)
        assert person.ends() == 0
    got = (tmp_path / "pasted").read_bytes()
    assert len(got) == size
    assert hashlib.sha256(got).digest() == hashlib.sha256(text.encode()).digest()


def test_a_program_that_does_not_read_delays_neither_screen_nor_detach(place: Place) -> None:
    place.python(
        "import sys, time, tty; tty.setraw(0); print('deaf', flush=True)\n"
        "while True: time.sleep(.05); print('.', end='', flush=True)",
        wait="output",
    )
    with place.attach() as person:
        person.until("deaf")
        person.type(b"y" * 200_000)
        drawn = len(person.drawn)
        person.until(lambda: len(person.drawn) > drawn + 3)
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored
        assert re.search(r"h: \d+ typed characters were not sent to it", "\n".join(person.lines))


def test_undeliverable_keys_are_reported(place: Place) -> None:
    place.run("cat")
    with place.attach() as person:
        person.until(STARTED)
        person.type("one\r")
        person.until(lambda: person.lines == ["one", "one"])
        person.type("x" * 5000 + "\rtwo\r")
        person.until("The input was refused")
        assert b"\a" in person.drawn
        person.type("\x15three\r")
        place.call("fetch", id="h", wait="pattern", pattern=r"three\r?\nthree")
        person.type(DETACH)
        assert person.ends() == 0
    assert "three" in place.screen


READS_PASSWORD = """
import getpass, hashlib
told = getpass.getpass("Password: ")
print(hashlib.sha256(told.encode()).hexdigest()[:12], flush=True)
input()
"""


@pytest.mark.parametrize("reader", ["getpass", "read -s"])
def test_a_typed_password_is_stored_nowhere(daemon: RunningDaemon, reader: str) -> None:
    secret = "correct-horse-größe"
    shown = hashlib.sha256(secret.encode()).hexdigest()[:12]
    place = Place(daemon, "s")
    if reader == "getpass":
        place.python(READS_PASSWORD)
    else:
        shell = "read -rsp 'Password: ' p; printf '\\n%s' \"$p\" | sha256sum | cut -c1-12; read x"
        shown = hashlib.sha256(f"\n{secret}".encode()).hexdigest()[:12]
        place.run("bash", "-c", shell)
    with place.attach() as person:
        person.until("Password:")
        for key in secret[:5]:
            person.type(key)
        person.type(secret[5:] + "\r")
        person.until(shown)
        person.type(DETACH)
        assert person.ends() == 0
        drawn = person.drawn
    output = place.call("fetch", id="h", view="all")["content"]
    place.wire.close()
    assert daemon.stop() == 0
    told = [drawn.decode(), output, daemon.log_text()]
    told += [f.read_text(errors="replace") for f in daemon.base.rglob("*") if f.is_file()]
    for text in told:
        for part in (secret, secret[:5], secret[5:], "correct", "horse"):
            assert part not in text


def test_a_question_is_answered_in_the_last_row(place: Place) -> None:
    place.run("sh", "-c", f"echo before; read go; {ASKS}")
    with place.attach() as person:
        person.until("before")
        person.type("go\r")
        person.until("The word: [a secret]")
        assert place.call("fetch", id="h")["state"] == "waiting"
        person.type("x\x15mel")
        person.type("low\r")
        person.until("wollem tog")
        assert b"mellow" not in person.drawn and b"low" not in person.drawn
        person.until(same(person, place))
        person.type("to the program\r")
        person.until("to the program")
        person.type(DETACH)
        assert person.ends() == 0


def test_a_question_answered_elsewhere_disappears(place: Place) -> None:
    place.run("sh", "-c", f"echo before; {ASKS}", rows=40)
    with place.attach() as person:
        person.until("The word: [a secret]")
        # A byte that is no text rings the bell: all text before it has been read by then.
        bells = person.drawn.count(b"\a")
        person.type(b"never sent\xff")
        person.until(lambda: person.drawn.count(b"\a") > bells)
        place.call("apply", id="h", input="mellow", wait="none")
        person.until("wollem tog")
        person.until(same(person, place))
        assert b"sent" not in person.drawn
        person.type(DETACH)
        assert person.ends() == 0
    assert place.size == (40, 80)


def test_drawing_for_a_user_marks_nothing_as_read_for_the_assistant(place: Place) -> None:
    """The assistant's wait for a change of the screen is unaffected."""
    place.shell()
    place.call("fetch", id="h", view="screen")
    place.call("apply", id="h", input="echo un-seen\r", wait="none", cursor=0, max_bytes=0)
    with place.attach("-r", rows=30) as person:
        person.until(lambda: "un-seen" in person.lines)
        state = place.call("fetch", id="h", view="screen", wait="output", timeout_ms=20_000)
        assert state["waited"] == "output"


def test_a_read_only_attach_types_nothing_and_resizes_nothing(place: Place) -> None:
    place.shell(rows=20, cols=70)
    with place.attach("--read-only", rows=30, cols=100) as person:
        person.until(lambda: person.lines)
        place.call("apply", id="h", input={"line": "echo by the assistant"})
        person.until(same(person, place))
        person.type("exit\r")
        person.until("read-only")
        assert place.size == (20, 70)
        person.type(DETACH)
        assert person.ends() == 0
        assert person.restored
    assert "exit" not in place.screen[-1]
    assert place.call("fetch", id="h")["state"] == "running"
