"""The command line: one file a command, loaded only when chosen.

Rules: content goes to stdout unchanged, remarks about it to stderr, each error on one line. `statuses` has the exit
statuses.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "tools": "list the tools, or show one",
    "trust": "show what the definitions of a folder would run, and let them",
    "spawn": "start a tool under an id",
    "shell": "open a shell of your own and attach to it",
    "fetch": "read a handle's state and new output",
    "apply": "give a handle input, or an answer",
    "questions": "list what tools ask and nobody has answered",
    "answer": "answer what a tool asks",
    "approvals": "list what waits for a person's word",
    "approve": "allow, deny, skip or change what waits",
    "notices": "take what a session was not told yet, as text",
    "connect": "speak the protocol over standard input and output",
    "mcp": "serve a host of the Model Context Protocol",
    "attach": "take a handle's terminal into your own",
    "abort": "end handles and everything they started",
    "await": "wait for handles to stop",
    "ps": "list handles with their processes",
    "logs": "show all output of a handle, or follow it",
    "search": "find lines in the output of handles",
    "audit": "show who started, typed and ended what",
    "status": "show the daemon's own figures",
    "stop": "stop the daemon and everything it holds",
    "reload": "read configuration and tools again",
    "setup": "have systemd run the daemon as a user service",
    "doctor": "look for what is wrong, and say what to do",
    "version": "show the versions",
}
"""Each command, with what its line in the help says."""
