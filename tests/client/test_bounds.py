from __future__ import annotations

import argparse
import threading
from typing import Any

import pytest

from haft import ReplyTimeout
from haft.__main__ import main
from haft.cli import options as options_module
from haft.cli import read_options, show
from haft.cli.options import connect_plainly
from haft.request_params import params_timeout
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, hello, running
from tests.patience import PATIENCE_S


def test_the_bound_of_a_turns_end_includes_answer_and_wait() -> None:
    assert params_timeout("turn/end", {}) == 120.0
    assert params_timeout("turn/end", {"timeout_ms": 500}) == 1.0
    assert params_timeout("turn/begin", {}) == 0.0


def test_the_bound_of_a_clients_question_is_its_own() -> None:
    assert params_timeout("inquiries/ask", {}) is None
    assert params_timeout("inquiries/ask", {"timeout_s": 300}) == 300.0


def silent(request: dict[str, Any], peer: Peer) -> object:
    return LATER


def test_a_daemon_that_does_not_answer_is_reported_during_the_wait(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(read_options, "_CHECK_S", 0.01)
    monkeypatch.setattr(read_options, "_APPROVAL_HINT_S", 0.01)
    monkeypatch.setattr(options_module, "_PING_S", 0.01)
    serve(silent).answer = silent
    options = argparse.Namespace(
        address=None, socket=None, session=None, root=None, name="haft run"
    )
    with connect_plainly(options) as haft, pytest.raises(ReplyTimeout):
        with read_options.AwaitingApproval(haft, options, "a"):
            haft.raw("spawn", timeout=0.2)
    reported = capsys.readouterr().err
    assert reported.startswith("haft run: haftd does not answer; ") and "doctor" in reported


@pytest.mark.parametrize("words", [["ps"], ["run", "-d", "--id", "a", "--", "true"]])
def test_each_command_reports_a_daemon_that_does_not_answer(
    words: list[str],
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(options_module, "_PING_S", 0.01)
    monkeypatch.setattr(options_module, "_UNANSWERED_S", 0.01)

    def answer(request: dict[str, Any], peer: Peer) -> object:
        if request["method"] == "ping":
            return LATER
        if request["method"] != "initialize":
            assert reported.wait(PATIENCE_S)
        return hello(request) or ({"handles": []} if words == ["ps"] else running("a"))

    # The ping may be given up before it is read.
    reported = threading.Event()
    show_line = show.line

    def line(*text: str) -> None:
        show_line(*text)
        reported.set()

    monkeypatch.setattr(show, "line", line)
    serve(answer).answer = answer
    assert main(words) == 0
    assert capsys.readouterr().err.startswith(f"haft {words[0]}: haftd does not answer; ")
