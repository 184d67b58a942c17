from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haft_protocol.framing import Framer, encode_headers, encode_lines

BIG = 1 << 20

# A framer sees a message as bytes without a line end that begin like JSON.
messages = st.lists(
    st.binary(max_size=60).map(lambda body: b"{" + body.replace(b"\n", b".") + b"}"),
    min_size=1,
    max_size=6,
)
cuts = st.lists(st.integers(min_value=1, max_value=40), max_size=80)


def pieces(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    found, at = [], 0
    for size in sizes:
        if at >= len(data):
            break
        found.append(data[at : at + size])
        at += size
    found.append(data[at:])
    return found


def fed(data: bytes, sizes: Iterable[int], limit: int = BIG) -> tuple[list[bytes], Framer]:
    framer = Framer(limit)
    got = []
    for piece in pieces(data, sizes):
        got += framer.feed(piece)
    return got, framer


@given(messages, cuts)
def test_lines_survive_any_cut(sent: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(encode_lines, sent))
    got, framer = fed(stream, sizes)
    assert got == sent
    assert framer.kind == "lines"
    assert not framer.partial
    assert framer.fault is None


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=6), cuts)
def test_headers_survive_any_cut(sent: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(encode_headers, sent))
    got, framer = fed(stream, sizes)
    assert got == sent
    assert framer.kind == "headers"
    assert not framer.partial
    assert framer.fault is None


@pytest.mark.parametrize("encode", [encode_lines, encode_headers])
def test_a_message_in_parts_is_framed_as_a_whole_one(encode: Callable[..., bytes]) -> None:
    parts = (b'{"a":\n', b"", b"1", b"}\n")
    assert encode(*parts) == encode(b"".join(parts))


@pytest.mark.parametrize("encode", [encode_lines, encode_headers])
def test_byte_by_byte_gives_the_same_messages(encode: Callable[[bytes], bytes]) -> None:
    sent = [b'{"a":1}', b"[1]", b'{"b":"' + b"x" * 300 + b'"}']
    stream = b"".join(map(encode, sent))
    whole, _ = fed(stream, [])
    one, _ = fed(stream, [1] * len(stream))
    assert whole == one == sent


@given(messages, st.binary(max_size=30), cuts)
def test_invalid_bytes_do_not_affect_earlier_messages(
    sent: list[bytes], junk: bytes, sizes: list[int]
) -> None:
    for encode in (encode_lines, encode_headers):
        got, _ = fed(b"".join(map(encode, sent)) + junk, sizes)
        assert got[: len(sent)] == sent


@given(st.binary(max_size=200), cuts)
def test_any_bytes_in_any_cut_have_one_verdict(data: bytes, sizes: list[int]) -> None:
    """Messages and faults do not depend on how the bytes arrive."""
    whole, one = fed(data, [], 50), fed(data, sizes, 50)
    assert whole[0] == one[0]
    assert (whole[1].fault is None) == (one[1].fault is None)
    if whole[1].fault is not None and one[1].fault is not None:
        assert whole[1].fault.code == one[1].fault.code


@given(
    st.lists(
        st.sampled_from(
            [
                b"Content-Length: 3",
                b"content-length:2",
                b"Content-Length: x\r\n\r\n",
                b"X: y",
                b"\r\n",
                b"\n",
                b"{}x",
                b"ab",
                b"\r",
            ]
        ),
        max_size=12,
    ).map(b"".join),
    cuts,
)
@example(b"Content-Length: x\r\n\r\n", [1, 40, 2])
def test_any_header_like_bytes_in_any_cut_have_one_verdict(tail: bytes, sizes: list[int]) -> None:
    data = b"Content-Length: 2\r\n\r\n{}" + tail
    whole, one = fed(data, []), fed(data, sizes)
    assert whole[0] == one[0] or whole[1].fault is not None
    assert whole[0][0] == one[0][0] == b"{}"
    if one[1].fault is not None:
        assert whole[1].fault is not None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_framer_takes_any_read_size(kind: Callable[[bytes], Any]) -> None:
    framer = Framer(BIG)
    assert framer.feed(kind(b'{"a":1}\n{"b"')) == [b'{"a":1}']
    assert framer.feed(kind(b":2}\n")) == [b'{"b":2}']


def test_a_message_is_independent_of_the_read_buffer() -> None:
    framer, buffer = Framer(BIG), bytearray(b'{"a":1}\n{"b"')
    got = framer.feed(buffer)
    buffer[:] = b"#" * len(buffer)
    assert got + framer.feed(b":2}\n") == [b'{"a":1}', b'{"b":2}']


def test_blank_lines_and_carriage_returns_are_no_messages() -> None:
    got, framer = fed(b' \r\n\n{"a":1}\r\n\r\n \n[]\n  ', [])
    assert [message.strip() for message in got] == [b'{"a":1}', b"[]"]
    assert not framer.partial


def test_partial_reports_a_begun_message() -> None:
    framer, seen = Framer(BIG), []
    for piece in (b"", b"  ", b"{", b"}\n", b"[]\n{", b"}"):
        framer.feed(piece)
        seen.append(framer.partial)
    assert seen == [False, False, True, False, True, True]

    framer = Framer(BIG)
    for byte in encode_headers(b"{}")[:-1]:
        framer.feed(bytes([byte]))
        assert framer.partial
    framer.feed(b"}")
    assert not framer.partial


@pytest.mark.parametrize("last", [b"{}", b'{"a":', b"[]\r"])
def test_a_last_line_without_a_newline_is_a_message(last: bytes) -> None:
    got, framer = fed(b'{"a":1}\n' + last, [])
    assert got == [b'{"a":1}']
    assert framer.finish() == [last] and framer.fault is None
    assert framer.finish() == [] and not framer.partial


@pytest.mark.parametrize("stream", [b"", b" \n", b"{}\n", b"{}\n \r", encode_headers(b"{}")])
def test_a_stream_that_ends_between_messages_has_no_more(stream: bytes) -> None:
    _, framer = fed(stream, [])
    assert framer.finish() == [] and framer.fault is None


@given(st.integers(min_value=1, max_value=len(encode_headers(b"{}")) - 1))
def test_a_stream_that_ends_within_a_block_is_a_parse_error(size: int) -> None:
    got, framer = fed(encode_headers(b"{}")[:size], [])
    assert got == [] and framer.finish() == []
    assert framer.fault is not None and "ends within" in framer.fault.message


@pytest.mark.parametrize(
    "first", [b"x", b"GET / HTTP/1.1\r\n", b"\xef\xbb\xbf{}", b"\0", b'"a"\n', b"1\n"]
)
def test_U14_a_stream_with_another_beginning_is_a_parse_error(first: bytes) -> None:
    framer = Framer(BIG)
    assert framer.feed(first) == []
    assert framer.fault is not None
    assert framer.fault.code == -32700
    assert framer.feed(b"{}\n") == []


@given(st.integers(min_value=1, max_value=300), cuts)
def test_U04_a_line_at_the_limit_passes_and_one_byte_more_does_not(
    limit: int, sizes: list[int]
) -> None:
    line = b"[" * limit
    assert fed(line + b"\n", sizes, limit)[0] == [line]
    got, framer = fed(line + b"[\n", sizes, limit)
    assert got == []
    assert framer.fault is not None
    assert framer.fault.code == -32009
    assert framer.fault.data["limit"] == "max_message"
    assert framer.fault.data["value"] == limit
    assert "max_message" in framer.fault.message
    assert str(limit) in framer.fault.message


def test_U04_the_limit_is_applied_before_the_line_is_buffered() -> None:
    framer, fed_bytes, chunk = Framer(4 << 20), 0, b"[" * 65536
    while framer.fault is None:
        framer.feed(chunk)
        fed_bytes += len(chunk)
    assert fed_bytes <= (4 << 20) + len(chunk)
    assert len(framer._buffer) == 0


def test_U04_a_content_length_over_the_limit_is_refused_before_its_body() -> None:
    for length in (b"11", b"99999999999999999999999999", b"9" * 4000):
        framer = Framer(10)
        assert framer.feed(b"Content-Length: " + length + b"\r\n\r\n") == []
        assert framer.fault is not None
        assert framer.fault.code == -32009
        assert framer.fault.data["limit"] == "max_message"
    assert fed(encode_headers(b"x" * 10), [], 10)[0] == [b"x" * 10]


def test_U04_the_limit_holds_for_a_line_begun_behind_others() -> None:
    framer = Framer(10)
    assert framer.feed(b"{}\n" + b"[" * 10) == [b"{}"]
    assert framer.fault is None
    framer = Framer(10)
    assert framer.feed(b"{}\n" + b"[" * 11) == [b"{}"]
    assert framer.fault is not None
    assert not framer.partial


def test_U04_messages_before_the_fault_are_returned() -> None:
    framer = Framer(10)
    assert framer.feed(b"{}\n[]\n" + b"[" * 11 + b"\n{}\n") == [b"{}", b"[]"]
    assert framer.fault is not None
    framer = Framer(10)
    assert framer.feed(encode_headers(b"{}") + b"Content-Length: 11\r\n\r\n") == [b"{}"]
    assert framer.fault is not None


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1.0\r\n\r\n",
        b"Content-Length: 0x5\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"Content-Length: 1 2\r\n\r\n",
        b"Content-Length: \xd9\xa3\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        b"Content-Type: x\r\n\r\n",
        b"Content-Length\r\n\r\n",
        b"C\r\n\r\n",
        b"Content-Length: 2\r\n: 2\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"Content-Length: 2\nX: y\r\n\r\n",
        b"C" * 4097,
        b"Content-Length: 2\r\nX: " + b"y" * 4096 + b"\r\n\r\n{}",
    ],
)
def test_a_malformed_header_block_is_a_parse_error_in_any_cut(block: bytes) -> None:
    for sizes in ([], [1] * len(block), [4000]):
        got, framer = fed(block, sizes)
        assert got == []
        assert framer.fault is not None
        assert framer.fault.code == -32700


def test_a_header_block_may_have_other_headers_in_any_case_up_to_4_KiB() -> None:
    block = b"content-type: application/vscode-jsonrpc; charset=utf-8\r\ncOnTeNt-LeNgTh:  2 \r\n"
    assert fed(block + b"\r\n{}", [])[0] == [b"{}"]
    fill = 4096 - len(b"Content-Length: 2\r\nX: \r\n\r\n")
    block = b"Content-Length: 2\r\nX: " + b"y" * fill + b"\r\n\r\n"
    assert len(block) == 4096
    for sizes in ([], [1] * 5000, [4095], [4096], [4097]):
        assert fed(block + b"{}", sizes)[0] == [b"{}"]


def test_blanks_between_blocks_are_skipped() -> None:
    stream = b"\r\n" + encode_headers(b"{}") + b"\n \r\n" + encode_headers(b"[]") + b"\n"
    for sizes in ([], [1] * 100):
        got, framer = fed(stream, sizes)
        assert got == [b"{}", b"[]"]
        assert not framer.partial


def test_an_empty_body_is_a_message() -> None:
    assert fed(b"Content-Length: 0\r\n\r\n" + encode_headers(b"{}"), [])[0] == [b"", b"{}"]


def test_replies_use_the_peers_framing() -> None:
    framer = Framer(BIG)
    assert framer.frame(b"{}") == b"{}\n"
    framer.feed(b"Content-Length: 2\r\n\r\n{}")
    assert framer.frame(b"{}") == b"Content-Length: 2\r\n\r\n{}"
    framer = Framer(BIG)
    framer.feed(b"{}\n")
    assert framer.frame(b"{}") == b"{}\n"


def test_a_message_with_line_ends_in_it_stays_one_line() -> None:
    assert encode_lines(b'{\n"a": 1\n}') == b'{ "a": 1 }\n'


@pytest.mark.parametrize("encode", [encode_lines, encode_headers])
def test_a_long_message_in_small_pieces_is_not_quadratic(encode: Callable[[bytes], bytes]) -> None:
    """8 MiB in pieces of 4 KiB take about 10 ms; copying or searching anew each time takes
    seconds."""
    stream = encode(b"[" * (8 << 20))
    framer, got, begun = Framer(1 << 24), 0, time.process_time()
    for at in range(0, len(stream), 4096):
        got += len(framer.feed(stream[at : at + 4096]))
    assert got == 1
    assert time.process_time() - begun < 0.5
