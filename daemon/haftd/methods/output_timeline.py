"""output/timeline: times of a handle's output."""

from __future__ import annotations

from math import inf

from msgspec import UNSET

from haft_protocol.methods import TimelineParams, TimelineResult
from haftd.caller import Caller

from .access import Access


def output_timeline(access: Access, caller: Caller, params: TimelineParams) -> TimelineResult:
    """Return the points from the byte at `cursor` on."""
    handle = access.find(caller, params, params.id)
    timeline = handle.timeline
    points = timeline.since(params.cursor, params.max_points + 1)
    more = len(points) > params.max_points
    stop = points[-2][0] if more else inf

    def ms(at: float) -> int:
        return round((at - handle.created_at) * 1000)

    return TimelineResult(
        generation=handle.generation,
        started_at=handle.started_at,
        grain_ms=round(timeline.error * 1000),
        cursor=handle.spool.end,
        points=tuple((offset, ms(at)) for offset, at in points[: params.max_points]),
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
