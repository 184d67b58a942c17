"""askpass: a program under a tool asks for a secret, through `haft-askpass` and only with the mark of
its handle. A disconnect withdraws the question."""

from __future__ import annotations

from haft_protocol.errors import handle_stopped, inquiry_failed, mark_not_found
from haft_protocol.methods import AskpassParams, AskpassResult
from haftd.audit import Audit
from haftd.caller import Caller
from haftd.executions.supervisor import Supervisor
from haftd.host.process.identity import is_alive
from haftd.inquiries.secret_prompt import make_secret_prompt
from haftd.inquiries.tool_question import InquiryCancelled, NoAnswer

from .base import DeferredReply
from .read import plain_state


def askpass(
    supervisor: Supervisor, audit: Audit, caller: Caller, params: AskpassParams
) -> DeferredReply:
    """Reply with the answer.

    Raises `handle_not_found` for an unknown mark or one of another handle than the caller's, and
    `handle_stopped` if the handle stops before the answer.
    """
    execution = supervisor.with_tag(params.mark)
    if execution is None:
        raise mark_not_found()

    async def asked() -> AskpassResult:
        # `haft-askpass` may ask before the start of its tool is reported.
        await execution.begun.wait()
        process = caller.process
        if process is None or process.pid not in execution.members() or not is_alive(process):
            raise mark_not_found()
        if params.hint == "none":
            return AskpassResult(None)
        prompt = make_secret_prompt(
            execution.inquiries, params.prompt, confirm=params.hint == "confirm"
        )
        try:
            answer = await execution.inquiries.ask(prompt)
        except InquiryCancelled:
            raise handle_stopped(execution.handle.id, plain_state(execution.handle)) from None
        except NoAnswer as none:
            raise inquiry_failed(execution.handle.id, str(none)) from None
        question = prompt.question
        audit.record_action(
            "askpass", caller, execution.handle, question=question.id, prompt=question.text
        )
        return AskpassResult(answer)

    return DeferredReply(asked)
