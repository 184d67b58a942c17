"""The transcript of docs/mcp.md: a staging session with a question, across a kill of the host.
All shown messages were sent. `…` stands for times, the middle of a diff, the answers of this
git's prompt, and `requestState`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.mcp.host import Modern, text_of
from tests.repository import make_repository
from tests.running_daemon import RunningDaemon

_AGE = re.compile(r", [\d.]+ (s|min|h)(?=[,\]:])")
_OFFERED = re.compile(r"\[y,n,[^\]]*\]")


def transcript(daemon: RunningDaemon, folder: Path) -> str:
    """Hold the session below `folder`, and return the transcript."""
    root = make_repository(folder / "garden")
    lines: list[str] = []
    with Modern(daemon, "--root", str(root)) as host:
        _call(lines, host, "git_stage", id="stage")
        _call(lines, host, "handle_send", id="stage", line="y")
        host.kill()
    lines.append("(the host is killed, and started again)")
    with Modern(daemon, "--root", str(root)) as host:
        _call(lines, host, "handle_list")
        question = {"question": "Leave the second hunk out?", "type": "boolean"}
        asked = host.request("tools/call", name="ask_user", arguments=question)
        lines.append(f"→ ask_user {_json(question)}")
        shown = {name: asked[name] for name in ("resultType", "inputRequests")}
        lines.append(f"← {_json({**shown, 'requestState': '…'})}")
        answers = {"answer": {"action": "accept", "content": {"answer": True}}}
        lines.append(
            f"→ ask_user {_json({**question, 'inputResponses': answers})} and requestState"
        )
        result = host.retry("ask_user", question, asked, {"answer": True})
        lines.append(_reply(text_of(result)))
        _call(lines, host, "handle_send", id="stage", line="n")
        _call(lines, host, "handle_send", id="stage", line="y", until="stopped")
    return "\n".join(lines)


def _call(lines: list[str], host: Modern, name: str, **arguments: Any) -> None:
    lines.append(f"→ {name} {_json(arguments)}")
    lines.append(_reply(host.call(name, **arguments)))


def _reply(text: str) -> str:
    text = _OFFERED.sub("[y,n,…]", _AGE.sub(", … s", text))
    rows = text.split("\n")
    if len(rows) > 8:
        changed = [row for row in rows if re.match(r"[-+](?![-+])", row)]
        rows = [rows[0], "…", *changed, "…", rows[-1]]
    return "← " + "\n  ".join(row.rstrip() for row in rows)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
