"""Folder in which tools work, and the session that owns their handles.

`--root`, else `CLAUDE_PROJECT_DIR`, else a legacy host's first root, else the working folder. `/`
and the home folder are refused: hosts without a project start there. A session belongs to a root,
so that handles outlive a host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MAX_STEM = 40
_OTHERS = re.compile(r"[^A-Za-z0-9_.-]+")


class Place:
    def __init__(self, root: str | None, session: str, refusal: str = "") -> None:
        self.root = root
        self.session = session
        self.refusal = refusal


def find_place(
    env: Mapping[str, str],
    *,
    root: str | None = None,
    session: str | None = None,
    offered: str | None = None,
    cwd: str | None = None,
) -> Place:
    """Return the place of a host's calls. `offered` is a legacy host's root."""
    folder = root or env.get("CLAUDE_PROJECT_DIR") or offered or cwd
    if not folder or not folder.startswith("/"):
        return Place(None, session or "mcp", _refusal("there is no working folder"))
    folder = os.path.normpath(folder)
    home = env.get("HOME")
    if root is None and (folder == "/" or (home and folder == os.path.normpath(home))):
        named = "the file system's root" if folder == "/" else "the home folder"
        return Place(None, session or "mcp", _refusal(f"{folder} is {named}, not a project"))
    return Place(folder, session or session_of(folder))


def session_of(folder: str) -> str:
    """Return a root's session: the folder's name, and a hash of its path."""
    stem = _OTHERS.sub("-", folder.rpartition("/")[2])[:MAX_STEM].strip("-.") or "root"
    return f"mcp.{stem}.{_hash(os.fsencode(folder)):08x}"


def _hash(data: bytes) -> int:
    """Return FNV-1a in 32 bits."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def folder_of(uri: str) -> str | None:
    if not uri.startswith("file://"):
        return None
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return unquote(parts.path) or None if parts.netloc in ("", "localhost") else None


def _refusal(why: str) -> str:
    return (
        f"haft does not know in which folder to work: {why}. Configure this server with the arguments"
        ' ["mcp", "--root", "/path/of/the/project"]; `haft mcp install --help` shows how.'
    )
