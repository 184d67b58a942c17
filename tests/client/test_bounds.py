from __future__ import annotations

import argparse

import pytest

from haft import ReplyTimeout
from haft.cli import read_options
from haft.cli.options import connect_plainly
from haft.request_params import own_bound
from tests.client.conftest import Serve
from tests.client.fake import LATER


def test_the_bound_of_a_turns_end_includes_answer_and_wait() -> None:
    assert own_bound("turn/end", {}) == 120.0
    assert own_bound("turn/end", {"timeout_ms": 500}) == 1.0
    assert own_bound("turn/begin", {}) == 0.0


def test_the_bound_of_a_clients_question_is_its_own() -> None:
    assert own_bound("inquiries/ask", {}) is None
    assert own_bound("inquiries/ask", {"timeout_s": 300}) == 300.0


def test_a_daemon_that_does_not_answer_is_reported_during_the_wait(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(read_options, "_UNRESPONSIVE_S", 0.01)
    monkeypatch.setattr(read_options, "_SILENCE_S", 0.01)
    serve(lambda request, peer: LATER)
    options = argparse.Namespace(
        address=None, socket=None, session=None, root=None, name="haft run"
    )
    with connect_plainly(options) as haft, pytest.raises(ReplyTimeout):
        with read_options.AwaitingApproval(haft, options, "a"):
            haft.raw("spawn", timeout=0.2)
    reported = capsys.readouterr().err
    assert reported.startswith("haft run: haftd does not answer; ") and "doctor" in reported
