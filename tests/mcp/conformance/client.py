"""The daemon as a client of the suite's server: `python -m tests.mcp.conformance.client URL`.
The suite runs the module once per scenario. A daemon of its own lists and calls the tools at
the address; a question gets its offered answer, or any valid one."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

_SAMPLES: dict[str, Any] = {
    "string": "x",
    "integer": 2,
    "number": 2,
    "boolean": True,
    "array": [],
    "object": {},
}


CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CALLS = {one["name"]: one["arguments"] for one in CONTEXT.get("toolCalls", ())}


def focal(tools: list[dict[str, Any]]) -> Any:
    """Return the schema that the scenario expects, as listed."""
    return next(t["parameters"] for t in tools if "json_schema_2020_12" in t["name"])


def sample(schema: dict[str, Any]) -> Any:
    """Return a value that the schema takes."""
    for word in ("default", "const"):
        if word in schema:
            return schema[word]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return arguments(schema)
    return _SAMPLES.get(kind)


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return all properties with values that fit."""
    return {name: sample(form) for name, form in schema.get("properties", {}).items()}


def answer_all(daemon: RunningDaemon) -> None:
    """Answer every open question as an agreeing user."""
    with contextlib.suppress(EOFError), Wire(daemon.socket, timeout=60) as wire:
        while True:
            for inquiry in wire.call("inquiries/list", session="*")["inquiries"]:
                question = inquiry["question"]
                kind = question["answer_type"]
                value = question.get("default")
                if value is None:
                    value = {"boolean": True, "text": "2"}.get(kind["type"])
                if value is None and kind["type"] == "select":
                    value = kind["options"][0]
                if value is None and kind["type"] == "form":
                    value = {name: one["options"][0] for name, one in kind["fields"].items()}
                params = {"inquiry_id": inquiry["inquiry_id"], "question": question["id"]}
                try:
                    wire.call(
                        "inquiries/answer", answer=value, session=inquiry["session"], **params
                    )
                except Refused as refused:
                    print(f"not answered: {refused}", file=sys.stderr)
            time.sleep(0.02)


def call(wire: Wire, tool: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    """Call a tool with the scenario's arguments, else with any valid ones."""
    name = tool["name"].removeprefix("x_")
    values = {"schema": focal(tools)} if name == "json_schema_echo" else CALLS.get(name)
    values = arguments(tool["parameters"]) if values is None else values
    try:
        state = wire.call("tools/call", tool=tool["name"], arguments=values)
    except Refused as refused:
        print(name, refused, file=sys.stderr)
    else:
        print(name, state.get("result", state.get("error")), file=sys.stderr)


def main(url: str) -> int:
    """List the tools and call them all."""
    with tempfile.TemporaryDirectory(prefix="haft-") as base:
        config = f"[mcp.x]\nurl = {json.dumps(url)}\nstartup_s = 20\n"
        daemon = RunningDaemon(Path(base), config=config)
        try:
            daemon.start()
            threading.Thread(target=answer_all, args=(daemon,), daemon=True).start()
            with Wire(daemon.socket, timeout=60) as wire:
                listed = wire.call("tools/list")
                for problem in listed.get("problems", ()):
                    print(problem["message"], file=sys.stderr)
                for tool in listed["tools"]:
                    if tool["source"].startswith("mcp."):
                        call(wire, tool, listed["tools"])
        finally:
            daemon.close()
            if "HAFT_LOG" in os.environ:
                print(daemon.log_text(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
