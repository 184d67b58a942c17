"""apply: give a running tool input, or a waiting one its answer; then read as fetch does.

Rules: what cannot be given is refused before anything changes. Input is queued whole, in order of
arrival over all connections, and the call reads only after its own input is with the program.
"""

from __future__ import annotations

import trio
from msgspec import UnsetType

from haft_protocol.errors import RpcError, handle_stopped, invalid_answer
from haft_protocol.inputs import InputForm, read_input
from haft_protocol.methods import ApplyParams
from haft_protocol.questions import InvalidAnswer, check_answer
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.daemon import Daemon
from haftd.runtimes.base import Input
from haftd.supervisor import Use

from .base import Caller, Later, settled
from .reading import DEADLINE_MS, answer, look, plan, usual
from .waiting import until

__all__ = ["apply"]


def apply(daemon: Daemon, caller: Caller, params: ApplyParams) -> object:
    """Give input or an answer by the handle's state; raises `handle_stopped`, `invalid_answer`,
    `action_not_supported` where the program takes no input."""
    handle = daemon.find(caller, params, params.id)
    use = daemon.supervisor.use_of(handle)
    if handle.state is State.STOPPED or use is None:
        raise handle_stopped(handle.id, look(daemon, params, handle))
    if handle.state is State.WAITING:
        return _answer_question(daemon, params, handle, use)
    form = read_input(params.input)
    if handle.state is State.PENDING:
        return _give_when_it_runs(daemon, params, handle, use, form)
    return _give(daemon, params, handle, use, form)


def _answer_question(daemon: Daemon, params: ApplyParams, handle: Handle, use: Use) -> object:
    question = handle.question
    if question is None:
        raise AssertionError("a waiting handle has its question")
    try:
        value = check_answer(question, params.input)
    except InvalidAnswer as wrong:
        raise invalid_answer(str(wrong)) from None
    since = handle.spool.end
    use.answer(value)
    return _read(daemon, params, handle, since)


def _give(daemon: Daemon, params: ApplyParams, handle: Handle, use: Use, form: InputForm) -> object:
    since = handle.spool.end
    number = use.write(_input(form))
    if use.written_to >= number:
        return _read(daemon, params, handle, since)

    async def when_written() -> object:
        bound = DEADLINE_MS if isinstance(params.timeout_ms, UnsetType) else params.timeout_ms
        done = await until(
            (handle,),
            lambda: True if use.written_to >= number or handle.stopped else None,
            deadline=trio.current_time() + bound / 1000,
        )
        if not done:
            return look(daemon, params, handle, "deadline")
        return await settled(_read(daemon, params, handle, since))

    return Later(when_written)


def _give_when_it_runs(
    daemon: Daemon, params: ApplyParams, handle: Handle, use: Use, form: InputForm
) -> Later:
    """Keep the order of arrival although the tool does not run yet."""
    given: list[object] = []
    ready = trio.Event()

    def act() -> None:
        try:
            if use.failure is not None:
                raise use.failure
            if handle.stopped:
                raise handle_stopped(handle.id, look(daemon, params, handle))
            given.append(_give(daemon, params, handle, use, form))
        except RpcError as error:
            given.append(error)
        ready.set()

    use.when_begun(act)

    async def when_it_runs() -> object:
        await ready.wait()
        reply = given[0]
        if isinstance(reply, RpcError):
            raise reply
        return await settled(reply)

    return Later(when_it_runs)


def _read(daemon: Daemon, params: ApplyParams, handle: Handle, since: int) -> object:
    if not isinstance(params.cursor, UnsetType):
        since = params.cursor
    reading = plan(params, handle, since=since, default=usual(handle))
    return answer(daemon, params, handle, reading)


def _input(form: InputForm) -> Input:
    return Input(
        kind=form.kind,
        text=form.text,
        keys=form.keys,
        signal=form.signal,
        rows=form.rows,
        cols=form.cols,
        secret=form.secret,
    )
