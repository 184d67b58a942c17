"""Builtin tool `describe_tools`: the text of `tools/describe`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from haft_protocol.errors import RpcError
from haft_protocol.methods import ToolDescription
from haftd.executions.descriptions import Describer
from haftd.runtimes.base import Call, RuntimeContext, ToolFailed
from haftd.runtimes.builtin import Builtin
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool
from haftd.tools.lists.full_description import page


def builtin_for(catalogue: Catalogue, describer: Describer) -> Builtin:
    async def describe_tools(call: Call, context: RuntimeContext) -> str:
        names: Sequence[str] = call.arguments["tools"]
        root = call.launch.cwd
        asked: list[Tool] = []
        for name in names:
            with contextlib.suppress(RpcError):  # `describe` reports it
                asked += catalogue.self_describing(name, root)
        await describer.ask(describer.lacking(asked, root), root)
        described: list[ToolDescription] = []
        refusals: list[str] = []
        for name in names:
            try:
                described.append(catalogue.describe(name, root, call.surface))
            except RpcError as refusal:
                refusals.append(refusal.message)
        if not described:
            raise ToolFailed("\n".join(refusals))
        return "\n\n".join([page(described), *refusals])

    return describe_tools
