"""The builtin `describe_tools`: what a model can read about the tools.

Rules: it says what `tools/describe` says, as a text. A program that has to describe its tool first is
asked for it. Sections 5 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence

from haft_protocol.errors import RpcError
from haftd.executions.describing import Describing
from haftd.runtimes.base import Call, RuntimeContext, ToolFailed
from haftd.runtimes.builtin import Builtin
from haftd.tools.catalogue import Catalogue
from haftd.tools.lists.pages import page


def manual(catalogue: Catalogue, describing: Describing) -> Builtin:
    """The builtin, for the tools of the call's root."""

    async def describe_tools(call: Call, port: RuntimeContext) -> str:
        names: Sequence[str] = call.arguments["tools"]
        root = call.cwd
        try:
            asked = [one for name in names for one in catalogue.self_describing(name, root)]
            await describing.ask(describing.lacking(asked, root), root)
            return page(catalogue.describe(name, root) for name in names)
        except RpcError as refusal:
            raise ToolFailed(refusal.message) from None

    return describe_tools
