"""Of several clients that show a terminal, the latest to resize or type owns the size."""

from __future__ import annotations

from haftd.core.terminal_sizes import TerminalSizes


def test_the_latest_client_to_type_gets_its_size_back() -> None:
    sizes = TerminalSizes()
    sizes.resize("a", (50, 100))
    sizes.resize("b", (24, 80))
    assert (sizes.owner, sizes.current) == ("b", (24, 80))
    assert sizes.wanted("b") is None and not sizes.claim("b")
    assert sizes.wanted("a") == (50, 100)
    assert (sizes.owner, sizes.current) == ("b", (24, 80)), "it has not typed yet"
    assert sizes.claim("a")
    assert (sizes.owner, sizes.current) == ("a", (50, 100))
    assert sizes.wanted("a") is None and not sizes.claim("a")


def test_a_client_without_a_size_types_without_a_claim() -> None:
    sizes = TerminalSizes()
    assert not sizes.claim("assistant") and sizes.owner is None
    sizes.resize("a", (50, 100))
    assert sizes.wanted("assistant") is None
    assert not sizes.claim("assistant") and sizes.owner == "a"


def test_equal_sizes_need_no_resize_but_change_the_owner() -> None:
    sizes = TerminalSizes()
    sizes.resize("a", (24, 80))
    sizes.resize("b", (24, 80))
    assert sizes.wanted("a") is None
    assert sizes.claim("a") and sizes.owner == "a"


def test_a_departure_keeps_the_size_and_ends_the_claim() -> None:
    sizes = TerminalSizes()
    sizes.resize("a", (50, 100))
    sizes.resize("b", (24, 80))
    assert not sizes.leave("a")
    assert sizes.leave("b") and not sizes.leave("b")
    assert (sizes.owner, sizes.current) == (None, (24, 80))
    assert not sizes.claim("a") and sizes.owner is None
