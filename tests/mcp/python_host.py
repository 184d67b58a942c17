"""A host on the Python SDK's client: see `client_host`. Arguments, each as JSON: the mode of
negotiation, command and arguments of the server, its environment."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import anyio.to_thread
import psutil

from mcp import Client, StdioServerParameters, types

asked: list[str] = []


def reply(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def answer(context: Any, params: Any) -> Any:
    asked.append(params.message)
    return types.ElicitResult(action="accept", content={"answer": True})


async def main(mode: Any, command: list[str], env: dict[str, str]) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], env=env)
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        (child,) = psutil.Process().children()
        era = "modern" if client.protocol_version >= "2026" else "legacy"
        reply({"era": era, "server": child.pid})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            call = json.loads(line)
            try:
                result: Any = await client.call_tool(call["name"], call["arguments"])
            except Exception as fault:
                reply({"fault": str(fault)})
            else:
                text = result.content[0].text
                reply({"text": text, "isError": bool(result.is_error), "asked": asked})


if __name__ == "__main__":
    anyio.run(main, *map(json.loads, sys.argv[1:]))
