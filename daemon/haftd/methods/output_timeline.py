"""output/timeline: when the bytes of a handle's output were printed."""

from __future__ import annotations

from haft_protocol.methods import TimelineParams, TimelineResult
from haftd.caller import Caller

from .access import Access


def output_timeline(access: Access, caller: Caller, params: TimelineParams) -> TimelineResult:
    """Return the points from that of the byte at `cursor` on."""
    handle = access.find(caller, params, params.id)
    points = handle.timeline.since(params.cursor, params.max_points + 1)
    more = len(points) > params.max_points
    return TimelineResult(
        generation=handle.generation,
        started_at=handle.started_at,
        grain_ms=round(handle.timeline.error * 1000),
        cursor=handle.spool.end,
        points=tuple(
            (offset, round((at - handle.created_at) * 1000))
            for offset, at in points[: params.max_points]
        ),
        more=more,
    )
