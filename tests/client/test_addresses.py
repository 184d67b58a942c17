"""Addresses of daemons: forms, precedence, and errors without secrets."""

from __future__ import annotations

import pytest

from haft.address_choice import chosen_address
from haft.addresses import Address, Ssh, WebSocket, parse_address
from haft.errors import InvalidAddress
from haft.local_address import Local


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ssh://box", Ssh("box")),
        ("SSH://me@box:2222", Ssh("box", "me", 2222)),
        ("ssh://me@box/run/h.sock", Ssh("box", "me", None, "/run/h.sock")),
        ("ssh://box/a%20b/h.sock", Ssh("box", socket="/a b/h.sock")),
        ("ssh://[fe80::1%eth0]:22", Ssh("fe80::1%eth0", port=22)),
        ("ssh://box/", Ssh("box")),
        ("ws://127.0.0.1:7777", WebSocket("ws://127.0.0.1:7777/", "127.0.0.1")),
        ("wss://box/haft", WebSocket("wss://box/haft", "box")),
        ("ws://[::1]:7777/", WebSocket("ws://[::1]:7777/", "::1")),
        ("unix://", Local()),
        ("unix:///s/h.sock", Local("/s/h.sock")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "box",
        "ssh://",
        "ssh://-oProxyCommand=touch /tmp/x",
        "ssh://-oProxyCommand=x@box",
        "ssh://me@-box",
        "ssh://box:0",
        "ssh://box:65536",
        "ssh://box:٢٢",
        "ssh://box:",
        "ssh://a@b@c",
        "ssh://box/a/",
        "ssh://box/a%00b",
        "ssh://bo\nx",
        "ssh://box;reboot",
        "ssh://$(reboot)",
        "unix://relative",
        "http://box",
        "ws://",
    ],
)
def test_anything_else_is_one_sentence_that_names_the_source(text: str) -> None:
    with pytest.raises(InvalidAddress, match=r"^HAFT_HOST ") as refused:
        parse_address(text, "HAFT_HOST")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "ssh://me:s3cret@box",
        "tcp://me:s3cret@box",
        "ws://s3cret@box:1/",
        "wss://box/?token=s3cret",
        "wss://box/#s3cret",
        "me:s3cret@box",
    ],
)
def test_no_error_repeats_a_secret_of_an_address(text: str) -> None:
    with pytest.raises(InvalidAddress) as refused:
        parse_address(text)
    assert "s3cret" not in str(refused.value)


BOX, OTHER = "ssh://box", "ssh://other"


@pytest.mark.parametrize(
    ("host", "env", "socket", "address"),
    [
        (BOX, OTHER, "/s", Ssh("box")),
        (None, OTHER, "/s", Ssh("other")),
        (None, "", "/s", Local("/s")),
        (None, None, None, Local()),
        ("unix://", OTHER, "/s", Local()),
    ],
)
def test_an_option_precedes_the_environment_and_a_host_a_socket(
    host: str | None, env: str | None, socket: str | None, address: Address
) -> None:
    variables = {"HAFT_SOCKET": "/e"} if env is None else {"HAFT_SOCKET": "/e", "HAFT_HOST": env}
    assert chosen_address(host, socket, variables) == address


def test_a_wrong_port_is_shown() -> None:
    with pytest.raises(InvalidAddress, match="HAFT_HOST has 'notaport' after the colon"):
        parse_address("ssh://me@box:notaport", "HAFT_HOST")
