"""`haft` as a program: imports and exit statuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, running, stopped

HAFT = [sys.executable, "-m", "haft"]


ALLOWED = {
    *("__future__", "argparse", "gc", "haft.import_stubs"),
    *("json", "json.decoder", "json.encoder", "json.scanner", "_json"),
    *("_socket", "select", "errno", "signal", "haft.interrupts"),
    *("haft", "haft.__main__", "haft.cli", "haft.cli.commands"),
    *("haft.cli.options", "haft.cli.parsers", "haft.cli.replies", "haft.cli.show"),
    *("haft.address_choice", "haft.blocking_connection", "haft.connection", "haft.daemon_socket"),
    *("haft.errors", "haft.exchange", "haft.json_exchange", "haft.local_address"),
    *("haft.request_params", "haft_protocol", "haft_protocol.constants", "haft_protocol.paths"),
}
"""Modules of a short command, beside those of the interpreter and of the script that pip writes."""


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["ps"], {"haft.cli.commands.ps"}),
        (["fetch", "a"], {"haft.cli.commands.fetch", "haft.cli.read_options", "haft.cli.statuses"}),
    ],
)
def test_a_short_command_imports_only_the_modules_it_needs(
    serve: Serve, words: list[str], own: set[str]
) -> None:
    serve(
        lambda request, peer: stopped("a", "") if request["method"] == "fetch" else {"handles": []}
    )
    code = (
        "import re, sys, importlib; before = {*sys.modules}; from haft.__main__ import main;"
        f"status = main({words!r}); print(status, *({{*sys.modules}} - before))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *loaded = out.stdout.splitlines()[-1].split()
    assert status == "0"
    assert set(loaded) - ALLOWED - own == set()


def test_the_package_imports_nothing() -> None:
    code = "import sys, haft; print(*{m.partition('.')[0] for m in sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"msgspec", "haft_protocol", "socket"} & set(out.stdout.split())


def test_a_closed_output_pipe_ends_the_command_silently(serve: Serve) -> None:
    serve(lambda request, peer: stopped("a", "line\n" * 200_000, cursor=1_000_000))
    with subprocess.Popen(
        [*HAFT, "logs", "a"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as logs:
        assert logs.stdout is not None and logs.stderr is not None
        assert logs.stdout.readline() == b"line\n"
        logs.stdout.close()
        assert logs.stderr.read() == b""
        assert logs.wait(20) == 141


def test_ctrl_c_ends_the_command_silently(serve: Serve) -> None:
    asked = threading.Event()

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        asked.set()
        return LATER

    serve(answer)
    with subprocess.Popen(
        [*HAFT, "logs", "a", "-f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as logs:
        assert asked.wait(20)
        logs.send_signal(signal.SIGINT)
        out, err = logs.communicate(timeout=20)
        assert (out, err, logs.returncode) == (b"", b"", 130)


@pytest.mark.parametrize(
    ("closed", "status"), [("<&-", 0), (">&-", 6), ("2>&-", 0), ("<&- >&- 2>&-", 6)]
)
def test_a_closed_standard_output_is_no_success(serve: Serve, closed: str, status: int) -> None:
    daemon = serve(lambda request, peer: running("a", "text\n"))
    command = f'exec "$@" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *HAFT, "fetch", "a"], stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == status
    is_reported = status != 0 and "2>&-" not in closed
    assert ("haft fetch: the output cannot be written" in done.stderr) == is_reported
    assert len(daemon.calls("fetch")) == 1


def test_nothing_to_write_needs_no_standard_output(serve: Serve) -> None:
    serve(lambda request, peer: running("a", ""))
    command = 'exec "$@" >&-'
    assert subprocess.run(["/bin/sh", "-c", command, "sh", *HAFT, "fetch", "a"]).returncode == 0


def test_output_is_utf8_in_any_locale(serve: Serve) -> None:
    serve(lambda request, peer: running("a", "größe ✓\n"))
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    out = subprocess.run([*HAFT, "fetch", "a"], env=env, capture_output=True, check=True)
    assert out.stdout == "größe ✓\n".encode()


def test_a_secret_is_read_from_stdin_and_is_not_in_the_command(serve: Serve) -> None:
    daemon = serve(lambda request, peer: running("a"))
    subprocess.run(
        [*HAFT, "apply", "a", "--line", "-", "--secret"], input=b"hunter2\nmore\n", check=True
    )
    assert daemon.calls("apply")[0]["input"] == {"line": "hunter2", "secret": True}


_ENDED = """
import {modules}
class Kept:
    def __del__(self, write=os.write):
        write(1, b"taken apart")
kept = Kept()
sys.stdout.write({pending!r})
from haft.__main__ import main
sys.exit(main())
"""


def _ended(*words: str, modules: str = "os, sys", pending: str) -> list[str]:
    """Return a command line that runs `haft`, with output before it that is not written yet."""
    return [sys.executable, "-c", _ENDED.format(modules=modules, pending=pending), *words]


@pytest.fixture
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.mark.usefixtures("buffered")
@pytest.mark.parametrize(
    ("more", "written"), [("", "pending\n"), (", atexit", "pending\ntaken apart")]
)
def test_a_command_ends_without_taking_the_interpreter_apart_unless_something_awaits_its_exit(
    serve: Serve, more: str, written: str
) -> None:
    serve(lambda request, peer: {"handles": []})
    words = _ended("ps", "-q", modules="os, sys" + more, pending="pending\n")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, written, "")


@pytest.mark.usefixtures("buffered")
def test_output_that_cannot_be_written_at_the_exit_is_reported() -> None:
    with open("/dev/full", "w") as full:
        words = _ended("fetch", pending="x")
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 120
    assert b"No space left on device" in done.stderr


def test_no_garbage_is_collected_while_a_command_is_read_but_while_it_runs(serve: Serve) -> None:
    serve(lambda request, peer: {"handles": []})
    code = (
        "import atexit, gc, sys; phases = []; gc.callbacks.append(lambda phase, info: phases.append(phase));"
        "import haft.__main__ as program; read = program._read; gc.set_threshold(1)\n"
        "def counted(*words):\n"
        "    before = len(phases); run = read(*words)\n"
        "    print(len(phases) - before, gc.isenabled()); return run\n"
        "program._read = counted; status = program.main(); print(status, gc.isenabled())"
    )
    words = [sys.executable, "-c", code, "ps", "-q"]
    out = subprocess.run(words, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["0", "False", "0", "True"]
