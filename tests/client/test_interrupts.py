"""Signals before the command runs: no traceback, and no command that runs on unseen."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from haft.interrupts import INTERRUPTED
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, running, stopped

APPROVAL = {
    "approval_id": "3f9a1c07", "session": "default", "tool": "run", "action": "spawn", "id": "h",
    "arguments": {}, "rendered": "{}", "mode": "ask",
}  # fmt: skip

_INTERRUPTED_AT = """
import os, signal, sys
def hook(event, arguments):
    if event == "import" and arguments[0] == "{name}":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from haft.__main__ import main
sys.exit(main())
"""
_INTERRUPTED_AFTERWARDS = """
import atexit, os, signal, sys
from haft.__main__ import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["json", "haft.interrupts", "argparse", "haft.json_exchange"])
def test_an_interrupted_import_is_no_traceback(serve: Serve, name: str) -> None:
    serve(lambda request, peer: {"handles": []})
    words = [sys.executable, "-c", _INTERRUPTED_AT.format(name=name), "ps"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "")


@pytest.mark.parametrize(
    ("program", "handler", "is_ended"),
    [
        ("/usr/bin/haft", "default_int_handler", True),
        ("haft", "default_int_handler", True),
        ("/usr/bin/haft", "SIG_IGN", False),
        ("/usr/bin/haftd", "default_int_handler", False),
        ("", "default_int_handler", False),
    ],
)
def test_an_interrupt_before_the_first_line_of_the_command_ends_it_without_a_traceback(
    program: str, handler: str, is_ended: bool
) -> None:
    """Only in the program itself: a library leaves the signals of its program alone."""
    code = (
        f"import sys, signal; sys.argv = [{program!r}]; signal.signal(signal.SIGINT, signal.{handler});"
        "import haft; print(signal.getsignal(signal.SIGINT) is signal.SIG_DFL);"
        "from haft.interrupts import guard_imports; guard_imports();"
        "print(getattr(signal.getsignal(signal.SIGINT), '__name__', 'SIG_IGN'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    guarded = "SIG_IGN" if handler == "SIG_IGN" else "_interrupt"
    assert done.stdout.split() == [str(is_ended), guarded]


def test_an_interrupt_at_the_exit_changes_nothing() -> None:
    words = [sys.executable, "-c", _INTERRUPTED_AFTERWARDS, "help", "ps"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_start_reaches_the_command(
    serve: Serve, number: signal.Signals
) -> None:
    """The signal comes while the daemon starts the command, and is forwarded once that runs."""
    spawns: list[dict[str, Any]] = []

    def answer(request: dict[str, Any], peer: Peer) -> object:
        match request["method"]:
            case "spawn":
                spawns.append(request)
                peer.signal(number)
                return LATER
            case "fetch":
                peer.reply(spawns[0], running("h"))
                return {**running("h"), "state": "pending"}
            case "subscribe":
                return {"subscription": "sub.1"}
        name = request["params"]["input"].get("signal")
        if name is None:
            return running("h")  # the end of the input
        end = {**stopped("h", None, exit={"signal": name}), "subscription": "sub.1"}
        end["error"] = {"message": "ended", "trace": [], "transient": False}
        peer.send({"jsonrpc": "2.0", "method": "handle/state", "params": end})
        return running("h")

    serve(answer)
    assert _run("--id", "h") == (128 + number, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_person_decides_ends_the_client(
    serve: Serve, number: signal.Signals
) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> object:
        match request["method"]:
            case "spawn":
                peer.signal(number)
                return LATER
            case "fetch":
                return {**running("h"), "state": "pending", "needs": "decision"}
            case "approvals/list":
                return {"approvals": [APPROVAL]}
        return LATER

    serve(answer)
    status, errors = _run("--id", "h")
    if number == signal.SIGINT:
        words = "haft run: interrupted; h was not started: its start awaited approval\n"
        assert (status, errors) == (INTERRUPTED, words)
    else:
        assert (status, errors) == (-number, "")


def test_a_signal_ends_a_client_whose_daemon_does_not_answer(serve: Serve) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> object:
        if request["method"] == "spawn":
            peer.signal(signal.SIGTERM)
        return LATER

    serve(answer)
    assert _run("--id", "h") == (-signal.SIGTERM, "")


def _run(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "haft", "run", *words, "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr
