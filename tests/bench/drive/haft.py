"""Drive a program through haft: one connection to a running daemon, no sleeps. Calls wait as by
default: on a terminal until the program reads input or has ended."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from tests.bench import wires

from .account import Account

_numbers = itertools.count(1)


class Reply:
    """A handle state with the text that a model reads."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.text = seen(state)

    @property
    def stopped(self) -> bool:
        return bool(self.state["state"] == "stopped")

    @property
    def revision(self) -> int:
        """Revision of the screen in this state."""
        return int(self.state["screen"]["revision"])


def said(state: dict[str, Any]) -> str:
    """Return the program's output, screen, result and error."""
    parts = [state.get("content", ""), state.get("result", "")]
    if "error" in state:
        parts += [state["error"]["message"], *state["error"].get("trace", ())]
    screen = state.get("screen", {})
    parts += screen.get("lines", ())
    parts += [f"{row} {text}" for row, text in screen.get("changed", {}).items()]
    return "\n".join(part for part in parts if part)


def seen(state: dict[str, Any]) -> str:
    """Return the program's text and its prompt."""
    text = said(state)
    prompt = (state.get("input_wanted") or {}).get("prompt", "")
    # A prompt that was just printed is read there.
    if text.endswith(prompt):
        return text
    return f"{text}{prompt}" if text.endswith("\n") or not text else f"{text}\n{prompt}"


class Haft:
    """One handle, from spawn on."""

    def __init__(self, socket: Path, folder: Path) -> None:
        self.account = Account()
        self._folder = folder
        self._exchange = wires.lines(socket)
        self._id = f"drive{next(_numbers)}"

    def run(self, *argv: str, **fields: Any) -> Reply:
        """Spawn a program on a terminal of the usual size."""
        return self.spawn("run", {"argv": argv, "terminal": True}, **fields)

    def spawn(self, tool: str, args: dict[str, Any] | None = None, **fields: Any) -> Reply:
        return self._call("spawn", tool=tool, args=args or {}, root=str(self._folder), **fields)

    def apply(self, value: object, **fields: Any) -> Reply:
        return self._call("apply", input=value, **fields)

    def line(self, text: str, **fields: Any) -> Reply:
        return self.apply({"line": text}, **fields)

    def keys(self, *keys: str, **fields: Any) -> Reply:
        return self.apply({"keys": keys}, **fields)

    def close(self) -> None:
        """Not part of the work: end a failed run's handle."""
        self._exchange(wires.message("abort", id=self._id, grace_ms=0))
        self._exchange.close()

    def _call(self, method: str, **params: Any) -> Reply:
        self.account.calls += 1
        answer = self._exchange(wires.message(method, id=self._id, **{"view": "answer"} | params))
        message = json.loads(answer)
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        reply = Reply(message["result"])
        self.account.show(reply.text, len(answer), said(reply.state))
        return reply
