"""Long messages: values are counted before decoding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haft_protocol import rpc
from haft_protocol.errors import RpcError
from haft_protocol.json_text import ValueCounter
from haft_protocol.rpc import Batch, Invalid, ParseFault, Request, Response, Single


def request(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "m", **fields}).encode()


def read_counted(message: bytes, *, max_values: int, max_nesting: int = 64) -> rpc.Message:
    counter = ValueCounter(message, max_values)
    while not counter.step():
        pass
    return rpc.read_message(
        message,
        max_batch=256,
        max_nesting=max_nesting,
        max_values=max_values,
        value_count=counter.count,
    )


@pytest.mark.parametrize(("id_", "echoed"), [({"id": "a"}, b'"a"'), ({}, b"null")])
def test_a_message_of_too_many_values_is_refused_by_its_id(
    id_: dict[str, str], echoed: bytes
) -> None:
    message = request(params=[0] * 9, **id_)
    counter = ValueCounter(message, 99)
    counter.step()
    most = counter.count.values
    read = read_counted(message, max_values=most)
    assert isinstance(read, Single) and isinstance(read.item, Request)
    read = read_counted(message, max_values=most - 1)
    assert isinstance(read, Single) and isinstance(read.item, Invalid)
    assert read.item.id == echoed
    assert read.item.error.data == {
        "kind": "limit_exceeded",
        "limit": "max_values",
        "value": most - 1,
    }


def test_a_batch_of_too_many_values_is_one_error() -> None:
    message = b"[" + request(id=1, params=[0] * 9) + b"]"
    assert isinstance(read_counted(message, max_values=99), Batch)
    read = read_counted(message, max_values=9)
    assert isinstance(read, ParseFault) and read.error.data["limit"] == "max_values"


def test_too_many_values_are_reported_before_too_deep_nesting() -> None:
    """Its brackets were counted only up to the maximum of values."""
    message = request(id=1, params=json.loads("[" * 70 + "0" + "]" * 70))
    for max_values, limit in ((99, "max_nesting"), (9, "max_values")):
        read = read_counted(message, max_values=max_values)
        assert isinstance(read, Single) and isinstance(read.item, Invalid)
        assert read.item.error.data["limit"] == limit


def test_a_response_of_too_many_values_is_an_error_to_its_request() -> None:
    read = read_counted(b'{"jsonrpc":"2.0","id":7,"result":[1,2,3,4,5,6,7,8,9]}', max_values=9)
    assert isinstance(read, Single) and isinstance(read.item, Response)
    assert read.item.id == b"7" and read.item.result is None
    with pytest.raises(RpcError, match="too many names and values"):
        rpc.read_reply(read.item, max_nesting=64)
