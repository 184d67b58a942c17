from __future__ import annotations

import base64
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

CANARY = "canary-41c9"

_sessions = itertools.count()

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
needs_ssh = pytest.mark.skipif(shutil.which("ssh-add") is None, reason="needs ssh")


class Asker:
    """A handle of `run` in its own session, whose program asks."""

    def __init__(self, wire: Wire, script: str, *, terminal: bool = False, **more: Any) -> None:
        self.wire = wire
        self.session = f"askpass{next(_sessions)}"
        args = {"argv": ["sh", "-c", script], "terminal": terminal}
        self.first = self.call(
            "spawn", tool="run", args=args, **{"wait": "input", "timeout_ms": 20_000} | more
        )

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, session=self.session, id="a", **params)

    def answer(self, value: object, **more: Any) -> Any:
        return self.call("apply", input=value, **{"wait": "stopped", "timeout_ms": 20_000} | more)


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    with shared_daemon.connect() as wire:
        yield wire


def text(state: dict[str, Any]) -> str:
    """Return the program's output, however the program ended."""
    return str(state.get("result", state.get("content"))).replace("\r\n", "\n")


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_sudo_style_prompt_is_a_secret_question(wire: Wire, terminal: bool) -> None:
    sudo = 'x=$("$SUDO_ASKPASS" "[sudo] password for me: ") && echo "got $x"; cat'
    asker = Asker(wire, sudo, terminal=terminal)
    assert (asker.first["state"], asker.first["waited"]) == ("waiting", "input")
    assert asker.first["question"] == {
        "id": "askpass.1",
        "text": "[sudo] password for me: ",
        "answer_type": {"type": "secret"},
    }
    with pytest.raises(Refused) as wrong:
        asker.answer(7)
    assert wrong.value.code == -32011
    state = asker.answer("a b\tc'é", wait="input")
    assert state["state"] == "running" and "got a b\tc'é\n" in state["content"].replace("\r", "")
    asker.call("abort")


class Guarded(BaseHTTPRequestHandler):
    """A server that requires a name and a password."""

    def do_GET(self) -> None:
        header = self.headers.get("Authorization")
        if header is not None:
            self.server.seen.append(base64.b64decode(header.split()[1]).decode())  # type: ignore[attr-defined]
        self.send_response(404 if header else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="here"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@needs_git
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_git_asks_for_a_name_openly_and_for_a_password_as_a_secret(
    wire: Wire, terminal: bool
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_address[1]}"
        asker = Asker(wire, f"git -c credential.helper= ls-remote {place}/r.git", terminal=terminal)
        question = asker.first["question"]
        assert question["text"] == f"Username for '{place}': "
        assert question["answer_type"] == {"type": "text"}
        state = asker.answer("ada", wait="input")
        assert state["question"]["text"] == f"Password for '{place.replace('//', '//ada@')}': "
        assert state["question"]["answer_type"] == {"type": "secret"}
        state = asker.answer(CANARY)
        assert state["exit"] == {"code": 128} and "not found" in text(state)
        server.shutdown()
        assert server.seen == [f"ada:{CANARY}"]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key of ssh that needs a passphrase."""
    path = tmp_path_factory.mktemp("ssh") / "key"
    make = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-a",
        "1",
        "-N",
        CANARY,
        "-C",
        "me",
        "-f",
        str(path),
    ]
    subprocess.run(make, check=True, capture_output=True)
    return path


@needs_ssh
def test_ssh_keygen_asks_for_a_passphrase(wire: Wire, key: Path) -> None:
    asker = Asker(wire, f"ssh-keygen -y -f {key}")
    assert asker.first["question"]["answer_type"] == {"type": "secret"}
    assert "passphrase" in asker.first["question"]["text"]
    assert text(asker.answer(CANARY)).startswith("ssh-ed25519 ")


@needs_ssh
def test_ssh_add_asks_again_after_a_wrong_passphrase(wire: Wire, key: Path) -> None:
    asker = Asker(wire, f"ssh-agent sh -c 'ssh-add {key} && ssh-add -l'")
    state = asker.answer("wrong", wait="input")
    assert "Bad passphrase" in state["question"]["text"]
    assert state["question"]["id"] == "askpass.2"
    assert "(ED25519)" in text(asker.answer(CANARY))


@needs_ssh
def test_on_a_terminal_ssh_asks_there(wire: Wire, key: Path) -> None:
    asker = Asker(wire, f"ssh-keygen -y -f {key}", terminal=True)
    assert asker.first["state"] == "running" and asker.first["input_wanted"]["kind"] == "secret"
    assert "ssh-ed25519 " in text(asker.answer({"line": CANARY, "secret": True}))


@pytest.mark.parametrize(("answer", "status"), [(True, 0), (False, 1)])
def test_a_confirmation_is_answered_by_the_exit_status(
    wire: Wire, answer: bool, status: int
) -> None:
    asker = Asker(
        wire, 'SSH_ASKPASS_PROMPT=confirm "$SSH_ASKPASS" "Allow use of key?"; echo "<$?>"'
    )
    assert asker.first["question"]["answer_type"] == {"type": "boolean"}
    assert text(asker.answer(answer)) == f"<{status}>\n"


def test_an_informational_prompt_asks_nothing(wire: Wire) -> None:
    show = 'SSH_ASKPASS_PROMPT=none "$SSH_ASKPASS" "Touch the key"; echo "<$?>"'
    assert text(Asker(wire, show, wait="stopped").first) == "<0>\n"


HOST = """The authenticity of host 'here' can't be established.
ED25519 key fingerprint is SHA256:abc.
Are you sure you want to continue connecting (yes/no/[fingerprint])? """


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        (HOST, "text"),
        ("Please type 'yes', 'no' or the fingerprint: ", "text"),
        ("Username for 'https://here': ", "text"),
        ("Password for 'https://me@here': ", "secret"),
        ("Enter passphrase for key '/k': ", "secret"),
        ("Password (yes/no)?\nreally: ", "secret"),
        ("", "secret"),
    ],
)
def test_only_known_open_prompts_are_not_secret(wire: Wire, prompt: str, kind: str) -> None:
    asker = Asker(wire, f'"$SSH_ASKPASS" {shlex.quote(prompt)}')
    assert asker.first["question"]["answer_type"] == {"type": kind}
    assert asker.first["question"]["text"] == prompt
    asker.call("abort")


def test_twenty_prompts_at_once_are_asked_in_turn(wire: Wire) -> None:
    ask = 'for n in $(seq 20); do (echo "$n=$("$SSH_ASKPASS" "n$n ")") & done; wait'
    asker = Asker(wire, ask)
    state = asker.first
    for count in range(1, 21):
        assert state["state"] == "waiting"
        name = state["question"]["text"]
        more = {"wait": "input"} if count < 20 else {}
        state = asker.answer(name[1:].strip() + "!", **more)
        while count < 20 and state["state"] == "running":
            state = asker.call("fetch", wait="input", timeout_ms=20_000)
    lines = asker.call("fetch", view="all").get("result", "").split()
    assert sorted(lines) == sorted(f"{n}={n}!" for n in range(1, 21))


def until(one: Asker, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Poll a condition that no call can wait for."""
    for _ in range(20_000):
        state: dict[str, Any] = one.call("fetch", view="all", wait="none")
        if holds(state):
            return state
    raise AssertionError(state)


def test_after_a_killed_helper_the_next_one_is_asked(wire: Wire) -> None:
    two = " ".join(f'"$SSH_ASKPASS" {name} & echo {name} $!;' for name in ("one", "two"))
    asker = Asker(wire, f"{two} wait; cat")
    state = until(
        asker, lambda state: state["state"] == "waiting" and state["content"].count("\n") == 2
    )
    asked = state["question"]["text"]
    pids = dict(line.split() for line in state["content"].splitlines())
    os.kill(int(pids.pop(asked)), signal.SIGKILL)
    state = until(asker, lambda state: state.get("question", {}).get("text") in pids)
    assert "yes\n" in asker.answer("yes", wait="output", view="all")["content"]
    asker.call("abort")


def test_a_killed_helper_leaves_the_handle_running(wire: Wire) -> None:
    asker = Asker(wire, 'sh -c \'echo $$; exec "$SSH_ASKPASS" x\'; echo "<$?>"; cat', view="all")
    assert asker.first["state"] == "waiting"
    os.kill(int(asker.first["content"]), signal.SIGKILL)
    state = until(asker, lambda state: state["state"] == "running" and "<137>" in state["content"])
    assert "question" not in state
    state = asker.call("apply", input={"line": "as before"}, wait="pattern", pattern="as before")
    assert state["waited"] == "matched"
    asker.call("abort")


def test_an_answer_to_a_withdrawn_question_is_not_typed(wire: Wire) -> None:
    asker = Asker(wire, "sh -c 'echo $$; exec \"$SSH_ASKPASS\" x'; cat", view="all")
    os.kill(int(asker.first["content"]), signal.SIGKILL)
    until(asker, lambda state: state["state"] == "running")
    with pytest.raises(Refused) as late:
        asker.answer(f"{CANARY}\n", question="askpass.1")
    assert late.value.code == -32011 and "askpass.1" in late.value.message
    state = asker.call("apply", input={"eof": True}, wait="stopped", view="all")
    assert CANARY not in text(state)


def test_an_answer_may_name_its_question(wire: Wire) -> None:
    asker = Asker(wire, '"$SSH_ASKPASS" x')
    with pytest.raises(Refused) as other:
        asker.answer("y", question="askpass.2")
    assert other.value.code == -32011
    assert text(asker.answer("y", question="askpass.1")) == "y\n"


def test_a_user_answers_on_the_command_line(shared_daemon: RunningDaemon, wire: Wire) -> None:
    asker = Asker(wire, '"$SSH_ASKPASS" "x: "')
    words = ["--session", asker.session, "apply", "a", "-"]
    done = run_haft(words, env=shared_daemon.env, given=f"{CANARY}\n")
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stderr
    assert text(asker.call("fetch", wait="stopped", view="all")) == f"{CANARY}\n"


def test_an_abort_ends_the_question(wire: Wire) -> None:
    asker = Asker(wire, '"$SSH_ASKPASS" x')
    state = asker.call("abort")
    assert (state["state"], state["ended_by"]["by"]) == ("stopped", "abort")
    assert "question" not in state


def test_a_process_left_behind_cannot_ask(wire: Wire, tmp_path: Path) -> None:
    told = tmp_path / "told"
    ask = f'(sleep 0.1; "$SSH_ASKPASS" x >{told} 2>&1; echo $? >>{told}; sync {told}) >/dev/null &'
    asker = Asker(wire, ask, wait="stopped")
    assert asker.first["state"] == "stopped"
    wire.call("session/list")
    state = asker.call("fetch")
    while state.get("left_behind"):
        state = asker.call("fetch", wait="none")
    message, status = told.read_text().splitlines()
    assert status == "1"
    assert (
        message
        == "haft-askpass: Handle 'a' has ended; `fetch` still reads it. To continue, start it again."
    )


def test_a_question_outlives_its_client(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        asker = Asker(wire, '"$SSH_ASKPASS" x')
    with shared_daemon.connect() as wire:
        asker.wire = wire
        assert asker.call("fetch")["question"]["text"] == "x"
        assert text(asker.answer("later")) == "later\n"


def test_a_signal_and_a_resize_reach_the_asking_program(wire: Wire) -> None:
    asker = Asker(wire, '"$SUDO_ASKPASS" x', terminal=True)
    state = asker.call("apply", input={"resize": {"rows": 30, "cols": 90}}, wait="none")
    assert state["state"] == "waiting"
    state = asker.answer({"signal": "INT"})
    assert state["state"] == "stopped"


ASK_DIRECTLY = """
import json, os, socket, sys
mark, prompt = sys.argv[1], sys.argv[2] * int(sys.argv[3])
with socket.socket(socket.AF_UNIX) as end:
    end.connect(os.environ["HAFT_SOCKET"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "askpass", "params": {"mark": mark, "prompt": prompt}}
    end.sendall(json.dumps(call).encode() + b"\\n")
    print(end.makefile().readline(), end="")
"""


def directly(mark: str, prompt: str = "x", times: int = 1) -> str:
    """A script that asks without the helper."""
    words = (sys.executable, "-S", "-c", ASK_DIRECTLY)
    return f"{shlex.join(words)} {mark} {shlex.quote(prompt)} {times}"


def test_a_forged_process_tag_reveals_nothing(shared_daemon: RunningDaemon, wire: Wire) -> None:
    victim = Asker(wire, 'echo "$HAFT_HANDLE"; cat', wait="output")
    mark = victim.first["content"].strip()
    refused = set()
    for which in (mark, mark[:-1] + "9999", "''", mark.partition(".")[0]):
        state = Asker(wire, directly(which), wait="stopped").first
        refused.add(json.dumps(json.loads(text(state))["error"], sort_keys=True))
    for direct in (mark, "nobody"):
        with pytest.raises(Refused) as caught:
            wire.call("askpass", mark=direct, prompt="x")
        refused.add(
            json.dumps(
                {
                    "code": caught.value.code,
                    "message": caught.value.message,
                    "data": caught.value.data,
                },
                sort_keys=True,
            )
        )
    assert len(refused) == 1 and json.loads(refused.pop())["code"] == -32001
    assert victim.call("fetch")["state"] == "running"
    victim.call("abort")


def test_a_hostile_prompt_is_cut_and_cleaned(wire: Wire) -> None:
    asker = Asker(
        wire,
        directly('"$HAFT_HANDLE"', "\x1b[31m\x1b]0;t\x07\x00\u202ea\r\b".replace("\0", ""), 80_000),
    )
    shown = asker.first["question"]["text"]
    assert len(shown.encode()) <= 4096 and set(shown) <= {"a", " ", "…"}
    asker.call("abort")


def test_the_environment_names_the_askpass_helper(shared_daemon: RunningDaemon, wire: Wire) -> None:
    helper = str(Path(sys.executable).parent / "haft-askpass")
    named = (
        "SUDO_ASKPASS",
        "SSH_ASKPASS",
        "GIT_ASKPASS",
        "SSH_ASKPASS_REQUIRE",
        "HAFT_SOCKET",
    )
    script = "; ".join(f'echo "${{{name}-}}"' for name in named)
    theirs = {"SSH_ASKPASS": "/theirs", "SSH_ASKPASS_REQUIRE": "never", "GIT_ASKPASS": "/theirs"}
    for terminal, require in ((False, "force"), (True, "")):
        for env in ({}, {"env": theirs}):
            state = Asker(wire, script, terminal=terminal, wait="stopped", **env).first
            expected = [helper, helper, helper, require, str(shared_daemon.socket)]
            assert text(state).split("\n")[:5] == expected


@needs_ssh
def test_the_answer_reaches_the_asking_program_only(daemon: RunningDaemon, key: Path) -> None:
    with daemon.connect() as wire:
        wire.call("initialize", client={"name": "vim"}, protocol=1)
        asker = Asker(
            wire,
            f'ssh-keygen -y -f {key} >/dev/null; "$SUDO_ASKPASS" "Username for \'x\': " >/dev/null',
        )
        asker.answer(CANARY, wait="input")
        state = asker.answer(f"{CANARY}2")
        assert state["exit"] == {"code": 0}
    daemon.stop()
    for folder in (daemon.state, daemon.runtime, daemon.home):
        for file in folder.rglob("*"):
            assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
    assert CANARY not in daemon.log_text()
    lines = (daemon.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines][1:]
    told = [
        (record["event"], record["client"].get("name"), record["question"]) for record in records
    ]
    assert told == [
        ("apply", "vim", "askpass.1"),
        ("askpass", None, "askpass.1"),
        ("apply", "vim", "askpass.2"),
        ("askpass", None, "askpass.2"),
    ]
    assert all(record["withheld"] for record in records if record["event"] == "apply")


def test_outside_haft_the_helper_reports_an_error() -> None:
    helper = Path(sys.executable).parent / "haft-askpass"
    env = {key: value for key, value in os.environ.items() if not key.startswith("HAFT_")}
    gone = {"HAFT_HANDLE": "x", "HAFT_SOCKET": "/no/such/socket"}
    for more, word in (({}, "programs that haftd runs"), (gone, "cannot be asked")):
        done = subprocess.run([helper, "x"], env=env | more, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert word in done.stderr and done.stderr.count("\n") == 1
