"""Write the language-model tools of the extension's manifest from the daemon's own tools."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

PACKAGE = Path(__file__).parents[2] / "clients" / "vscode" / "package.json"
OFFERED = {
    "run": "Run a command",
    "shell": "Open a shell",
    "handle_send": "Type into a handle",
    "handle_read": "Read a handle",
    "handle_wait": "Wait for handles",
    "handle_stop": "End handles",
    "handle_list": "List handles",
}


def language_model_tools(daemon: RunningDaemon) -> list[dict[str, Any]]:
    """Return the entries of `contributes.languageModelTools`, in the order of `OFFERED`."""
    with Wire(daemon.socket) as wire:
        tools = wire.call("tools/list", provider="mcp", surface="verbs")["tools"]
    listed = {tool["name"]: tool for tool in tools}
    entries = []
    for name, title in OFFERED.items():
        text = listed[name]["description"]
        entries.append(
            {
                "name": f"haft_{name}",
                "displayName": title,
                "toolReferenceName": f"haft{name.title().replace('_', '')}",
                "canBeReferencedInPrompt": True,
                "userDescription": title,
                "modelDescription": text,
                "when": "isWorkspaceTrusted && config.haft.offerTools",
                "inputSchema": listed[name]["parameters"],
            }
        )
    return entries


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        running = RunningDaemon(Path(base)).start(as_child=True)
        try:
            package = json.loads(PACKAGE.read_text())
            package["contributes"]["languageModelTools"] = language_model_tools(running)
        finally:
            running.close()
    PACKAGE.write_text(json.dumps(package, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
