"""Hosts of MCP, and the entry of haft in the configuration of each.

Paths are absolute: a host started from a desktop has another `PATH`. Only the entry is changed, in
place, with a backup; the host's variable in it gives the project's folder, which hosts do not
announce.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import SetupFailed
from .jsonc import Malformed, decode, remove_member, set_member

NAME = "haft"
BACKUP = ".haft-backup"
_KEPT = (
    "HAFT_HOST",
    "HAFT_SSH",
    "HAFT_TOKEN_FILE",
    "HAFT_SOCKET",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
)
_TABLE = re.compile(rf"^\[mcp_servers\.{NAME}(?:\..*)?\]\s*$")


class HostFile(NamedTuple):
    """A host's file of servers, its section for them, and the variable for the project's folder."""

    path: str
    section: str
    has_type: bool = False
    folder: str = ""
    needs_root: bool = False
    variable: str = ""
    """Environment variable that names the folder of `path`, instead of its first part."""


HOSTS: dict[str, HostFile] = {
    "claude-code": HostFile("~/.claude.json", "mcpServers", has_type=True),
    "claude-desktop": HostFile(
        "~/.config/Claude/claude_desktop_config.json", "mcpServers", needs_root=True
    ),
    "codex": HostFile("~/.codex/config.toml", "mcp_servers", variable="CODEX_HOME"),
    "cursor": HostFile("~/.cursor/mcp.json", "mcpServers", folder="${workspaceFolder}"),
    "gemini": HostFile("~/.gemini/settings.json", "mcpServers"),
    "vscode": HostFile(
        "~/.config/Code/User/mcp.json", "servers", has_type=True, folder="${workspaceFolder}"
    ),
    "zed": HostFile("~/.config/zed/settings.json", "context_servers", needs_root=True),
}


class Entry:
    def __init__(self, host: str, value: dict[str, Any], path: Path) -> None:
        self.host = host
        self.value = value
        self.path = path
        self._section = HOSTS[host].section
        self._is_toml = path.suffix == ".toml"

    def shown(self) -> str:
        if self._is_toml:
            return _toml(self.value)
        return json.dumps({self._section: {NAME: self.value}}, indent=2, ensure_ascii=False) + "\n"

    def install(self) -> bool:
        """Write the entry; return False if present; raise `SetupFailed`."""
        return self._change(self.value)

    def uninstall(self) -> bool:
        """Remove the entry; return False if absent. Raises `SetupFailed`.

        A file unchanged since `install` is replaced by the backup, or removed if `install` made it.
        """
        return self._change(None)

    def _change(self, entry: dict[str, Any] | None) -> bool:
        path = Path(os.path.realpath(self.path))
        try:
            before = _text_of(path) or ""
            backup = _text_of(Path(f"{path}{BACKUP}"))
            config = self._decode(before)
            section = config.get(self._section, {})
            if not isinstance(section, dict):
                raise Malformed(f"its `{self._section}` is not a table of servers")
            if section.get(NAME) == entry:
                return False
            after = self._edit(before, entry, backup)
            written = self._decode(after).get(self._section, {}).get(NAME)
            if written != entry:
                raise Malformed("its form is not one that haft can change")
        except (Malformed, tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as fault:
            advice = (
                f"take `{NAME}` out of its `{self._section}` by hand"
                if entry is None
                else f"`haft mcp --print {self.host}` shows the entry"
            )
            raise SetupFailed(f"{self.path} was not changed, as {fault}; {advice}") from None
        except OSError as fault:
            raise SetupFailed(f"{self.path} cannot be read: {fault.strerror}") from None
        try:
            if entry is None and self._is_unchanged(before, backup, section[NAME]):
                Path(f"{path}{BACKUP}").replace(path)
            elif entry is None and backup is None and "".join(after.split()) in ("", "{}"):
                path.unlink()
            else:
                # The backup is the file from before the entry, also when the entry changes.
                is_kept = backup is not None and NAME in section
                replace_file(path, after, keep_backup=path.exists() and not is_kept)
        except OSError as fault:
            raise SetupFailed(f"{self.path} cannot be written: {fault.strerror}") from None
        return True

    def _decode(self, text: str) -> dict[str, Any]:
        config = tomllib.loads(text) if self._is_toml else decode(text)
        if not isinstance(config, dict):
            raise Malformed("it is not an object")
        return config

    def _is_unchanged(self, text: str, backup: str | None, entry: dict[str, Any]) -> bool:
        """True for the text that `install` has made of the backup."""
        try:
            return backup is not None and self._edit(backup, entry) == text
        except (Malformed, tomllib.TOMLDecodeError):
            return False

    def _has_section(self, text: str | None) -> bool:
        try:
            return text is not None and self._section in self._decode(text)
        except (Malformed, tomllib.TOMLDecodeError):
            return False

    def _edit(self, text: str, entry: dict[str, Any] | None, backup: str | None = None) -> str:
        if not self._is_toml:
            if entry is None:
                is_kept = self._has_section(backup)
                return remove_member(text, self._section, NAME, keep_section=is_kept)
            return set_member(text, self._section, NAME, entry)
        rest = _without_table(text)
        if entry is None:
            return rest
        blank = "\n" if rest.strip() else ""
        return f"{rest.rstrip()}\n{blank}{_toml(entry)}" if rest.strip() else _toml(entry)


def entry_for(
    host: str, env: Mapping[str, str], root: str | None, more: Sequence[str] = ()
) -> Entry:
    """Return the entry of haft for a host, with `more` options. Raises `SetupFailed` if the host
    needs a root."""
    about = HOSTS[host]
    if about.needs_root and root is None:
        raise SetupFailed(f"{host} does not define the folder of its servers; name one with --root")
    folder = root or about.folder
    command, *arguments = [*_command(), "mcp"]
    if folder:
        arguments += ["--root", folder]
    arguments += more
    value: dict[str, Any] = {"type": "stdio"} if about.has_type else {}
    value |= {"command": command, "args": arguments}
    if kept := _environment(env):
        value["env"] = kept
    return Entry(host, value, path_of(host, env))


def path_of(host: str, env: Mapping[str, str]) -> Path:
    about = HOSTS[host]
    path = about.path
    if about.variable and env.get(about.variable):
        path = f"{env[about.variable]}/{path.rpartition('/')[2]}"
    elif path.startswith("~/.config/") and env.get("XDG_CONFIG_HOME", "").startswith("/"):
        path = f"{env['XDG_CONFIG_HOME']}/{path.removeprefix('~/.config/')}"
    home = env.get("HOME", "")
    if path.startswith("~") and not home.startswith("/"):
        raise SetupFailed(f"HOME names no folder, and the file of {host} is in it; set HOME")
    return Path(path.replace("~", home, 1))


def _command() -> list[str]:
    own = os.path.abspath(sys.argv[0])  # noqa: PTH100 - a link is kept: it may lead to a newer version
    if own.endswith("/haft") and os.access(own, os.X_OK):
        return [own]
    program = shutil.which("haft")
    # -P: no module from the project's folder.
    return [program] if program else [sys.executable, "-P", "-m", "haft"]


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables needed to find this user's daemon."""
    kept = {name: env[name] for name in _KEPT if env.get(name)}
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if runtime and runtime != f"/run/user/{os.getuid()}":
        kept["XDG_RUNTIME_DIR"] = runtime
    return kept


def _toml(value: Mapping[str, Any]) -> str:
    lines = [f"[mcp_servers.{NAME}]"]
    for key, item in value.items():
        if isinstance(item, dict):
            pairs = ", ".join(f"{name} = {_toml_text(text)}" for name, text in item.items())
            lines.append(f"{key} = {{ {pairs} }}")
        elif isinstance(item, list):
            lines.append(f"{key} = [{', '.join(map(_toml_text, item))}]")
        else:
            lines.append(f"{key} = {_toml_text(item)}")
    return "\n".join(lines) + "\n"


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, except for the surrogate pairs of ASCII output.
    return json.dumps(text, ensure_ascii=False)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _without_table(text: str) -> str:
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    is_ours = False
    for line in lines:
        if line.lstrip().startswith("["):
            is_ours = _TABLE.match(line.strip()) is not None
        if not is_ours:
            kept.append(line)
    if len(kept) == len(lines):
        return text
    while kept and not kept[-1].strip():
        kept.pop()
    return "".join(kept)


def replace_file(path: Path, text: str, *, keep_backup: bool, is_private: bool = False) -> None:
    """Replace the file atomically, with a backup of the same mode. Raises `OSError`.

    `is_private`: readable by its user alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if keep_backup:
        shutil.copy2(path, f"{path}{BACKUP}")
    draft = Path(f"{path}.haft-draft")
    draft.unlink(missing_ok=True)
    draft.touch(0o600)
    draft.write_text(text, encoding="utf-8")
    if path.exists() and not is_private:
        shutil.copymode(path, draft)
    draft.replace(path)
