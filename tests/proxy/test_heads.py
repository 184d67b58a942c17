"""Heads of requests to the proxy: parsed strictly, passed on without what concerns the proxy."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haftd.proxy.heads import BadRequest, parse_head, reply
from haftd.proxy.schemes import find_kind, find_permitted_kinds
from haftd.tools.definitions.access import AccessPolicy, NetRule


def head(first: str, *fields: str) -> bytes:
    return "\r\n".join((first, *fields, "", "")).encode()


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("a.org:443", "a.org", 443),
        ("A.org:1", "A.org", 1),
        ("[::1]:65535", "::1", 65535),
        ("127.1:80", "127.1", 80),
    ],
)
def test_a_tunnel_names_a_host_and_a_port(target: str, host: str, port: int) -> None:
    request_head = parse_head(head(f"CONNECT {target} HTTP/1.1"))
    assert (request_head.is_tunnel, request_head.host, request_head.port) == (True, host, port)


@pytest.mark.parametrize(
    "first",
    [
        "CONNECT a.org HTTP/1.1",
        "CONNECT a.org:0 HTTP/1.1",
        "CONNECT a.org:65536 HTTP/1.1",
        "CONNECT a.org:x HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT u@a.org:443 HTTP/1.1",
        "CONNECT ::1:443 HTTP/1.1",
        "CONNECT [::1%lo]:443 HTTP/1.1",
        "CONNECT http://a.org:443 HTTP/1.1",
        "CONNECT a.org:443 HTTP/2.0",
        "CONNECT  a.org:443 HTTP/1.1",
        "GET / HTTP/1.1",
        "GET https://a.org/ HTTP/1.1",
        "GET http://u@a.org/ HTTP/1.1",
        "GET http:///a HTTP/1.1",
        "GET ftp://a.org/ HTTP/1.1",
        "",
    ],
)
def test_another_request_is_refused(first: str) -> None:
    with pytest.raises(BadRequest):
        parse_head(head(first))


@pytest.mark.parametrize(
    "field", ["no colon", "A : b", " folded: line", "A: b\x00c", "A: b\nB: c", ": b"]
)
def test_a_wrong_field_is_refused(field: str) -> None:
    with pytest.raises(BadRequest):
        parse_head(head("GET http://a.org/ HTTP/1.1", field))


GOOD_HOSTS, BAD_HOSTS = [b"a.org", b"[::1]", b"127.1"], [b"", b"u@a", b"::1", b"[", b"a b"]
GOOD_PORTS, BAD_PORTS = [b":1", b":443", b":65535"], [b"", b":0", b":65536", b":x", b":"]
LINES = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from([b"CONNECT ", b"GET http://", b"post HTTP://", b"GET https://", b"\xff "]),
    st.sampled_from(GOOD_HOSTS) | st.sampled_from(GOOD_HOSTS + BAD_HOSTS),
    st.sampled_from(GOOD_PORTS) | st.sampled_from(GOOD_PORTS + BAD_PORTS),
    st.sampled_from([b"", b"/", b"/a?b", b"?q", b"#f"]),
    st.sampled_from([b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b""]),
)
FIELDS = st.lists(
    st.sampled_from([b"Host: b", b"A:", b"c:d", b": b", b" a: b", b"\x00"]), max_size=2
)


@given(st.builds(lambda first, fields: b"\r\n".join((first, *fields)), LINES, FIELDS))
@example(b"CONNECT a.org:443 HTTP/1.1\r\nHost: b")
@example(b"GET http://a.org HTTP/1.1")
@example(b"GET http://:1/ HTTP/1.1")
@example(b"CONNECT a.org:0 HTTP/1.1")
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        request_head = parse_head(data + b"\r\n\r\n")
    except BadRequest:
        return
    assert request_head.host and 0 < request_head.port < 65536


def test_a_request_is_passed_on_without_what_concerns_the_proxy() -> None:
    request_head = parse_head(
        head(
            "POST http://a.org:8080?q=1 HTTP/1.1",
            "Host: evil.org",
            "Proxy-Authorization: Basic eDp5",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Own",
            "X-Own: 1",
            "Upgrade: h2c",
            "Content-Length: 3",
            "X-Kept: 2",
        )
    )
    assert request_head.encode_for_server() == head(
        "POST /?q=1 HTTP/1.1",
        "Host: a.org:8080",
        "Content-Length: 3",
        "X-Kept: 2",
        "Connection: close",
    )
    assert request_head.body == 3 and request_head.credential == "y"
    short = parse_head(head("GET http://[::1] HTTP/1.1"))
    assert short.encode_for_server() == head("GET / HTTP/1.1", "Host: [::1]", "Connection: close")


def test_the_length_of_a_body_is_passed_on_whatever_the_connection_names() -> None:
    """Else the body would be a second request, for any host of the server."""
    fields = ("Connection: Content-Length, Transfer-Encoding", "Content-Length: 3")
    request_head = parse_head(head("POST http://a.org/ HTTP/1.1", *fields))
    assert b"Content-Length: 3\r\n" in request_head.encode_for_server()
    chunked = parse_head(head("POST http://a/ HTTP/1.1", fields[0], "Transfer-Encoding: chunked"))
    assert b"Transfer-Encoding: chunked\r\n" in chunked.encode_for_server()


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 1", "Content-Length: 1"],
        ["Content-Length: 1", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Content-Length: +1"],
        ["Content-Length: 1_0"],
    ],
)
def test_a_body_of_uncertain_length_is_refused(fields: list[str]) -> None:
    with pytest.raises(BadRequest):
        _ = parse_head(head("POST http://a.org/ HTTP/1.1", *fields)).body


@pytest.mark.parametrize(
    ("value", "credential"),
    [
        ("Basic " + base64.b64encode(b"haft:s3:cret").decode(), "s3:cret"),
        ("basic " + base64.b64encode(b"haft:x").decode(), "x"),
        ("Basic !!!", ""),
        ("Basic /w==", ""),
        ("Bearer x", ""),
    ],
)
def test_the_credential_is_the_password(value: str, credential: str) -> None:
    request_head = parse_head(head("CONNECT a:1 HTTP/1.1", f"Proxy-Authorization: {value}"))
    assert request_head.credential == credential
    assert "s3:cret" not in repr(reply("407 X", "y"))


@pytest.mark.parametrize("size", range(9))
def test_a_kind_is_not_decided_by_too_few_bytes(size: int) -> None:
    for data, kind, needed in (
        (b"\x16\x03\x01\x00\x05\x01\x00\x00", "tls", 2),
        (b"CONNECT ", "http", 8),
        (b"SSH-2.0-", "other", 4),
        (b"\x00bytes..", "other", 1),
    ):
        assert find_kind(data[:size]) == (kind if size >= needed else None)


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ([NetRule("a")], {"tls", "http", "other"}),
        ([NetRule("a", "https")], {"tls"}),
        ([NetRule("a", "wss")], {"tls"}),
        ([NetRule("a", "http")], {"http"}),
        ([NetRule("a", "ssh")], set()),
        ([NetRule("a"), NetRule("a", "https", allow=False)], {"http", "other"}),
        ([NetRule("a", "wss"), NetRule("a", "https", allow=False)], set()),
        ([NetRule("a", port=1)], set()),
        ([NetRule("b")], set()),
    ],
)
def test_a_rule_with_a_scheme_permits_bytes_of_that_scheme(
    rules: list[NetRule], kinds: set[str]
) -> None:
    assert find_permitted_kinds(AccessPolicy(net=tuple(rules)), "a", "93.184.216.34", 443) == kinds
