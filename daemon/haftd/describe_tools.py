"""Builtin tool `describe_tools`: the text of `tools/describe`. Protocol, sections 5 and 10."""

from __future__ import annotations

from collections.abc import Sequence

from haft_protocol.errors import RpcError
from haftd.executions.descriptions import Describer
from haftd.runtimes.base import Call, RuntimeContext, ToolFailed
from haftd.runtimes.builtin import Builtin
from haftd.tools.catalogue import Catalogue
from haftd.tools.lists.pages import page


def builtin_for(catalogue: Catalogue, describer: Describer) -> Builtin:
    async def describe_tools(call: Call, context: RuntimeContext) -> str:
        names: Sequence[str] = call.arguments["tools"]
        root = call.launch.cwd
        try:
            asked = [tool for name in names for tool in catalogue.self_describing(name, root)]
            await describer.ask(describer.lacking(asked, root), root)
            return page(catalogue.describe(name, root) for name in names)
        except RpcError as refusal:
            raise ToolFailed(refusal.message) from None

    return describe_tools
