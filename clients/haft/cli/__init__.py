"""Command line: shared modules, and `commands/` with a module for each command, imported when
chosen.

Content goes to stdout unchanged, remarks to stderr, each error on one line.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "init": "write a commented definition of a tool",
    "tools": "list the tools, or show one",
    "access": "show what a tool may do",
    "trust": "show the commands that a folder's definitions run, and trust them",
    "run": "run a command with its own streams, signals and exit status",
    "spawn": "start a tool under an id",
    "shell": "open a shell and attach to it",
    "fetch": "read a handle's state and new output",
    "apply": "send input or an answer to a handle",
    "questions": "list open questions of tools",
    "answer": "answer a tool's question",
    "approvals": "list actions that await approval",
    "approve": "allow, deny, skip or change an action that awaits approval",
    "notices": "take a session's unread notices, as text",
    "connect": "speak the protocol over standard input and output",
    "mcp": "serve a host of the Model Context Protocol",
    "attach": "attach your terminal to a handle's terminal",
    "abort": "end handles and all their processes",
    "await": "wait for handles to stop",
    "ps": "list handles with their processes",
    "logs": "show all output of a handle, or follow it",
    "record": "record a handle's output with its timing",
    "play": "show a recording",
    "watch": "show matching lines as handles print them",
    "search": "find lines in the output of handles",
    "audit": "show the log of actions on handles",
    "status": "show the daemon's status",
    "hosts": "show the daemons of several machines",
    "stop": "stop the daemon and all handles",
    "reload": "reload configuration and tools",
    "setup": "set up a service, completions, manual pages and the Neovim plugin",
    "doctor": "look for problems and suggest remedies",
    "completion": "print the completion of a shell",
    "man": "show a manual page",
    "version": "show the versions",
}
"""Commands and their lines in the help."""

STARTERS = ("run", "spawn", "shell", "tools", "access", "trust", "connect", "mcp")
"""Commands that start a daemon when none answers: for a start, for definitions, or for a client."""

PLAIN = frozenset({"fetch", "ps"})
"""Commands that read JSON without msgspec, a fifth of a short command's time."""
