from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import FIXTURES, Desk, text
from tests.faults.harness import until

# -- RB-081: a terminal without an open descriptor is opened again

COUNTS = "exec </dev/null >/dev/null 2>&1; sleep 0.3; exec >/dev/tty; seq 1 40000"
NUMBERS = "".join(f"{n}\n" for n in range(1, 40_001))
REOPENS = """
import ctypes, os, signal, sys, time
name = os.ttyname(0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for round in range(20):
    if round == 0 and sys.argv[1] == "hangup":  # It drops what was printed before.
        ctypes.CDLL(None).vhangup()
    os.closerange(0, 3)
    time.sleep(float(sys.argv[2]))
    assert os.open("/dev/tty" if sys.argv[1] == "tty" else name, os.O_RDWR) == 0
    os.dup(0), os.dup(0)
    print("round", round, flush=True)
print("answer?", flush=True)
print("got", input(), flush=True)
"""
FLOODS = """
import os, sys, time
done = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
if os.isatty(1):
    os.closerange(0, 3)
    time.sleep(0.02)
    assert os.open("/dev/tty", os.O_RDWR) == 0
    os.dup(0), os.dup(0)
count = 0
while True:
    os.write(1, b"%d\\n" % count)
    count += 1
    os.pwrite(done, b"%d" % count, 0)
"""


def test_RB_081_output_after_reopening_the_terminal_is_read(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh=COUNTS, pty=True), seconds=60, max_bytes=1 << 20)
    assert text(state) == NUMBERS
    assert state["exit"] == {"code": 0} and state["output_complete"] is True


@pytest.mark.parametrize("way", ["tty", "name", "hangup"])
@pytest.mark.parametrize("closed_s", [0, 0.001, 0.02])
def test_RB_081_a_program_that_reopens_its_terminal_is_driven_on(
    desk: Desk, closed_s: float, way: str
) -> None:
    """For any number of times and any gap without an open descriptor; also after vhangup, which
    needs privileges and changes nothing without them."""
    argv = (sys.executable, "-S", "-c", REOPENS, way, str(closed_s))
    handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000)
    assert desk.last["waited"] == "input" and desk.last["input_wanted"]["kind"] == "line"
    shown = text(desk.fetch(handle, view="all"))
    assert shown == "".join(f"round {n}\n" for n in range(20)) + "answer?\n"
    state = desk.apply(handle, {"line": "yes"}, wait="stopped", view="all")
    assert text(state).endswith("got yes\n") and state["exit"] == {"code": 0}


def test_RB_081_a_prompt_on_dev_tty_alone_is_detected_and_answered(
    desk: Desk, tmp_path: Path
) -> None:
    """The program's three streams are redirected, as in a script that collects output."""
    script = (
        f"exec </dev/null >{tmp_path}/out 2>&1; sleep 0.05; exec 3<>/dev/tty; stty -echo <&3; "
        'printf "Passphrase: " >&3; read answer <&3; stty echo <&3; echo "length ${#answer}" >&3'
    )
    handle = desk.spawn(sh=script, pty=True, wait="input", timeout_ms=20_000)
    assert desk.last["waited"] == "input", desk.last
    state = desk.fetch(handle, view="all")
    assert state["input_wanted"]["kind"] == "secret" and text(state) == "Passphrase: "
    state = desk.apply(handle, {"line": "hunter2", "secret": True}, wait="stopped", view="all")
    assert text(state).split() == ["Passphrase:", "length", "7"]


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="no ssh-keygen")
def test_RB_081_ssh_keygen_asks_for_a_passphrase_beside_its_streams(
    desk: Desk, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    # With one round of the passphrase's hash, of which each takes a hundredth of a second.
    command = ["ssh-keygen", "-q", "-a1", "-t", "ed25519", "-N", "open sesame", "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    script = f"exec ssh-keygen -y -f {key} </dev/null >{tmp_path}/out 2>&1"
    handle = desk.spawn(sh=script, pty=True, wait="input", timeout_ms=20_000)
    assert desk.last["waited"] == "input", desk.last
    assert "passphrase" in text(desk.fetch(handle, view="all"))
    values = {"line": "open sesame", "secret": True}
    assert desk.apply(handle, values, wait="stopped")["exit"] == {"code": 0}
    assert (tmp_path / "out").read_text().startswith("ssh-ed25519 ")


@pytest.mark.parametrize("pty", [True, False], ids=["terminal", "pipe"])
def test_RB_081_an_abort_keeps_every_written_byte(desk: Desk, tmp_path: Path, pty: bool) -> None:
    """Up to the last write that returned, also after the terminal was opened again."""
    done = tmp_path / "done"
    argv = (sys.executable, "-S", "-c", FLOODS, str(done))
    handle = desk.spawn(*argv, pty=pty, wait="pattern", pattern="5000\n", timeout_ms=20_000)
    assert desk.last["waited"] == "matched"
    state = desk.abort(handle, grace_ms=0)
    assert state["ended_by"]["by"] == "abort" and state["output_complete"] is True
    lines = printed(desk, handle).split("\n")
    written = int(done.read_text())
    assert lines[:written] == [str(n) for n in range(written)]


def printed(desk: Desk, handle: str) -> str:
    """All that a handle has printed."""
    parts: list[str] = []
    cursor = 0
    while True:
        state = desk.fetch(handle, cursor=cursor, max_bytes=1 << 20)
        if state["cursor"] == cursor:
            return "".join(parts)
        parts.append(text(state))
        cursor = state["cursor"]


# -- RB-085: terminal modes left by a killed program


# Not that of PATH, which may be a script that looks for one.
PYTHON = shlex.quote(sys.executable)
ASKS = PYTHON + " -S -c \"import os; os.write(1, b'{}'); os.kill(os.getpid(), 9)\""
MODES = {
    "kitty": "\\33[>1u",
    "kitty, all": "\\33[>31u",
    "modifyOtherKeys": "\\33[>4;2m",
    "cursor keys": "\\33[?1h",
    "pastes": "\\33[?2004h",
    "backspace": "\\33[?67h",
}


def shell_after(desk: Desk, mode: str) -> str:
    """Return a shell in which a program has set a terminal mode and was killed."""
    name = "sh"
    desk.wire.call("spawn", session=desk.session, tool="shell", id=name, wait="input")
    state = desk.apply(name, {"line": ASKS.format(MODES[mode])}, wait="pattern", pattern="Killed")
    assert state["waited"] == "matched", state
    desk.fetch(name, wait="input")
    return name


@pytest.mark.parametrize("mode", MODES)
def test_RB_085_control_c_interrupts_despite_the_modes_of_a_killed_program(
    desk: Desk, mode: str
) -> None:
    handle = shell_after(desk, mode)
    # Printed by a job in the foreground: bash itself, between two commands, may take the signal for the job's.
    line = """sh -c 'echo st""arts; exec sleep 60'"""
    desk.apply(handle, {"line": line}, wait="pattern", pattern="starts")
    state = desk.apply(handle, {"keys": ["C-c"]}, wait="input", timeout_ms=20_000)
    assert state["waited"] == "input", state
    state = desk.apply(handle, {"line": "cat"}, wait="input")
    assert state["waited"] == "input", state
    state = desk.apply(handle, {"keys": ["C-z"]}, wait="pattern", pattern="Stopped")
    assert state["waited"] == "matched", state
    # Else the prompt may be printed after the echo, before `pasted`.
    assert desk.fetch(handle, wait="input")["waited"] == "input"
    # Erased by the terminal, and a paste without codes.
    desk.apply(handle, {"keys": ["e", "c", "x", "BSpace", "h", "o", "Space"]}, wait="none")
    state = desk.apply(handle, {"paste": "pas''ted\n"}, wait="pattern", pattern="^pasted")
    assert state["waited"] == "matched", state
    desk.abort(handle, grace_ms=0)


def test_RB_085_cursor_keys_are_plain_where_the_terminal_edits_the_line(desk: Desk) -> None:
    handle = shell_after(desk, "cursor keys")
    desk.apply(handle, {"line": "cat -v"}, wait="input")
    desk.apply(handle, {"keys": ["Up", "Home", "Enter"]}, wait="none")
    state = desk.apply(handle, {"eof": True}, wait="input", view="all")
    assert text(state).count("^[[A^[[H") >= 1 and "^[O" not in text(state)


LEAVES = (
    PYTHON + " -S -c \"import os; os.write(1, b'{}'); input('ready?'); os.kill(os.getpid(), 9)\""
)
PROTOCOLS = ["kitty", "kitty, all", "modifyOtherKeys"]
SHELLS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f")}
SHOWS_KEYS = """
import os, signal, sys, tty
tty.setraw(0)
signal.signal(signal.SIGCONT, lambda *_: tty.setraw(0))
os.write(1, sys.argv[1].encode().decode("unicode_escape").encode())
while True:
    os.write(1, b"key? ")
    key = os.read(0, 64)
    os.write(1, b"<%s>\\r\\n" % key.hex().encode())
    if key == b"s":
        os.kill(0, signal.SIGSTOP)
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shell", SHELLS)
def test_RB_085_keys_at_a_prompt_are_plain_after_a_program_with_a_protocol_was_killed(
    desk: Desk, shell: str, protocol: str
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    handle = desk.spawn(*SHELLS[shell], pty=True, wait="input", timeout_ms=20_000)
    line = LEAVES.format(MODES[protocol])
    state = desk.apply(handle, {"line": line}, wait="pattern", pattern="ready[?]$")
    assert state["waited"] == "matched"
    desk.apply(handle, {"line": ""}, wait="pattern", pattern="(?i)killed")
    desk.fetch(handle, wait="input", timeout_ms=20_000)
    desk.apply(handle, {"text": "false wrong"}, wait="none")
    desk.apply(handle, {"keys": ["C-u"]}, wait="none")
    state = desk.apply(handle, {"line": "echo cl''ean"}, wait="pattern", pattern="^clean")
    assert state["waited"] == "matched"
    desk.abort(handle, grace_ms=0)


def test_RB_085_a_resumed_program_has_its_keyboard_protocol_again(
    desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "keys.py").write_text(SHOWS_KEYS)
    handle = desk.spawn(*SHELLS["bash"], pty=True, wait="input", cwd=str(tmp_path))
    line = f"{sys.executable} -S keys.py '\\33[>1u'"
    desk.apply(handle, {"line": line}, wait="pattern", pattern="key[?] $")
    state = desk.apply(handle, {"keys": ["C-u"]}, wait="pattern", pattern="<1b5b3131373b3575>")
    assert state["waited"] == "matched"
    desk.apply(handle, {"keys": ["s"]}, wait="pattern", pattern="Stopped")
    desk.fetch(handle, wait="input", timeout_ms=20_000)
    desk.apply(handle, {"text": "false wrong"}, wait="none")
    desk.apply(handle, {"keys": ["C-u"]}, wait="none")
    state = desk.apply(handle, {"line": "fg"}, wait="pattern", pattern="key[?] $")
    assert state["waited"] == "matched"
    state = desk.apply(handle, {"keys": ["C-u"]}, wait="pattern", pattern="<1b5b3131373b3575>")
    assert state["waited"] == "matched"
    desk.abort(handle, grace_ms=0)


CUT_OFF = {"title": "\\33]0;half", "device control": "\\33P+qhalf", "application": "\\33_Ghalf"}


@pytest.mark.parametrize("string", CUT_OFF)
def test_RB_085_a_prompt_is_seen_after_a_control_string_that_is_cut_off(
    desk: Desk, string: str
) -> None:
    script = f"printf 'one\\n{CUT_OFF[string]}\\nname? '; read x; echo got $x"
    handle = desk.spawn(sh=script, pty=True)
    state = desk.fetch(handle, wait="input", view="screen", timeout_ms=20_000)
    assert state["waited"] == "input"
    assert [line for line in state["screen"]["lines"] if line] == ["one", "name?"]
    assert text(desk.fetch(handle, cursor=0)).endswith("\nname? ")
    desk.apply(handle, {"line": "me"})
    assert text(desk.done(handle, cursor=0)).endswith("name? me\ngot me\n")


# -- RB-086: a program that ends in raw mode


RAW = "import os, tty; tty.setraw(0); {}"
ENDS = {
    "exit": "raise SystemExit(1)",
    "at once": "os._exit(0)",
    "killed": "os.kill(os.getpid(), 9)",
    "keys": "tty.setcbreak(0); os._exit(0)",
    "after a screen": "os.write(1, b'\\33[?1049h'); os._exit(1)",
}


@pytest.mark.parametrize("editing", [False, True], ids=["plain", "editing"])
@pytest.mark.parametrize("way", ENDS)
def test_RB_086_a_shell_goes_on_after_a_program_left_its_terminal_raw(
    desk: Desk, way: str, editing: bool
) -> None:
    script = RAW.format(ENDS[way])
    args = {"editing": editing}
    desk.wire.call("spawn", session=desk.session, tool="shell", id="sh", args=args, wait="input")
    for _ in range(2):
        desk.apply("sh", {"line": f'{PYTHON} -S -c "{script}"'}, wait="input", timeout_ms=20_000)
        state = desk.apply("sh", {"line": "echo al''ive"}, wait="input", timeout_ms=20_000)
        assert state["waited"] == "input" and "alive" in text(state), state
        assert state["input_wanted"]["prompt"] == "$ "
    desk.abort("sh", grace_ms=0)


def test_RB_086_modes_set_by_the_user_are_kept(desk: Desk) -> None:
    desk.wire.call("spawn", session=desk.session, tool="shell", id="sh", wait="input")
    desk.apply("sh", {"line": "stty -echo -icrnl intr ^X; x='a b'"}, wait="input")
    state = desk.apply(
        "sh", {"line": "/bin/false | /bin/true; stty -a; declare -p x"}, wait="input"
    )
    assert " -echo " in text(state) and "-icrnl" in text(state) and "intr = ^X" in text(state)
    state = desk.apply("sh", {"line": "(exit 3); env | grep -c PROMPT_COMMAND"}, wait="input")
    assert text(state).split()[0] == "0"
    state = desk.apply("sh", {"line": "(exit 7)"}, wait="input")
    state = desk.apply("sh", {"line": "echo $? $_ [$PROMPT_COMMAND]; set -eux"}, wait="input")
    assert text(state).splitlines()[0].startswith("7 ") and "[]" in text(state)
    for _ in range(2):
        state = desk.apply("sh", {"line": "/bin/true"}, wait="input")
        assert text(state).splitlines()[0] == "+ /bin/true", state
        assert "haft" not in text(state), state
    desk.abort("sh", grace_ms=0)


@pytest.mark.parametrize("rounds", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_a_shell_survives_the_interrupt_of_a_loop_of_short_commands(
    desk: Desk, rounds: int
) -> None:
    desk.wire.call("spawn", session=desk.session, tool="shell", id="sh", wait="input")
    for count in range(rounds):
        desk.apply(
            "sh",
            {"line": f"echo be''gun {count}; while :; do /bin/true; done"},
            wait="pattern",
            pattern=f"begun {count}\n",
        )
        waited = ""
        while waited != "input":
            state = desk.apply("sh", {"keys": ["C-c"]}, wait="input", timeout_ms=100)
            assert state["state"] == "running", state
            waited = state["waited"]
    desk.abort("sh", grace_ms=0)


# -- RB-087: output that changes nothing


@pytest.mark.parametrize("tick", ["0.05", "0.25", "1.0"])
@pytest.mark.parametrize("way", ["nothing", "hidden", "frame", "same"])
def test_RB_087_a_program_that_redraws_the_same_screen_is_waiting(
    desk: Desk, way: str, tick: str
) -> None:
    argv = (sys.executable, "-S", str(FIXTURES / "redraws.py"), way, tick)
    handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000)
    assert desk.last["waited"] == "input", desk.last
    for key in "abc":
        state = desk.apply(handle, {"keys": [key]}, wait="input", timeout_ms=20_000, view="screen")
        assert state["waited"] == "input" and state["input_wanted"]["kind"] == "key", state
        assert state["screen"]["lines"][0] == f"GOT {key}"
    desk.apply(handle, {"keys": ["q"]}, wait="stopped", timeout_ms=20_000)


@pytest.mark.parametrize("way", ["spinner", "colour", "lines"])
def test_RB_087_a_program_that_draws_changes_at_every_tick_is_running(desk: Desk, way: str) -> None:
    argv = (sys.executable, "-S", str(FIXTURES / "redraws.py"), way, "0.05")
    handle = desk.spawn(*argv, pty=True, wait="pattern", pattern="READY", timeout_ms=20_000)
    if way == "lines":  # until the screen is full of them
        desk.fetch(handle, wait="pattern", pattern="(tick\\n){30}", timeout_ms=20_000)
    state = desk.fetch(handle, wait="input", timeout_ms=1200)
    assert state["waited"] == "deadline", state


# -- RB-093: a program that a signal has stopped


def until_suspended(desk: Desk, handle: str, *, suspended: bool = True) -> dict[str, Any]:
    """Fetch until the input state becomes, or stops being, suspended."""
    until(
        lambda: desk.fetch(handle).get("suspended", False) == suspended,
        f"an input state with suspended={suspended}",
    )
    return desk.fetch(handle)


@pytest.mark.parametrize("pty", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    "sh",
    ["echo working; kill -STOP $$; echo resumed", "sh -c 'kill -STOP $$; echo resumed'; :"],
    ids=["itself", "below"],
)
def test_RB_093_a_stopped_program_is_suspended_until_it_is_sent_CONT(
    desk: Desk, pty: bool, sh: str
) -> None:
    handle = desk.spawn(sh=sh, pty=pty)
    state = until_suspended(desk, handle)
    assert state["state"] == "running" and '{"signal": "CONT"}' in state["hint"]
    state = desk.fetch(handle, wait="stopped", timeout_ms=100)
    assert (state["waited"], state["suspended"]) == ("deadline", True)
    (row,) = desk.wire.call("handles/list", session=desk.session)["handles"]
    assert (row["state"], row["suspended"], row["hint"]) == ("running", True, state["hint"])
    state = desk.apply(handle, {"signal": "CONT"}, wait="stopped", timeout_ms=20_000, view="all")
    assert text(state).endswith("resumed\n") and "suspended" not in state and "hint" not in state


def test_RB_093_a_shell_that_has_a_stopped_job_is_not_suspended_and_one_that_stops_itself_is(
    desk: Desk,
) -> None:
    handle = desk.spawn("bash", "--norc", "-i", pty=True, wait="input", timeout_ms=20_000)
    job = "sh -c 'echo u''p; exec sleep 1000'"
    desk.apply(handle, {"line": job}, wait="pattern", pattern="^up$", timeout_ms=20_000)
    desk.apply(handle, {"keys": ["C-z"]}, wait="pattern", pattern="Stopped", timeout_ms=20_000)
    assert desk.fetch(handle, wait="input", timeout_ms=20_000)["waited"] == "input"
    until_suspended(desk, handle, suspended=False)
    desk.apply(handle, {"line": "kill -STOP $$"}, wait="none")
    until_suspended(desk, handle)
    desk.apply(handle, {"signal": "CONT"}, wait="none")
    until_suspended(desk, handle, suspended=False)
    state = desk.apply(
        handle, {"line": "echo o''n"}, wait="pattern", pattern="^on$", timeout_ms=20_000
    )
    assert state["waited"] == "matched"
