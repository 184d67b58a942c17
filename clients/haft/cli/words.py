"""The daemon's messages in the words of the command line; JSON stays as received."""

from __future__ import annotations

import re

_COMMANDS = {
    "approvals/decide": "haft approve",
    "approvals/list": "haft approvals",
    "daemon/reload": "haft reload",
    "daemon/shutdown": "haft stop",
    "daemon/status": "haft status",
    "handles/list": "haft ps",
    "inquiries/answer": "haft answer",
    "inquiries/list": "haft questions",
    "output/search": "haft search",
    "output/timeline": "haft logs --since",
    "rpc.discover": "haft --help",
    "tools/describe": "haft tools",
    "tools/list": "haft tools",
    "tools/reload": "haft reload",
    "trust/grant": "haft trust",
    "trust/list": "haft trust --list",
    "trust/revoke": "haft trust --revoke",
    "trust/show": "haft trust",
}
_FIELDS = (
    "call_id",
    "cursor",
    "grace_ms",
    "max_bytes",
    "max_matches",
    "quiet_ms",
    "root",
    "session",
    "since_revision",
    "timeout_ms",
    "timeout_secs",
    "view",
    "wait",
)
_WORDS = _COMMANDS | {name: f"--{name.replace('_', '-')}" for name in _FIELDS}
_NAMED = re.compile(f"`({'|'.join(map(re.escape, _WORDS))})`")
_INPUT = re.compile(r"`input\.(text|line|keys|paste|eof|signal|resize)`")
_ARGUMENT = re.compile(r"`args\.([\w.-]+)`")
# The command line has its own way to write either.
_COMMAND_OR_SCRIPT = "give exactly one of `argv`, `command`"
_BOTH_GIVEN = "; it has `argv` and `command`"
_ANOTHER_PATH = "or give another PATH in `env`"
_AS_INPUT = " as the `input` itself"
_SPAWN_STARTS = "`spawn` starts"
_BYTES = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\udc([89a-f][0-9a-f])")
"""The escape of such a byte in a `repr`; an even number of backslashes before it is the text's own."""
_SIGNAL = re.compile(r'\{"signal": ?"(\w+)"\}')


def show_bytes(text: str) -> str:
    r"""Show bytes of a decoded argument that are not UTF-8 as a shell does, also in its `repr`.

    >>> print(show_bytes(f"no {'caf\xe9 \udce9'!r}: \udcff"))
    no 'café \xe9': \xff
    """
    return _ESCAPE.sub(r"\1\\x\2", text.translate(_BYTES))


def in_our_words(text: str) -> str:
    text = show_bytes(text)
    text = _NAMED.sub(lambda match: f"`{_WORDS[match[1]]}`", text)
    text = _SIGNAL.sub(r"--signal \1", _INPUT.sub(r"`--\1`", text))
    text = text.replace(
        _COMMAND_OR_SCRIPT, "give a command after `--`, or a script with `--arg command=…`"
    )
    text = text.replace(_BOTH_GIVEN, "; both are given")
    text = text.replace(_ANOTHER_PATH, "or set another PATH").replace(
        _SPAWN_STARTS, "`haft spawn` starts"
    )
    text = text.replace(_AS_INPUT, "")
    return _ARGUMENT.sub(r"`--arg \1`", text)
