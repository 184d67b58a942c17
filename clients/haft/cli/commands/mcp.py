"""`haft mcp`: serve a host of the Model Context Protocol."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..options import (
    UsageError,
    chosen_address,
    chosen_root,
    chosen_socket,
    is_remote,
    open_address,
    root_at,
    session,
    suggestion,
    unicode,
)
from ..statuses import Status

MAX_PORT = 65535
USAGE = "haft mcp [install HOST | uninstall HOST | import HOST|FILE] [options]"
EPILOG = """\
A host starts `haft mcp` as a server on standard input and output; docs/mcp.md has the configuration of each host. A daemon is
started when none answers. Handles belong to the session of the folder and outlive the host: another start in
the same folder finds them again.

The folder is --root, else CLAUDE_PROJECT_DIR, else the host's first root, else the folder it is started in,
unless that is / or the home folder. With --host or HAFT_HOST it is --root only, a folder of that machine.

`haft mcp install HOST` shows the entry for a host's configuration and writes it, with absolute paths; comments
stay, and the previous file is kept beside it as FILE.haft-backup. `haft mcp uninstall HOST` removes the entry
again, `--print HOST` (or `haft mcp install HOST --print`) only shows it. The options --root, --session, --host, --socket and
--surface become those of the entry. Hosts: claude-code, claude-desktop, codex, cursor, gemini, vscode, zed.

`haft mcp import HOST|FILE` takes over the servers that a host's configuration names, as `[mcp.<name>]` tables of
haft's config.toml: it shows them, without the values of variables and headers, asks for your consent, and keeps the previous file
as config.toml.haft-backup. Servers that are there already, haft itself and servers that the host has disabled are left out.
Of Claude Code it takes those of the project in --root, or in this folder, too; what VS Code asks for, it asks for.
Without a terminal it shows the tables and writes nothing.

examples:
  haft mcp install claude-code
  haft mcp import cursor
  haft mcp import ./.mcp.json --yes
  haft mcp install claude-desktop --root ~/project
  haft mcp --print vscode
  haft mcp --root /home/me/project            what a host starts
"""

INSTRUCTIONS = """\
haft holds running programs for you, across turns, host restarts and conversations.
- run: one command, its result, or a handle if it keeps running (builds, tests, servers, REPLs). shell: a bash session.
- A handle is named by its id. handle_send types into it and returns what it prints once it reads input again; \
handle_read reads; handle_wait waits until handles have stopped (do not poll); handle_stop ends them; handle_list \
finds them again.
- Each reply begins with [id: state, age, what it reads]. "reads a line" means that it waits for handle_send line; \
"running" alone means that it works: handle_wait, or handle_read, waits for more.
- "asks" is a question of the tool: answer it with handle_send answer, unless a person has to.
- An exit status is information, not a failure of the call."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        metavar="ACTION",
        help="install, uninstall or import; without one it serves",
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="the host to configure")
    parser.add_argument("--yes", action="store_true", help="import the servers without asking")
    parser.add_argument(
        "--print",
        metavar="HOST",
        dest="printed",
        nargs="?",
        const="",
        help="show the entry for a host and write nothing",
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=_port,
        nargs="?",
        const=0,
        help="serve streamable HTTP on this port of 127.0.0.1, or on any free one",
    )
    parser.add_argument(
        "--surface",
        choices=["verbs", "actions"],
        help="one tool for each verb on a handle (verbs, the default), or an `action` of each tool",
    )


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Name the option that shows an entry."""
    if "--dry-run" not in words:
        return None
    host = getattr(options, "host", "HOST")
    return f"to show an entry without writing it, use --print: haft mcp --print {host}"


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a number from 0 to {MAX_PORT}")
    return port


def run(options: argparse.Namespace) -> int:
    printed: str | None = getattr(options, "printed", None)
    # The folder of an import is a key in the host's file.
    is_used = getattr(options, "action", None) not in ("uninstall", "import")
    remote = is_remote(options)
    if options.root and is_used and not remote and not os.path.isdir(chosen_root(options)):  # noqa: PTH112 - pathlib costs 5 ms of every start
        raise UsageError(f"--root is not a folder: {chosen_root(options)}")
    if getattr(options, "action", None) or printed is not None:
        return _configure_host(options, printed)
    if options.json:
        raise UsageError("mcp has no --json: it always speaks JSON-RPC")
    if getattr(options, "http", None) is None and (sys.stdin is None or sys.stdout is None):
        raise UsageError("mcp is started by a host, with its standard input and output open")
    port: int | None = getattr(options, "http", None)
    from ...mcp.bridge import Bridge
    from ...mcp.resources import CAPABILITIES, Resources
    from ...mcp.stdio import DaemonLink, StdioTransport
    from ...mcp.steps import Host
    from ...mcp.tools import Options, Tools

    address = chosen_address(options)
    # The host's folders are of this machine.
    tools = Tools(
        Options(
            root=root_at(address, options) if options.root else None,
            session=session(options),
            surface=getattr(options, "surface", "verbs"),
            asks_roots=port is None and not remote,
        ),
        {} if remote else os.environ,
        None if remote else _cwd(),
    )
    resources = Resources(tools)
    methods = {"tools/list": tools.list, "tools/call": tools.call, **resources.methods}

    def bridge_of(link: DaemonLink, legacy: Host | None = None, name: str = "haft") -> Bridge:
        bridge = Bridge(
            link.connect,
            methods,
            capabilities=CAPABILITIES,
            instructions=INSTRUCTIONS,
            legacy_stream=None if port is not None else resources.legacy_stream,
            legacy=legacy,
            name=name,
        )
        link.hear = bridge.hear
        return bridge

    def new_link() -> DaemonLink:
        return DaemonLink(lambda: open_address(address, start=True))

    if port is not None:
        # Imports an HTTP server.
        from ...mcp.http import serve_http

        return serve_http(port, new_link, bridge_of)
    link = new_link()
    StdioTransport(sys.stdin.fileno(), sys.stdout.fileno(), link).serve(bridge_of(link))
    return Status.DONE


def _configure_host(options: argparse.Namespace, printed: str | None) -> int:
    from ...mcp.hosts import HOSTS, entry_for
    from .. import show

    action: str | None = getattr(options, "action", None)
    host: str | None = printed or getattr(options, "host", None)
    is_printed = printed is not None
    if action not in (None, "install", "uninstall", "import"):
        raise UsageError(f"there is no action {action!r}; it is install, uninstall or import")
    if options.json:
        raise UsageError("mcp has no --json: --print shows the entry of a host")
    if is_printed and action in ("uninstall", "import"):
        raise UsageError(f"{action} has no --print; `haft mcp --print HOST` shows haft's entry")
    if getattr(options, "http", None) is not None:
        raise UsageError("no entry has --http: a host starts haft on standard input and output")
    if action == "import":
        folder = chosen_root(options) if options.root else _cwd() or ""
        return _import(host, folder, sure=getattr(options, "yes", False))
    if host not in HOSTS:
        meant = suggestion(host or "", HOSTS)
        choices = f"; it is one of {', '.join(HOSTS)}"
        raise UsageError(
            f"there is no host {host!r}{meant or choices}" if host else f"name a host{choices}"
        )
    root = root_at(chosen_address(options), options) if options.root else None
    if root is None and action != "uninstall" and is_remote(options):
        raise UsageError("name the folder on the other machine: --root /path/of/the/project")
    # Removal needs no folder.
    entry = entry_for(
        host,
        os.environ,
        root or ("/" if action == "uninstall" else None),
        _entry_options(options),
    )
    if is_printed:
        show.write(entry.shown())
        return Status.DONE
    if action == "uninstall":
        done = entry.uninstall()
        outcome = "haft was removed from" if done else "haft is not in"
    else:
        show.write(f"{entry.path}:\n{entry.shown()}")
        done = entry.install()
        outcome = f"written; restart {host} to use it:" if done else "the entry is there already:"
    show.line(f"haft mcp: {outcome} {entry.path}")
    return Status.DONE


def _entry_options(options: argparse.Namespace) -> list[str]:
    """Return the options of the command line for the server in the entry."""
    named = {
        # HAFT_SESSION is the session of this shell, not of the host.
        "--session": unicode(options.session, "--session") if options.session else None,
        "--host": options.address,
        "--socket": chosen_socket(options),
        "--surface": getattr(options, "surface", None),
    }
    return [word for name, value in named.items() if value for word in (name, value)]


def _import(source: str | None, folder: str, *, sure: bool) -> int:
    from ...mcp.hosts import HOSTS, path_of
    from ...mcp.server_import import ServerImport
    from .. import confirmation, show

    if source is None or (source not in HOSTS and not os.path.isfile(source)):  # noqa: PTH113
        sources = f"one of {', '.join(HOSTS)}, or a file of theirs"
        raise UsageError(
            f"name {sources}"
            if source is None
            else f"there is no host and no file {source!r}{suggestion(source, HOSTS)}; it is {sources}"
        )
    path = str(path_of(source, os.environ)) if source in HOSTS else source
    servers = ServerImport(path, os.environ, folder=folder, can_ask=not sure)
    for name, reason in servers.left_out.items():
        show.line(f"haft mcp: {show.plain(name)} is skipped: {reason}")
    if not servers.tables:
        show.line(f"haft mcp: there is nothing to import from {path}")
        return Status.DONE
    show.write(f"{servers.config}:\n{servers.shown()}")
    if not sure and not confirmation.can_ask():
        raise UsageError("nothing was imported: run it in a terminal, or with --yes")
    if not sure and not confirmation.ask(
        "add them, so that haftd starts a server when it is needed?"
    ):
        show.line("haft mcp: nothing was imported")
        return Status.FAILED
    servers.fill(
        {
            id: confirmation.ask_value(input.text, is_secret=input.is_secret) or input.default
            for id, input in servers.inputs.items()
        }
    )
    servers.write()
    show.line(f"haft mcp: written; `haft reload` makes a running daemon use it: {servers.config}")
    return Status.DONE


def _cwd() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib costs 5 ms of every start
    except OSError:
        return None
