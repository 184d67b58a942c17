"""Snapshots of a handle and their news, without a program."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from msgspec import UNSET

from haft_protocol.methods import FetchParams, ToolsCallParams
from haft_protocol.states import EndedBy, Exit, InputWanted, Running, Screen, Stopped
from haftd.caller import Caller
from haftd.core.echo import TypedInput
from haftd.core.handles import Handle
from haftd.core.read_position import Read
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.truncation import Paint
from haftd.host.files.spool_folder import SpoolFolder
from haftd.methods import read
from haftd.methods.base import DeferredReply, HandleWait
from haftd.methods.verbcall import verb_call
from haftd.runtimes.base import InputState
from tests.core.disks import make


def running(data: bytes, *, terminal: bool = False) -> Handle:
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=make(), now=0.0)
    handle.start(0.0, terminal=terminal)
    handle.append_output(data, 0.0)
    return handle


def supervisor(execution: object = None) -> Any:
    """A supervisor that returns this execution for every handle."""
    return SimpleNamespace(execution_of=lambda handle: execution, wake_expiry=lambda: None)


def screen(*lines: str, revision: int = 5) -> Any:
    shown = Screen(
        rows=len(lines),
        cols=20,
        cursor=(0, 0),
        alt=False,
        title="",
        revision=revision,
        scrollback=0,
        lines=lines,
    )
    return SimpleNamespace(
        picture=lambda: shown, screen=lambda since=None: shown, check_suspended=lambda now: False
    )


ANSWER = FetchParams(id="h", view="answer")


@pytest.mark.parametrize(("at", "content"), [(0, "out\n"), (3, "ls\nout\n")])
async def test_output_unread_before_typing_is_no_echo(at: int, content: str) -> None:
    state: Any = read.look(
        supervisor(), ANSWER, running(b"ls\nout\n"), typed=TypedInput(at, "ls\n")
    )
    assert state.content == content


async def test_an_echo_is_counted_in_bytes() -> None:
    state: Any = read.look(
        supervisor(), ANSWER, running("é\nout".encode()), typed=TypedInput(0, "é\n")
    )
    assert (state.content, state.echoed) == ("out", 3)


@pytest.mark.parametrize("code", [0, 1])
async def test_the_echo_is_removed_from_the_last_output_however_it_ended(code: int) -> None:
    handle = running(b"ls\nout\n")
    handle.end(Termination(by=EndedBy("exit"), exit=Exit(code=code)), 1.0)
    state = read.look(supervisor(), ANSWER, handle, typed=TypedInput(0, "ls\n"))
    assert isinstance(state, Stopped) and state.echoed == 3
    assert (state.content if code else state.result) == "out\n"


async def test_a_prompt_without_a_line_is_the_last_of_the_screen() -> None:
    execution = screen("Welcome", "Password:", "")
    assert read._prompt(running(b"", terminal=True), execution) == "Password:"
    assert read._prompt(running(b"line\n$ ", terminal=True), execution) == "$ "
    assert read._prompt(running(b"line\n  ", terminal=True), execution) == "Password:"
    assert read._prompt(running(b"line\n  "), execution) == "  "


async def test_a_busy_program_is_not_waiting_whatever_its_input_mode() -> None:
    handle, execution = running(b"", terminal=True), screen("")
    assert read._input_wanted(handle, execution, InputState("busy", "line")) is None


async def test_a_just_started_action_has_no_input_state() -> None:
    handle, execution = running(b"password: ", terminal=True), screen("")

    def said(is_stable: bool) -> object:
        wanted = InputState("unknown", "secret", is_stable=is_stable)
        return read._input_wanted(handle, execution, wanted)

    assert said(True) == InputWanted("secret", "password: ", False)
    assert said(False) is None


@pytest.mark.parametrize(("revision", "new"), [(4, -1), (5, 7), (None, 7)])
async def test_a_seen_screen_is_not_new_and_an_old_one_is_outdated(
    revision: int | None, new: int
) -> None:
    handle = running(b"printed", terminal=True)
    handle.read(Read(None, is_session=True, viewed=7), 1.0)
    since = UNSET if revision is None else revision
    params = FetchParams(id="h", view="screen", since_revision=since)
    assert read._new_from(supervisor(screen("x")), params, handle) == new
    assert read._new_from(supervisor(), FetchParams(id="h"), handle) == 0


async def test_a_painting_for_a_terminal_has_no_query_and_ends_before_an_incomplete_character() -> (
    None
):
    data = b"ab\x1b[6n\xe2\x82"
    handle = running(data, terminal=True)
    execution = SimpleNamespace(
        paint=lambda: data,
        input_state=lambda: InputState("busy"),
        check_suspended=lambda now: False,
    )
    whole: Any = read.look(supervisor(execution), FetchParams(id="h", view="paint"), handle)
    assert isinstance(whole.content, Paint), "a batch without room leaves it out"
    assert (b64decode(whole.content), whole.cursor) == (data, len(data))
    params = FetchParams(id="h", view="paint", for_="terminal")
    filtered: Any = read.look(supervisor(execution), params, handle)
    assert (b64decode(filtered.content), filtered.cursor) == (b"ab", len(data) - 2)


@pytest.mark.parametrize("is_readable", [True, False])
async def test_output_that_is_readable_before_the_wait_needs_none(is_readable: bool) -> None:
    handle = running(b"before")

    def read_output() -> None:
        if is_readable:
            handle.append_output(b" and now", 1.0)

    execution = SimpleNamespace(read_output=read_output, check_suspended=lambda now: False)
    params = FetchParams(id="h", wait="output")
    reading = read.plan(params, terminal=False)
    reply = read.answer(supervisor(execution), Caller("unix"), params, handle, reading, since=6)
    if is_readable:
        assert isinstance(reply, Running)
        assert (reply.content, reply.waited) == ("before and now", "output")
    else:
        assert isinstance(reply, HandleWait)


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_the_long_text_of_a_wait_is_read_when_the_reply_is_run(is_encoded: bool) -> None:
    """Not when the wait becomes due: many may, and each would hold a copy."""
    handle = running(b"x" * 200_000)
    params = FetchParams(id="h", wait="stopped", max_bytes=1 << 20)
    execution = SimpleNamespace(check_suspended=lambda now: False)
    reading = read.plan(params, terminal=False)
    wait: Any = read.answer(supervisor(execution), Caller("unix"), params, handle, reading)
    reply = wait.then("stopped")
    assert isinstance(reply, DeferredReply) and handle.position.offset == 0
    handle.append_output(b"y", 0.0)
    run = reply.run_encoding if is_encoded else reply.run
    assert run is not None
    state: Any = await run()
    text = state.content.encoded if is_encoded else state.content.encode()
    assert text == b"x" * 200_000 + b"y" and handle.position.offset == 200_001
    short = wait.then("deadline")
    assert isinstance(short, Running) and short.content == ""


async def test_a_reply_that_is_cancelled_before_it_is_run_reads_nothing() -> None:
    handle = running(b"x" * 200_000)
    params = FetchParams(id="h", wait="stopped", max_bytes=1 << 20)
    reading = read.plan(params, terminal=False)
    wait: Any = read.answer(supervisor(), Caller("unix"), params, handle, reading)
    with trio.CancelScope() as scope:
        scope.cancel()
        await wait.then("stopped").run()
    assert scope.cancelled_caught and handle.position.offset == 0


RESULT = "line\n" * 500_000


def with_long_result(folder: Path, budget: int) -> Handle:
    spool_folder = SpoolFolder(folder, "home", lambda: False)
    spool = Spool(1 << 16, 1 << 20, spool_folder, Budget(budget))
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    handle.end(Termination(by=EndedBy("exit"), result=RESULT, exit=Exit(code=0)), 1.0)
    return handle


@pytest.mark.parametrize("has_room", [True, False])
async def test_a_long_result_is_saved_before_the_read(tmp_path: Path, has_room: bool) -> None:
    """In a task, which lets others have their turns."""
    handle = with_long_result(tmp_path, 1 << 30 if has_room else 0)
    params = FetchParams(id="h", view="all", max_bytes=1000)
    reply = read.look(supervisor(), params, handle)
    assert isinstance(reply, DeferredReply) and handle.spool.saved is None
    state: Any = await reply.run()
    assert state.truncated.bytes == len(RESULT) and state.truncated.kept <= 1000
    if has_room:
        assert Path(state.truncated.path).read_text() == RESULT
        assert isinstance(read.look(supervisor(), params, handle), Stopped)
    else:
        assert state.truncated.path is None


async def test_the_end_of_a_stopped_handle_saves_a_long_result_in_steps(tmp_path: Path) -> None:
    handle = with_long_result(tmp_path, 1 << 30)
    services: Any = SimpleNamespace(
        access=SimpleNamespace(find=lambda *_: handle),
        supervisor=SimpleNamespace(
            execution_of=lambda _: None, executions=lambda *_: (), survivors=lambda *_: ()
        ),
    )
    params = ToolsCallParams(tool="handle_stop", surface="verbs", arguments={"ids": ["h"]})
    reply = verb_call(services, Caller("unix"), params, "s", "call")
    assert isinstance(reply, DeferredReply) and handle.spool.saved is None
    result: Any = await reply.run()
    (state,) = result.completed
    assert Path(state.truncated.path).read_text() == RESULT
