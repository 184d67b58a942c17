"""output/search, output/timeline: lines of kept output, and the times of output."""

from __future__ import annotations

from math import inf

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.methods import (
    FoundLine,
    SearchParams,
    SearchResult,
    TimelineParams,
    TimelineResult,
)
from haftd.caller import Caller
from haftd.client_locks import ClientLocks
from haftd.core.patterns import compile_pattern
from haftd.core.search import (
    MAX_REPLY,
    LineBudget,
    LineMatch,
    Search,
    Slice,
    match_lines,
)
from haftd.match_scheduler import MatchScheduler, Turn

from .access import Access
from .base import DeferredReply

_turns = ClientLocks()

MAX_MATCHING_S = 10.0
"""Seconds that a call matches, after which it replies with its matches so far."""


def output_search(access: Access, caller: Caller, params: SearchParams) -> DeferredReply:
    """Return the matching lines, oldest first per handle; the read offset stays.

    The searches of a connection take turns: each holds its matches until the reply.
    """
    pattern = compile_pattern(params.pattern, within_lines=True)
    if isinstance(params.ids, UnsetType):
        access.handles()
        handles = access.reachable(caller, access.session_of(caller, params))
    else:
        handles = [access.find(caller, params, name) for name in params.ids]

    turn = _turns.of(caller)

    async def found_in_turn(budget: LineBudget) -> SearchResult:
        async with turn:
            return await found(budget)

    async def found(budget: LineBudget) -> SearchResult:
        matches: list[FoundLine] = []
        more = False
        matching = MatchScheduler(pattern.programsize)
        left_s = MAX_MATCHING_S
        for handle in handles:
            room = params.max_matches - len(matches)
            search = Search(handle.spool, pattern, room, budget, handle.rendering)
            while (part := search.read()) is not None:
                search.take(part, await _match(matching, caller, part))
                left_s -= matching.used_s
                if left_s <= 0:
                    search.more = True
            matches += [
                FoundLine(handle.id, handle.generation, at, line) for at, line in search.matches
            ]
            more = search.more or (len(matches) >= params.max_matches and handle is not handles[-1])
            if more:
                break
            await trio.lowlevel.checkpoint()
        return SearchResult(tuple(matches), more)

    return DeferredReply(
        lambda: found_in_turn(LineBudget(MAX_REPLY)),
        run_in_batch=lambda budget: found_in_turn(budget.lines),
    )


async def _match(matching: MatchScheduler, client: object, part: Slice) -> list[LineMatch]:
    """Return the matching lines of a slice, a costly one matched in a thread."""
    size = len(part.text)
    if size > matching.loop_size():
        async with Turn(client) as turn:
            return await matching.match_in_thread(turn, lambda: match_lines(part), size)
    lines = matching.match(lambda: match_lines(part), size)
    await trio.lowlevel.checkpoint()
    return lines


def output_timeline(access: Access, caller: Caller, params: TimelineParams) -> TimelineResult:
    """Return the points from the byte at `cursor` on, two at least: the last begins the next page."""
    handle = access.find(caller, params, params.id)
    timeline = handle.timeline
    limit = max(2, params.max_points)
    points = timeline.since(params.cursor, limit + 1)
    more = len(points) > limit
    stop = points[-2][0] if more else inf

    def ms(at: float) -> int:
        return round((at - handle.created_at) * 1000)

    return TimelineResult(
        generation=handle.generation,
        started_at=handle.started_at,
        grain_ms=round(timeline.error * 1000),
        cursor=handle.spool.end,
        points=tuple((offset, ms(at)) for offset, at in points[:limit]),
        more=more,
        initial_size=timeline.initial_size or UNSET,
        resizes=tuple(
            (offset, ms(at), rows, cols)
            for offset, at, rows, cols in timeline.resizes
            if params.cursor <= offset < stop
        ),
        inputs=tuple(
            (offset, ms(at), size)
            for offset, at, size in timeline.inputs
            if params.cursor <= offset < stop
        ),
    )
