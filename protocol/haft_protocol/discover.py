"""OpenRPC document of the protocol, generated from the types that decode messages."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from .errors import CODES
from .methods import METHODS, Empty, Method

__all__ = ["OPENRPC", "document"]

OPENRPC = "1.3.2"

_REF = "#/components/schemas/{name}"
_OWN_ERRORS = {
    kind: code for kind, code in CODES.items() if code == -32800 or -32099 <= code <= -32000
}


@lru_cache(maxsize=2)
def document(version: str) -> dict[str, Any]:
    """Return the document of a daemon of this `version`; shared, not to be changed."""
    methods = list(METHODS.values())
    kinds = [kind for method in methods for kind in (method.params, *_results(method))]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    components = _portable(components)
    portable_schemas = iter(_portable(schemas))
    return {
        "openrpc": OPENRPC,
        "info": {
            "title": "haft",
            "version": version,
            "description": "Keeps tools running for assistants and editors: "
            "spawn, fetch, apply, abort, await.",
        },
        "methods": [
            {
                "name": method.name,
                "summary": method.summary,
                "description": (method.params.__doc__ or "").strip(),
                "paramStructure": "by-name",
                "params": _content_descriptors(components[_name(next(portable_schemas))]),
                "result": _result(method, [next(portable_schemas) for _ in _results(method)]),
            }
            for method in methods
        ],
        "components": {
            "schemas": components,
            "errors": {
                kind: {"code": code, "message": kind.replace("_", " ")}
                for kind, code in _OWN_ERRORS.items()
            },
        },
    }


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _content_descriptors(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return descriptors with required params first, as OpenRPC demands."""
    required = set(schema.get("required", ()))
    described = [
        {"name": name, "required": name in required, "schema": form}
        for name, form in schema.get("properties", {}).items()
    ]
    return sorted(described, key=lambda descriptor: not descriptor["required"])


def _results(method: Method) -> tuple[Any, ...]:
    return method.result if isinstance(method.result, tuple) else (method.result,)


def _result(method: Method, schemas: list[dict[str, Any]]) -> dict[str, Any]:
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if method.result is Empty:
        schema = {"type": "object", "additionalProperties": False}
    name = _name(schema) if "$ref" in schema else "result"
    return {"name": name, "schema": schema}


def _portable(node: Any) -> Any:
    r"""Rewrite `\Z`, unknown to the regular expressions of JSON Schema."""
    if isinstance(node, dict):
        return {
            key: re.sub(r"\\Z$", "$", form)
            if key == "pattern" and isinstance(form, str)
            else _portable(form)
            for key, form in node.items()
        }
    if isinstance(node, list | tuple):
        return [_portable(item) for item in node]
    return node
