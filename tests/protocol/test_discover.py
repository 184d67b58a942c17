from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from msgspec import Raw

from haft_protocol.discover import document
from haft_protocol.encoding import encode_reply
from haft_protocol.errors import RpcError
from haft_protocol.methods import METHODS
from haft_protocol.rpc import read_params


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from nodes(inner)
    elif isinstance(node, list | tuple):
        for inner in node:
            yield from nodes(inner)


@pytest.fixture(scope="module")
def openrpc() -> dict[str, Any]:
    """Return the document as a client gets it: through JSON."""
    found: dict[str, Any] = json.loads(encode_reply(b"1", document("1.2.3")))["result"]
    return found


def test_every_method_is_listed_by_name(openrpc: dict[str, Any]) -> None:
    assert openrpc["openrpc"].startswith("1.")
    assert openrpc["info"]["version"] == "1.2.3"
    assert [method["name"] for method in openrpc["methods"]] == list(METHODS)
    for method in openrpc["methods"]:
        assert method["paramStructure"] == "by-name"
        assert method["summary"].endswith(".")
        assert {"name", "schema"} <= method["result"].keys()
        for param in method["params"]:
            assert param.keys() == {"name", "required", "schema"}
        required = [param["required"] for param in method["params"]]
        assert required == sorted(required, reverse=True)


def test_every_reference_resolves(openrpc: dict[str, Any]) -> None:
    references = {node["$ref"] for node in nodes(openrpc) if "$ref" in node}
    assert references
    for reference in references:
        found: Any = openrpc
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_every_schema_is_valid_and_its_patterns_are_json_schemas(openrpc: dict[str, Any]) -> None:
    for schema in openrpc["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    patterns = [n["pattern"] for n in nodes(openrpc) if isinstance(n.get("pattern"), str)]
    assert patterns
    assert not [pattern for pattern in patterns if "\\Z" in pattern or "\\A" in pattern]


@pytest.mark.parametrize(
    ("method", "params", "good"),
    [
        ("spawn", {"tool": "run", "id": "a", "args": {"argv": ["true"]}, "wait": "stopped"}, True),
        ("spawn", {"tool": "run", "id": "a", "env": {"A": None, "B": "x"}}, True),
        ("spawn", {"id": "a"}, False),
        ("spawn", {"tool": "run", "id": "a b"}, False),
        ("fetch", {"id": "a", "timout_ms": 1}, False),
        ("fetch", {"id": "a", "timeout_ms": -1}, False),
        ("fetch", {"id": "a", "view": "all", "cursor": 0}, True),
        ("fetch", {"id": "a", "wait": "soon"}, False),
        ("apply", {"id": "a"}, False),
        ("apply", {"id": "a", "input": {"line": "y"}}, True),
        ("await", {"all": ["a", "b"], "timeout_secs": 1.5}, True),
        ("await", {"all": "a"}, False),
        ("ping", {}, True),
        ("ping", {"root": "rel"}, False),
        ("handles/list", {"session": "*"}, True),
    ],
)
def test_the_schemas_judge_params_as_the_daemon_does(
    openrpc: dict[str, Any], method: str, params: dict[str, Any], good: bool
) -> None:
    kind = METHODS[method].params
    schema = {"$ref": f"#/components/schemas/{kind.__name__}", "components": openrpc["components"]}
    assert jsonschema.Draft202012Validator(schema).is_valid(params) is good
    raw = Raw(json.dumps(params).encode())
    if good:
        read_params(raw, kind)
    else:
        with pytest.raises(RpcError):
            read_params(raw, kind)


STATE = {"id": "a", "tool": "t", "session": "s", "cursor": 0, "generation": 1, "elapsed_ms": 1}
RIDING = {"call_id": "c", "notifications": []}
STOPPED = {**STATE, "state": "stopped", "ended_by": {"by": "exit"}, "result": ""}


@pytest.mark.parametrize(
    ("reply", "good"),
    [
        ({**STOPPED, **RIDING}, True),
        ({**STATE, "state": "running", "content": "", **RIDING}, True),
        ({**STATE, "state": "pending", "content": "", **RIDING}, True),
        ({"completed": [STOPPED], "pending": [], **RIDING}, True),
        (STOPPED, False),
        ({"completed": [], "pending": []}, False),
        ({**STATE, "state": "gone", "content": "", **RIDING}, False),
        ({**STATE, "state": "waiting", "content": "", **RIDING}, False),  # without its question
        ({**STOPPED, **RIDING, "notifications": [{"kind": "x"}]}, False),
        (RIDING, False),
    ],
)
def test_every_result_has_a_schema(
    openrpc: dict[str, Any], reply: dict[str, Any], good: bool
) -> None:
    (method,) = [method for method in openrpc["methods"] if method["name"] == "tools/call"]
    schema = {**method["result"]["schema"], "components": openrpc["components"]}
    assert jsonschema.Draft202012Validator(schema).is_valid(reply) is good


def test_every_error_of_haft_is_listed(openrpc: dict[str, Any]) -> None:
    assert openrpc["components"]["errors"]["handle_not_found"]["code"] == -32001
    assert openrpc["components"]["errors"]["request_cancelled"]["code"] == -32800


def test_the_document_is_made_once() -> None:
    assert document("1") is document("1")
