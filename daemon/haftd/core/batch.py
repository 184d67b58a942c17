"""Clashes of a batch's handle ids, with live handles or each other, which fail the whole batch
(docs/protocol.md, "Calling tools"); a repeated call is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from haft_protocol.errors import RpcError, handle_exists, shown

from .registry import Registry


class SpawnKey(msgspec.Struct, frozen=True):
    session: str
    id: str
    tool: str = ""
    call_id: str | None = None
    args: Mapping[str, Any] = {}


def admit_batch(spawns: Sequence[SpawnKey], registry: Registry) -> list[RpcError | None]:
    errors: list[RpcError | None] = [None] * len(spawns)
    live: dict[str, dict[str, str]] = {}
    for spawn in spawns:
        if spawn.session not in live:
            live[spawn.session] = {h.id: str(h.state) for h in registry.live(spawn.session)}
    first: dict[tuple[str, str], int] = {}
    for at, spawn in enumerate(spawns):
        if (
            registry.find_call(spawn.session, spawn.call_id, spawn.tool, dict(spawn.args))
            is not None
        ):
            continue
        state = live[spawn.session].get(spawn.id)
        if state is None and registry.is_reserved(spawn.session, spawn.id):
            state = "pending"
        if state is not None:
            errors[at] = handle_exists(spawn.id, spawn.session, state)
            continue
        earlier = first.setdefault((spawn.session, spawn.id), at)
        if earlier != at and not (spawn.call_id is not None and spawns[earlier] == spawn):
            errors[at] = _duplicate_id(spawn)
            errors[earlier] = errors[earlier] or _duplicate_id(spawn)
    return errors


def _duplicate_id(spawn: SpawnKey) -> RpcError:
    return RpcError(
        "handle_exists",
        f"Handle {shown(spawn.id)} is spawned more than once in this batch; "
        "give each spawn an id of its own.",
        id=spawn.id,
        session=spawn.session,
    )
