"""output/search: find lines in kept output of handles."""

from __future__ import annotations

import trio
from msgspec import UnsetType

from haft_protocol.methods import FoundLine, SearchParams, SearchResult
from haftd.caller import Caller
from haftd.core.patterns import compile_pattern
from haftd.core.search import Search

from .access import Access
from .base import DeferredReply


def output_search(access: Access, caller: Caller, params: SearchParams) -> DeferredReply:
    """Return the matching lines, oldest first per handle; the read offset stays."""
    compile_pattern(params.pattern, within_lines=True)
    if isinstance(params.ids, UnsetType):
        access.handles()
        handles = access.reachable(caller, access.session_of(caller, params))
    else:
        handles = [access.find(caller, params, name) for name in params.ids]

    async def found() -> SearchResult:
        matches: list[FoundLine] = []
        more = False
        for handle in handles:
            room = params.max_matches - len(matches)
            search = Search(handle.spool, params.pattern, room, handle.rendering)
            while not search.step():
                await trio.lowlevel.checkpoint()
            matches += [
                FoundLine(handle.id, handle.generation, at, line) for at, line in search.matches
            ]
            more = more or search.more
            if len(matches) >= params.max_matches:
                more = more or handle is not handles[-1]
                break
            await trio.lowlevel.checkpoint()
        return SearchResult(tuple(matches), more)

    return DeferredReply(found)
