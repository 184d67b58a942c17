"""One call of a server's tool, without a server: rounds, tasks, and the time without progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from haftd.runtimes.base import ToolFailed
from haftd.runtimes.mcp.exchange import Exchange
from haftd.runtimes.mcp.shapes import CallResult, Progress
from haftd.tools.definitions.server_tools import ServedTool

DONE = {"content": [{"type": "text", "text": "done"}]}
Reply = dict[str, Any]


class Connection:
    """A connection that gives a reply after each number of seconds; `made` has the requests with their times."""

    def __init__(self, *replies: tuple[float, Reply], is_modern: bool = True) -> None:
        self.is_modern = is_modern
        self.replies = list(replies)
        self.made: list[tuple[float, str, dict[str, Any]]] = []
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.progress: list[tuple[float, Progress]] = []

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        owner: object = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Raw:
        self.made.append((round(trio.current_time(), 3), method, params))
        for pause, progress in self.progress:
            await trio.sleep(pause)
            assert on_progress is not None
            on_progress(progress)
        seconds, reply = self.replies.pop(0)
        await trio.sleep(seconds)
        return Raw(msgspec.json.encode(reply))

    def send(self, method: str, params: dict[str, Any]) -> None:
        self.sent.append((method, params))


class Context:
    def __init__(self) -> None:
        self.output = b""

    def emit(self, data: bytes) -> None:
        self.output += data


async def call(
    connection: Connection, context: Context | None = None, *, task: str = "forbidden"
) -> CallResult:
    async with trio.open_nursery() as nursery:
        exchange = Exchange(
            cast(Any, connection), cast(Any, context or Context()), nursery, "mark", 10.0
        )
        return await exchange.run("t", ServedTool("t", task=cast(Any, task)), {"a": 1})
    raise AssertionError("a call returns or raises")


def shown(result: CallResult) -> object:
    return [json.loads(bytes(block)) for block in result.content or ()]


async def failure(connection: Connection, **how: Any) -> str:
    with pytest.raises(ToolFailed) as failed:
        try:
            await call(connection, **how)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
    return str(failed.value)


async def test_silence_ends_a_call_and_each_progress_restarts_its_clock(
    autojump_clock: MockClock,
) -> None:
    began = trio.current_time()
    assert "neither an answer nor progress within 10 s" in await failure(Connection((11, DONE)))
    assert round(trio.current_time() - began, 3) == 10
    connection, context = Connection((9, DONE)), Context()
    connection.progress = [
        (9, Progress(1, 1)),
        (9, Progress(1, 2, total=3)),
        (9, Progress(1, 3, message=" last ")),
    ]
    assert shown(await call(connection, context)) == DONE["content"]
    assert context.output == b"1\n2 of 3\nlast\n"


async def test_a_task_is_polled_and_each_new_status_restarts_the_clock(
    autojump_clock: MockClock,
) -> None:
    def task(status: str, **more: Any) -> Reply:
        return {"taskId": "n", "status": status, "pollIntervalMs": 7000, **more}

    connection, context = (
        Connection(
            (0, {"resultType": "task", **task("working", statusMessage="one")}),
            (0, task("working", statusMessage="two")),
            (0, task("working", statusMessage="two")),
            (0, task("completed", result=DONE)),
        ),
        Context(),
    )
    # The second status comes at 7 s and is no news at 14 s, so that the call is given up at 17 s.
    assert "within 10 s" in await failure(connection, context=context)
    assert context.output == b"one\ntwo\n"
    assert connection.sent == [("tasks/cancel", {"taskId": "n"})]
    assert [method for _, method, _ in connection.made] == ["tools/call", "tasks/get", "tasks/get"]
    connection = Connection(
        (0, {"resultType": "task", **task("working")}), (0, task("completed", result=DONE))
    )
    assert shown(await call(connection)) == DONE["content"]
    assert connection.sent == []


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"status": "cancelled"}, "has cancelled the task"),
        ({"status": "failed"}, "The task has failed."),
        ({"status": "failed", "error": {"code": 1, "message": "no disk"}}, "failed: no disk"),
    ],
)
async def test_a_task_without_a_result_fails_the_call(task: Reply, words: str) -> None:
    assert words in await failure(Connection((0, {"resultType": "task", "taskId": "n", **task})))


async def test_the_result_of_a_legacy_task_is_that_of_the_call(autojump_clock: MockClock) -> None:
    begun = {"task": {"taskId": "n", "status": "working", "statusMessage": "hm"}}
    connection, context = Connection((0, begun), (9, DONE), is_modern=False), Context()
    assert shown(await call(connection, context, task="required")) == DONE["content"]
    assert [(method, params.get("taskId")) for _, method, params in connection.made] == [
        ("tools/call", None),
        ("tasks/result", "n"),
    ]
    assert connection.made[0][2]["task"] == {} and context.output == b"hm\n"
    connection = Connection((0, begun), (9, DONE), is_modern=False)
    connection.progress = [(9, Progress(1, 1))]
    assert shown(await call(connection, task="required")) == DONE["content"]
    connection = Connection((0, begun), (11, DONE), is_modern=False)
    assert "within 10 s" in await failure(connection, task="required")
    assert connection.sent == [("tasks/cancel", {"taskId": "n"})]
    connection = Connection((0, begun), is_modern=False)
    assert shown(await call(connection)) == [], "without a task that was asked for"
    assert "task" not in connection.made[0][2]


async def test_a_call_that_wants_no_input_is_repeated_in_growing_pauses(
    autojump_clock: MockClock,
) -> None:
    again = {"resultType": "input_required", "requestState": "s"}
    connection = Connection(*[(0.0, again)] * 7, (0.0, DONE))
    assert shown(await call(connection)) == DONE["content"]
    times = [at for at, _, _ in connection.made]
    pauses = [round(after - before, 3) for before, after in pairwise(times)]
    assert pauses == [0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0]
    states = [params.get("requestState") for _, _, params in connection.made]
    assert states == [None] + ["s"] * 7
    assert all(params["arguments"] == {"a": 1} for _, _, params in connection.made)


async def test_a_call_is_made_no_more_than_a_hundred_times(autojump_clock: MockClock) -> None:
    connection = Connection(*[(0.0, {"resultType": "input_required"})] * 100)
    exchanged = []
    connection.progress = [(0.0, Progress(1, 1))]
    assert "repeated more than 100 times" in await failure(connection)
    exchanged += connection.made
    assert len(exchanged) == 100


async def test_a_result_of_an_unknown_type_fails_the_call() -> None:
    assert "of the type 'odd'" in await failure(Connection((0, {"resultType": "odd"})))
