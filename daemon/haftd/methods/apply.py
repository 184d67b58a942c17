"""apply: send input or an answer to a tool, then read like fetch.

Invalid input changes nothing. Inputs are queued whole, in order.
"""

from __future__ import annotations

import msgspec
import trio
from msgspec import UnsetType

from haft_protocol.errors import handle_stopped, invalid_answer, question_gone
from haft_protocol.inputs import Input, read_input
from haft_protocol.methods import ApplyParams
from haft_protocol.questions import InvalidAnswer, check_answer
from haftd.audit import make_input_fields
from haftd.caller import Caller
from haftd.core.echo import TypedInput
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.executions.execution import Execution
from haftd.inquiries.kind import Answered

from .approval_gate import approved
from .base import HandleServices, HandleWait
from .conditions import Reading
from .read import answer, look, plain_state, plan, raise_rejection

_TYPED = ("text", "line", "keys", "paste")
_BESIDE = ("signal", "resize")


class _Application(msgspec.Struct, frozen=True):
    services: HandleServices
    caller: Caller
    params: ApplyParams
    handle: Handle
    execution: Execution
    reading: Reading
    began: float

    @property
    def deadline(self) -> float:
        return self.began + self.reading.timeout_s

    def read(self, since: int, text: str = "") -> object:
        """Read output after `since`; `text` was typed with echo."""
        make_input_fields = TypedInput(since, text) if text else None
        cursor = self.params.cursor
        since = since if isinstance(cursor, UnsetType) else cursor
        return answer(
            self.services.supervisor,
            self.caller,
            self.params,
            self.handle,
            self.reading,
            since,
            self.began,
            make_input_fields,
        )

    def record(self, kind: str, *, withheld: bool, **more: str) -> None:
        if withheld:
            form: dict[str, object] = {"withheld": True, "kind": kind}
        else:
            form = make_input_fields(self.params.input)
        self.services.audit.record_action("apply", self.caller, self.handle, **more, **form)

    def late(self) -> object:
        return look(self.services.supervisor, self.params, self.handle, "deadline")


def apply(services: HandleServices, caller: Caller, params: ApplyParams) -> object:
    """Send input or an answer, by the handle's state.

    Raises `handle_stopped`, `invalid_answer`, `action_not_supported`.
    """
    handle = services.access.find(caller, params, params.id)
    if handle.stopped or "apply" not in handle.settings.policy:
        return _apply(services, caller, handle, params)
    return approved(
        services,
        caller,
        "apply",
        handle,
        params,
        lambda params: _apply(services, caller, handle, params),
        lambda params: _check(handle, params),
        withheld=_is_withheld(services, handle, params),
    )


def _check(handle: Handle, params: ApplyParams) -> None:
    plan(params, terminal=handle.terminal)
    if handle.question is None or is_beside(params.input):
        read_input(params.input)
        return
    try:
        check_answer(handle.question, params.input)
    except InvalidAnswer as wrong:
        raise invalid_answer(_answer_fault(wrong, params.input)) from None


def _answer_fault(wrong: InvalidAnswer, value: object) -> str:
    """Return the message for a wrong answer.

    Typed input (`line`, `text`, `paste`) must not answer a new question.
    """
    if isinstance(value, dict) and {"line", "text", "paste"} & value.keys():
        return f"the handle asks a question, and typed input does not answer it; {str(wrong).rstrip('.')} as the `input` itself"
    return str(wrong)


def _is_withheld(services: HandleServices, handle: Handle, params: ApplyParams) -> bool:
    execution = services.supervisor.execution_of(handle)
    if isinstance(params.input, dict) and params.input.get("secret"):
        return True
    if execution is None:
        return False
    return (
        execution.inquiries.is_private
        if execution.inquiries.current is not None
        else execution.hides_input()
    )


def _apply(services: HandleServices, caller: Caller, handle: Handle, params: ApplyParams) -> object:
    execution = services.supervisor.execution_of(handle)
    if handle.stopped or execution is None:
        raise handle_stopped(handle.id, plain_state(handle))
    if not isinstance(params.question, UnsetType):
        asked = None if handle.question is None else handle.question.id
        if params.question != asked:
            raise question_gone(handle.id, params.question)
    reading = plan(params, terminal=handle.terminal)
    call = _Application(services, caller, params, handle, execution, reading, trio.current_time())
    if handle.state is State.WAITING and not is_beside(params.input):
        return _answer_question(call)
    form = read_input(params.input)
    if handle.state is State.PENDING:
        return _send_on_start(call, form)
    return _send_input(call, form)


def is_beside(form: object) -> bool:
    """True for input that acts on the process and is never an answer."""
    return isinstance(form, dict) and any(kind in form for kind in _BESIDE)


def _answer_question(call: _Application) -> object:
    question = call.handle.question
    if question is None:
        raise AssertionError("a waiting handle without a question")
    try:
        value = check_answer(question, call.params.input)
    except InvalidAnswer as wrong:
        raise invalid_answer(_answer_fault(wrong, call.params.input)) from None
    if call.execution.inquiries.needs_a_person and not call.caller.may("questions"):
        raise call.caller.refusal("answer a question for a person")
    since = call.handle.spool.end
    private = call.execution.inquiries.is_private
    pending = call.execution.inquiries.current
    if pending is None:
        raise AssertionError("a waiting handle without an open inquiry")
    pending.settle(Answered(value))
    call.record("answer", withheld=private, question=question.id)
    return call.read(since)


def _send_input(call: _Application, form: Input) -> object:
    execution, handle = call.execution, call.handle
    since = handle.spool.end
    hidden = execution.hides_input()
    shares_size = handle.terminal and call.services.access.clients.of(call.caller) is not None
    is_typed = shares_size and form.kind not in _BESIDE
    number = execution.type(call.caller, form) if is_typed else execution.write(form)
    if shares_size and form.kind == "resize":
        execution.resized(call.caller, form.rows, form.cols)
    # Asked before and after: the process may turn the echo off meanwhile.
    hidden = form.kind in _TYPED and (hidden or execution.hides_input())
    call.record(form.kind, withheld=hidden or form.secret)
    if form.kind in _TYPED and not (hidden or form.secret):
        handle.timeline.add_input(since, call.began, len(form.text) or len(form.keys))
    shown = handle.terminal and form.kind in _TYPED and not (hidden or form.secret)
    text = (f"{form.text}\n" if form.kind == "line" else form.text) if shown else ""
    if execution.written_to >= number or call.reading.wait == "none":
        return call.read(since, text)

    return HandleWait(
        (handle,),
        lambda: execution.written_to >= number or handle.stopped or None,
        lambda is_written: call.read(since, text) if is_written else call.late(),
        call.deadline,
    )


def _send_on_start(call: _Application, form: Input) -> HandleWait:
    results: list[object] = []

    def act() -> None:
        try:
            raise_rejection(call.handle)
            if call.handle.stopped:
                raise handle_stopped(call.handle.id, plain_state(call.handle))
            results.append(_send_input(call, form))
        except Exception as error:
            results.append(error)  # this call's error, not the starting one's

    call.execution.when_begun(act)

    def reply_of(results: list[object] | None) -> object:
        if not results:
            return call.late()
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    # Without a reply the end is a notice: the reply reads no end.
    return HandleWait(
        (call.handle,), lambda: results or None, reply_of, call.deadline, is_reader=False
    )
