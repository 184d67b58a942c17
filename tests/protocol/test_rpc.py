from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol import rpc
from haft_protocol.encoding import encode_error, encode_reply
from haft_protocol.errors import RpcError
from haft_protocol.rpc import Batch, Invalid, ParseFault, Request, Response, Single

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)
ids = (
    st.none()
    | st.integers(-(10**20) + 1, 10**20 - 1)
    | st.text(st.characters(codec="utf-8"), max_size=60)
)


def read(message: bytes, *, max_batch: int = 256, max_nesting: int = 64) -> rpc.Message:
    return rpc.read_message(message, max_batch=max_batch, max_nesting=max_nesting)


def single(message: bytes) -> rpc.Element:
    outcome = read(message)
    assert isinstance(outcome, Single), outcome
    return outcome.item


def refused(message: bytes) -> RpcError:
    outcome = read(message)
    assert isinstance(outcome, ParseFault), outcome
    return outcome.error


def invalid(message: bytes) -> Invalid:
    outcome = single(message)
    assert isinstance(outcome, Invalid), outcome
    return outcome


def request(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


@given(
    st.text(st.characters(codec="utf-8")),
    st.dictionaries(st.text(), values, max_size=3),
    ids,
    st.booleans(),
)
def test_a_request_is_parsed_as_written(
    method: str, params: dict[str, Any], id_: Any, pretty: bool
) -> None:
    message = json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": params, "id": id_},
        indent=2 if pretty else None,
    ).encode("utf-8", "surrogatepass")
    if b"\\ud" in message:
        return  # an unpaired surrogate, or a pair: test_U14 has those
    outcome = single(message)
    assert isinstance(outcome, Request)
    assert outcome.method == method
    assert outcome.params is not None
    assert json.loads(bytes(outcome.params)) == params
    assert outcome.id is not None
    assert json.loads(outcome.id) == id_


@given(ids)
def test_U17_an_id_is_echoed_exactly(id_: Any) -> None:
    written = json.dumps(id_).encode()
    outcome = single(b'{"jsonrpc":"2.0","method":"ping","id": ' + written + b" }")
    assert isinstance(outcome, Request)
    assert outcome.id == written
    assert b'"id":' + written + b"," in encode_reply(written, {})


@pytest.mark.parametrize(
    "written",
    [
        b"0",
        b"-1",
        b"1" * 20,
        b"-" + b"1" * 20,
        b'""',
        b'"a"',
        b'"\\u0061\\n"',
        b"null",
        b'"' + b"x" * 256 + b'"',
        b'"' + b"\\u00e9" * 128 + b'"',
    ],
)
def test_U17_valid_ids_are_accepted(written: bytes) -> None:
    outcome = single(b'{"jsonrpc":"2.0","method":"m","id":' + written + b"}")
    assert isinstance(outcome, Request)
    assert outcome.id == written


@pytest.mark.parametrize(
    "written",
    [
        b"1.0", b"1e2", b"1E2", b"-0.5", b"true", b"false", b"{}", b"[]", b'{"a":1}', b"[1]",
        b"1" * 21, b"1" * 30, b"-" + b"1" * 21, b'"' + b"x" * 257 + b'"',
        b'"' + b"x" * 1_000_000 + b'"', b'"' + b"\\u00e9" * 129 + b'"',
        '"é'.encode() + b"x" * 255 + b'"',
    ],
)  # fmt: skip
def test_U17_invalid_ids_are_refused_with_a_null_id(written: bytes) -> None:
    outcome = invalid(b'{"jsonrpc":"2.0","method":"m","id":' + written + b"}")
    assert outcome.error.code == -32600
    assert outcome.id == b"null"
    assert "256" in outcome.error.message
    for message in (
        b'{"jsonrpc":"2.0","method":5,"id":' + written + b"}",
        b'{"id":' + written + b"}",
    ):
        assert invalid(message).id == b"null"


def test_a_request_without_an_id_is_a_notification() -> None:
    outcome = single(request(method="m"))
    assert outcome == Request("m", None, None)


@pytest.mark.parametrize("version", [None, 2, 2.0, "1.0", "2", "2.00", ["2.0"]])
def test_another_version_is_an_invalid_request_with_its_id(version: Any) -> None:
    outcome = invalid(request(jsonrpc=version, method="m", id=7))
    assert (outcome.error.code, outcome.id) == (-32600, b"7")
    assert "2.0" in outcome.error.message
    assert invalid(b'{"method":"m","id":7}').error.code == -32600


@pytest.mark.parametrize("method", [None, 1, ["m"], {}, True])
def test_a_non_text_method_is_an_invalid_request(method: Any) -> None:
    outcome = invalid(request(method=method, id="x"))
    assert (outcome.error.code, outcome.id) == (-32600, b'"x"')
    assert "method" in outcome.error.message


def test_an_object_without_a_method_is_an_invalid_request() -> None:
    assert invalid(b"{}").error.code == -32600
    assert invalid(request(id=3, params={})).id == b"3"


@pytest.mark.parametrize("message", [b"1", b'"x"', b"null", b"true", b" 5 "])
def test_a_scalar_is_an_invalid_request(message: bytes) -> None:
    assert refused(message).code == -32600


def test_unknown_members_of_the_envelope_are_ignored() -> None:
    assert single(request(method="m", id=1, trace="x")) == Request("m", None, b"1")


def test_blanks_around_a_message_are_ignored() -> None:
    assert single(b" \r\n\t" + request(method="m") + b"\r\n") == Request("m", None, None)


# ── faults of the bytes ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"{]",
        b'{"a":}',
        b"{}x",
        b"{}{}",
        b"[1,]",
        b"nul",
        b"{'a':1}",
        b"\0",
        b'{"a":"\x01"}',
        b'{"a":01}',
        b'{"method":5,"id":}',
        b'[{"a":}]',
    ],
)
def test_invalid_json_is_a_parse_error(message: bytes) -> None:
    assert refused(message).code == -32700


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\\ud800",
        b"\\udc00",
        b"\\ud800\\u0041",
        b"\\uD83D",
    ],
)
@pytest.mark.parametrize("place", ["method", "params", "id", "key", "other"])
def test_U14_invalid_unicode_is_a_parse_error_anywhere(text: bytes, place: str) -> None:
    fields = {"jsonrpc": b'"2.0"', "method": b'"m"', "id": b"1"}
    quoted = b'"' + text + b'"'
    match place:
        case "params":
            fields["params"] = b'{"a":' + quoted + b"}"
        case "key":
            fields["params"] = b"{" + quoted + b":1}"
        case _:
            fields[place] = quoted
    message = (
        b"{" + b",".join(b'"%b":%b' % (key.encode(), value) for key, value in fields.items()) + b"}"
    )
    for whole in (message, b"[" + message + b"]"):
        assert refused(whole).code == -32700
        assert text.startswith(b"\\u") == ("surrogate pair" in refused(whole).message)


def test_U14_a_byte_order_mark_is_a_named_parse_error() -> None:
    error = refused(b"\xef\xbb\xbf" + request(method="m", id=1))
    assert error.code == -32700
    assert "byte order mark" in error.message


def test_U14_a_surrogate_pair_is_a_character() -> None:
    outcome = single(b'{"jsonrpc":"2.0","method":"\\ud83d\\ude00"}')
    assert isinstance(outcome, Request)
    assert outcome.method == "\N{GRINNING FACE}"


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"nan"])
def test_U15_an_invalid_number_is_a_parse_error(number: bytes) -> None:
    assert (
        refused(b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"a":' + number + b"}}").code
        == -32700
    )


@pytest.mark.parametrize("levels", [1_100, 100_000, 1_000_000])
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_U13_nesting_far_over_the_limit_is_a_parse_error_that_names_it(
    levels: int, pair: tuple[bytes, bytes]
) -> None:
    inner = pair[0] * levels + b"1" + pair[1] * levels
    for message in (inner, b'{"jsonrpc":"2.0","method":"m","id":1,"params":{"a":' + inner + b"}}"):
        error = refused(message)
        assert error.code == -32700
        assert "max_nesting" in error.message
        assert "64" in error.message


def test_U13_nesting_over_the_limit_is_refused_with_the_id() -> None:
    def message(levels: int) -> bytes:
        inner = levels - 1
        return request(method="m", id=9, params=json.loads("[" * inner + "]" * inner))

    assert isinstance(single(message(64)), Request)
    outcome = invalid(message(65))
    assert (outcome.error.code, outcome.id) == (-32009, b"9")
    assert outcome.error.data["limit"] == "max_nesting"
    assert "64" in outcome.error.message


def test_U13_in_a_batch_only_the_too_deep_element_is_refused() -> None:
    deep = request(method="m", id=2, params={"a": json.loads("[" * 63 + "]" * 63)})
    outcome = read(b"[" + request(method="m", id=1) + b"," + deep + b"]")
    assert isinstance(outcome, Batch)
    first, second = outcome.items
    assert isinstance(first, Request)
    assert isinstance(second, Invalid)
    assert (second.error.code, second.id) == (-32009, b"2")


# ── batches ──────────────────────────────────────────────────────────────────────────────────────


def test_each_element_of_a_batch_is_parsed_separately() -> None:
    outcome = read(
        b'[1, {"jsonrpc":"2.0","method":"m","id":1}, {"foo":1}, [], {"jsonrpc":"2.0","method":"n"}]'
    )
    assert isinstance(outcome, Batch)
    assert [type(item) for item in outcome.items] == [Invalid, Request, Invalid, Invalid, Request]
    assert all(item.error.code == -32600 for item in outcome.items if isinstance(item, Invalid))


def test_an_empty_batch_is_one_invalid_request() -> None:
    assert refused(b"[]").code == -32600
    assert refused(b" [ ] ").code == -32600


def test_U11_a_batch_at_the_limit_passes_and_one_more_is_one_error() -> None:
    one = request(method="m", id=1)
    outcome = read(b"[" + b",".join([one] * 256) + b"]")
    assert isinstance(outcome, Batch)
    assert len(outcome.items) == 256
    error = refused(b"[" + b",".join([one] * 257) + b"]")
    assert error.code == -32009
    assert error.data["limit"] == "max_batch"
    assert "256" in error.message


def test_U11_a_batch_of_thousands_is_one_small_error() -> None:
    for message in (b"[" + b",".join([b"{}"] * 33_825) + b"]", b"[" + b"1," * 4_000_000 + b"1]"):
        error = refused(message)
        assert error.data["limit"] == "max_batch"
        assert len(encode_error(b"null", error)) < 400


@given(st.lists(values, min_size=1, max_size=5))
def test_any_batch_gives_an_item_per_element(elements: list[Any]) -> None:
    message = msgspec.json.encode(elements)
    outcome = read(message)
    assert isinstance(outcome, Batch)
    assert len(outcome.items) == len(elements)


# ── responses from the peer ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}', b"1"),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}', b'"x"'),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}', b"null"),
        (b'{"id":1,"result":null}', b"1"),
        (b'{"result":1}', b"null"),
        (b'{"jsonrpc":5,"id":1,"result":1}', b"1"),
        (b'{"jsonrpc":"2.0","id":1.5,"result":1}', b"null"),
        (b'{"jsonrpc":"2.0","id":{},"result":1,"error":1}', b"null"),
    ],
)
def test_U19_an_invalid_response_is_never_answered(message: bytes, id_: bytes) -> None:
    outcome = single(message)
    assert isinstance(outcome, Response)
    assert outcome.id == id_


def test_U19_a_too_deep_response_is_ignored() -> None:
    outcome = single(b'{"id":1,"result":' + b"[" * 200 + b"]" * 200 + b"}")
    assert isinstance(outcome, Response)
    assert outcome.id == b"1"


# ── any bytes ────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=200) | values.map(lambda value: encode_reply(b"1", value)))
def test_any_bytes_are_parsed_without_an_exception(message: bytes) -> None:
    outcome = read(message)
    assert isinstance(outcome, Single | Batch | ParseFault)
    if isinstance(outcome, ParseFault):
        msgspec.json.decode(encode_error(b"null", outcome.error))


@given(st.data())
def test_a_damaged_message_is_parsed_without_an_exception(data: st.DataObject) -> None:
    whole = bytearray(
        b'[{"jsonrpc":"2.0","method":"m\\u00e9","id":"a","params":{"a":[1,2.5e1,"\xc3\xa9"]}},{"id":1,"result":1}]'
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    outcome = read(bytes(whole))
    assert isinstance(outcome, Single | Batch | ParseFault)
