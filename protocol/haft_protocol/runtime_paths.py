"""Paths of the runtime folder's files."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .paths import socket_path

__all__ = ["Runtime", "runtime_paths"]


class Runtime(msgspec.Struct, frozen=True):
    """Runtime folder (0700) and its files. `ours`: made by haft, not chosen by `HAFT_SOCKET`."""

    folder: str
    socket: str
    token: str
    proof_key: str
    handles_lock: str
    daemon_lock: str
    recover_lock: str
    ours: bool


def runtime_paths(env: Mapping[str, str], uid: int, *, socket: str | None = None) -> Runtime:
    path = socket_path(env, uid, socket=socket)
    folder = path.rpartition("/")[0] or "/"
    base = folder.rstrip("/")
    return Runtime(
        folder=folder,
        socket=path,
        token=f"{base}/token",
        proof_key=f"{base}/proof-key",
        handles_lock=f"{base}/handles.lock",
        daemon_lock=f"{base}/daemon.lock",
        recover_lock=f"{base}/recover.lock",
        ours=not (socket or env.get("HAFT_SOCKET")),
    )
