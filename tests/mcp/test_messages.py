"""Messages of the bridge: decoded once, and refused with JSON-RPC's code."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from haft.mcp.messages import Capabilities, Fault, read

META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"v","progressToken":7}'


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        (b"{", -32700, "This line is not valid JSON."),
        (b'{"method":"\xff"}', -32700, "This line is not valid JSON."),
        (b'{"a":' * 100_000, -32700, "This line is not valid JSON."),
        (b"5", -32600, "This is not a JSON-RPC message."),
        (b'{"method":5}', -32600, "This is not a JSON-RPC message."),
        (b'{"id":1,"method":"m"}', -32600, "This is not a JSON-RPC 2.0 message."),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', -32600, "This is not a JSON-RPC 2.0 message."),
        (
            b'{"jsonrpc":"2.0","id":null,"method":"m"}',
            -32600,
            "This is not a JSON-RPC 2.0 message.",
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":5}', -32602, "The params are wrong: "),
    ],
)
def test_an_unreadable_line_is_a_fault_of_its_kind(line: bytes, code: int, why: str) -> None:
    with pytest.raises(Fault, match=why) as raised:
        read(line)
    assert (raised.value.code, raised.value.data) == (code, None)


@pytest.mark.parametrize(
    ("capabilities", "takes"),
    [
        ({}, False),
        ({"elicitation": None}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": {"form": {}, "url": {}}}, True),
    ],
)
def test_a_client_takes_forms_by_a_mode_of_elicitation(
    capabilities: dict[str, object], takes: bool
) -> None:
    assert msgspec.convert(capabilities, Capabilities).takes_forms is takes


def test_the_meta_of_the_params_is_read_with_the_message() -> None:
    message, meta = read(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{%s}}' % META)
    assert (message.id, message.method) == (1, "m")
    assert not isinstance(meta, msgspec.UnsetType)
    assert (meta.version, meta.progress_token, meta.capabilities) == ("v", 7, UNSET)
    assert read(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}')[1] is UNSET
    assert read(b'{"jsonrpc":"2.0","id":1,"result":{}}')[1] is UNSET
