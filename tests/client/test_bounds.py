from __future__ import annotations

from haft.request_params import own_bound


def test_the_bound_of_a_turns_end_includes_answer_and_wait() -> None:
    assert own_bound("turn/end", {}) == 120.0
    assert own_bound("turn/end", {"timeout_ms": 500}) == 1.0
    assert own_bound("turn/begin", {}) == 0.0


def test_the_bound_of_a_clients_question_is_its_own() -> None:
    assert own_bound("inquiries/ask", {}) is None
    assert own_bound("inquiries/ask", {"timeout_s": 300}) == 300.0
