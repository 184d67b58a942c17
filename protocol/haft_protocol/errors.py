"""Errors of the wire: a code, a kind, and a message with fault and remedy (docs/protocol.md,
"Errors").

A client's text is cut and escaped; no environment value, token or traceback enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .ellipsis import shorten

__all__ = [
    "CODES",
    "RpcError",
    "action_not_supported",
    "approval_gone",
    "confined",
    "describe_rejection",
    "escaped",
    "for_a_person",
    "handle_exists",
    "handle_not_found",
    "handle_stopped",
    "input_refused",
    "inquiry_failed",
    "inquiry_gone",
    "internal",
    "invalid_answer",
    "invalid_arguments",
    "invalid_params",
    "invalid_request",
    "limit_exceeded",
    "mark_not_found",
    "method_not_found",
    "not_approved",
    "not_authorized",
    "parse_error",
    "peer_gone",
    "question_gone",
    "read_only",
    "request_cancelled",
    "shown",
    "shutting_down",
    "spawn_failed",
    "tool_not_found",
    "trust_refused",
    "unanswered",
    "unsupported_runtime",
    "unsupported_source",
    "untrusted_tool",
]

CODES: dict[str, int] = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "internal_error": -32603,
    "request_cancelled": -32800,
    "handle_not_found": -32001,
    "handle_exists": -32002,
    "tool_not_found": -32003,
    "action_not_supported": -32004,
    "invalid_arguments": -32005,
    "not_authorized": -32006,
    "not_approved": -32007,
    "handle_stopped": -32008,
    "limit_exceeded": -32009,
    "untrusted_root": -32010,
    "invalid_answer": -32011,
    "spawn_failed": -32012,
    "shutting_down": -32013,
    "unsupported_runtime": -32014,
}

_KINDS = {code: kind for kind, code in CODES.items()}

_MAX_TEXT_BYTES = 512
"""Bytes of a message, and of a string in `data`."""

_MAX_PROBLEMS = 100
_MAX_NAMED_HANDLES = 8
_MAX_NAMED_TOOLS = 12
_MAX_COMPARED_CHARS = 64


def _cut(text: str, limit: int = _MAX_TEXT_BYTES) -> str:
    """Escape invisible characters; cut to `limit` bytes of whole characters."""
    if len(text) > limit:
        text = text[: limit + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode("utf-8", "ignore") + "…"


def _end(why: str) -> str:
    return why[: _MAX_TEXT_BYTES + 1].rstrip(" .\n")


def shown(text: object, limit: int = 120) -> str:
    """Quote `text` for a message: escaped, shortened to `limit` characters."""
    return shorten(_quote(text, limit), limit)


def escaped(text: str | bytes, limit: int = 120) -> str:
    """Return `text` as `shown` does, without quotes.

    >>> escaped("a\\nb"), escaped(b"running", 4)
    ('a\\\\nb', 'run…')
    """
    return shorten(_quote(text, limit)[1:-1], limit)


def _quote(text: object, limit: int) -> str:
    """Return the quoted text, of which more than `limit` characters are not needed."""
    if isinstance(text, str | bytes) and len(text) > limit:
        text = text[: limit + 1]
    quoted = repr(text) if isinstance(text, str) and text.isprintable() else ascii(text)
    return quoted.removeprefix("b") if isinstance(text, bytes) else quoted


class RpcError(Exception):
    """Error reply. `data` always holds `kind`; the message and the strings in `data` are cut to 512 bytes.

    >>> error = RpcError("handle_not_found", "There is no handle 'build'.", id="build")
    >>> error.code, error.data
    (-32001, {'kind': 'handle_not_found', 'id': 'build'})
    """

    def __init__(self, kind: str, message: str, **data: Any) -> None:
        self.kind = kind
        self.code = CODES[kind]
        self.message = _cut(message)
        self.data: dict[str, Any] = {
            "kind": kind,
            **{
                key: _cut(value) if isinstance(value, str) else value for key, value in data.items()
            },
        }
        super().__init__(self.message)

    @classmethod
    def received(cls, code: int, message: str, data: Mapping[str, Any]) -> RpcError:
        """Return a peer's error; an unknown code keeps its number."""
        error = cls(_KINDS.get(code, "internal_error"), message)
        error.code = code
        error.data.update(data)
        error.kind = str(error.data["kind"])
        return error


def parse_error(why: str) -> RpcError:
    return RpcError("parse_error", f"The message could not be parsed: {_end(why)}.")


def invalid_request(why: str) -> RpcError:
    return RpcError("invalid_request", f"This is not a JSON-RPC 2.0 request: {_end(why)}.")


def method_not_found(name: str) -> RpcError:
    return RpcError(
        "method_not_found", f"There is no method {shown(name)}; `rpc.discover` lists all methods."
    )


def invalid_params(why: str, **data: Any) -> RpcError:
    """Refuse params; `why` names the field."""
    return RpcError("invalid_params", f"The params are invalid: {_end(why)}.", **data)


def internal(incident: str) -> RpcError:
    """Report a fault of the daemon; `incident` is its key in the log."""
    return RpcError(
        "internal_error",
        f"haftd failed on this request; its log has the details under {incident}.",
        incident=incident,
    )


def request_cancelled() -> RpcError:
    return RpcError(
        "request_cancelled",
        "The request was cancelled by `$/cancelRequest`; a handle that it only waited for keeps running.",
    )


def handle_not_found(
    handle: str,
    session: str,
    *,
    expired: bool = False,
    known: Sequence[str] = (),
    rejection: str = "",
) -> RpcError:
    """Refuse an unknown handle; `expired`: its result is no longer kept, `rejection`: the error of
    its last start."""
    if rejection:
        message = (
            f"Handle {shown(handle)} of session {shown(session)} {describe_rejection(rejection)}"
        )
    elif expired:
        message = f"Handle {shown(handle)} of session {shown(session)} has ended, or was lost with an earlier haftd before its program ran, and no result of it is kept; start it again."
    else:
        message = f"There is no handle {shown(handle)} in session {shown(session)}{_other_handles(known)}."
    data = {"expired": True} if expired else {}
    return RpcError("handle_not_found", message, id=handle, session=session, **data)


def _other_handles(ids: Sequence[str]) -> str:
    if not ids:
        return "; it has none. `spawn` starts one"
    named = ", ".join(map(shown, ids[:_MAX_NAMED_HANDLES]))
    more = len(ids) - _MAX_NAMED_HANDLES
    return f"; those there are: {named}" + (
        f", and {more} more in `handles/list`" if more > 0 else ""
    )


def mark_not_found() -> RpcError:
    """Refuse a mark of no live handle, or of another handle's process."""
    return RpcError(
        "handle_not_found",
        "This process belongs to no running tool with that mark; only processes of a tool may ask.",
    )


def question_gone(handle: str, question: str) -> RpcError:
    """Refuse an answer to a closed question; the handle got no input."""
    return RpcError(
        "invalid_answer",
        f"Handle {shown(handle)} is not asking the question {shown(question)}; `fetch` shows its state.",
        id=handle,
        question=question,
    )


def inquiry_gone(inquiry: str, session: str) -> RpcError:
    return RpcError(
        "invalid_answer",
        f"No inquiry with the id {shown(inquiry)} is open in session {shown(session)}; `inquiries/list` shows the open ones.",
        inquiry_id=inquiry,
        session=session,
    )


def for_a_person(question: str) -> RpcError:
    return RpcError(
        "invalid_answer",
        f"The question {shown(question)} is for a person, so an assistant's answer is not accepted; it is still open; wait until a person has answered it.",
        question=question,
    )


def inquiry_failed(handle: str, why: str) -> RpcError:
    """Report that a question outside the program's input gets no answer."""
    return RpcError(
        "invalid_answer",
        f"The inquiry for handle {shown(handle)} cannot be answered: {_end(why)}.",
        id=handle,
    )


def unanswered(question: str, why: str) -> RpcError:
    return RpcError(
        "invalid_answer",
        f"Question {shown(question)} has no answer: {_end(why)}.",
        question=question,
    )


def handle_exists(handle: str, session: str, state: str) -> RpcError:
    return RpcError(
        "handle_exists",
        f"Handle {shown(handle)} is taken in session {shown(session)} ({state}); choose another id, or end it first with `abort`.",
        id=handle,
        session=session,
        state=state,
    )


def tool_not_found(tool: str, known: Sequence[str], refused: str = "") -> RpcError:
    """Refuse an unknown tool, naming the known tools, or the nearest of many.

    `refused`: a clause about an unused definition of that name ("its definition was refused …").
    """
    why = f": {_cut(_end(refused), _MAX_TEXT_BYTES // 2)}" if refused else ""
    return RpcError(
        "tool_not_found",
        f"There is no tool {shown(tool, 80)}{why}{_nearest(tool, known)}.",
        tool=tool,
    )


def _nearest(name: str, tools: Sequence[str]) -> str:
    if not tools:
        return "; there are none"
    from difflib import get_close_matches  # rarely needed

    if len(tools) <= _MAX_NAMED_TOOLS:
        meant = get_close_matches(name[:_MAX_COMPARED_CHARS], tools, n=1, cutoff=0.7)
        hint = f" (is {shown(meant[0])} meant?)" if meant else ""
        return f"{hint}; the tools are: {', '.join(sorted(tools))}"
    near = get_close_matches(name[:_MAX_COMPARED_CHARS], tools, n=_MAX_NAMED_TOOLS, cutoff=0.5)
    named = near or sorted(tools)[:_MAX_NAMED_TOOLS]
    more = len(tools) - len(named)
    return f"; {'the nearest' if near else 'some'} of {len(tools)} tools: {', '.join(named)}" + (
        f", and {more} more in `tools/list`" if more else ""
    )


def action_not_supported(tool: str, action: str, why: str) -> RpcError:
    return RpcError(
        "action_not_supported",
        f"Tool {shown(tool)} does not support {shown(action)}: {_end(why)}.",
        tool=tool,
        action=action,
    )


def input_refused(tool: str, why: str) -> RpcError:
    """Refuse a valid input that this handle cannot take now; none was written."""
    return RpcError(
        "action_not_supported",
        f"The input was refused:  {_end(why)}.",
        tool=tool,
        action="apply",
    )


def invalid_arguments(tool: str, problems: Sequence[dict[str, str]]) -> RpcError:
    """Refuse the tool's arguments; `problems` are {path, message}.

    The message has the first ten, `data.problems` up to 100; `data.more` counts the rest.
    """
    kept = [
        {key: _cut(text) for key, text in problem.items()} for problem in problems[:_MAX_PROBLEMS]
    ]
    listed = "; ".join(f"{problem['path']}: {_end(problem['message'])}" for problem in kept[:10])
    more = {} if len(problems) == len(kept) else {"more": len(problems) - len(kept)}
    stop = "" if listed.endswith("?") else "."
    return RpcError(
        "invalid_arguments",
        f"The arguments of {shown(tool)} are invalid: {listed}{stop}",
        tool=tool,
        problems=kept,
        **more,
    )


def not_authorized(why: str) -> RpcError:
    return RpcError("not_authorized", why)


def read_only(method: str) -> RpcError:
    return RpcError(
        "not_authorized",
        f"This connection is read-only, as requested by its `initialize`, and `{method}` makes changes; call it on another connection.",
        read_only=True,
        method=method,
    )


def confined(action: str, handle: str | None, session: str | None) -> RpcError:
    """Refuse an action of a tool's process, whose `handle` and `session` may be unknown (None)."""
    if handle is None or session is None:
        where = "haftd has started this program, but it cannot be told for which handle"
        data = {}
    else:
        where = f"This program runs in handle {shown(handle)} of session {shown(session)}"
        data = {"handle": handle, "session": session}
    return RpcError(
        "not_authorized",
        f"{where}, so it cannot {action}: a person must do it, in their own terminal or in `haft shell`.",
        **data,
    )


def peer_gone() -> RpcError:
    """Refuse a process that has ended or hides its connection."""
    return RpcError(
        "not_authorized",
        "haftd cannot identify the process that connected: it has ended, or hides its open files; connect again, over the Unix socket if this is a WebSocket.",
    )


def not_approved(tool: str, action: str, why: str) -> RpcError:
    """Refuse an action denied or not approved in time; with `result` withheld, the tool has run."""
    outcome = f"Tool {shown(tool)} was not approved for {shown(action)}"
    if action == "result":
        outcome = f"Tool {shown(tool)} has run, and its result was withheld"
    return RpcError(
        "not_approved",
        f"{outcome}: {_end(why)}.",
        tool=tool,
        action=action,
    )


def approval_gone(approval: str, session: str) -> RpcError:
    return RpcError(
        "invalid_answer",
        f"No action with the id {shown(approval)} awaits approval in session {shown(session)}; `approvals/list` shows those that do.",
        approval_id=approval,
        session=session,
    )


def handle_stopped(handle: str, state: object) -> RpcError:
    return RpcError(
        "handle_stopped",
        f"Handle {shown(handle)} has ended; `fetch` still reads it. To continue, start it again.",
        id=handle,
        state=state,
    )


def limit_exceeded(limit: str, value: int, subject: str) -> RpcError:
    return RpcError(
        "limit_exceeded", f"{subject}: the limit `{limit}` is {value}.", limit=limit, value=value
    )


def invalid_answer(why: str) -> RpcError:
    return RpcError(
        "invalid_answer", f"The answer is invalid: {_end(why)}; the question is still open."
    )


_NOT_STARTED = "The tool could not be started: "


def spawn_failed(why: str, **data: Any) -> RpcError:
    return RpcError("spawn_failed", f"{_NOT_STARTED}{_end(why)}.", **data)


def describe_rejection(error: str) -> str:
    """Describe a handle that was not started, by the message of its error.

    >>> describe_rejection("The tool could not be started: there is no folder '/x'.")
    "was not started: there is no folder '/x'."
    """
    return f"was not started: {error.removeprefix(_NOT_STARTED)}"


def shutting_down() -> RpcError:
    return RpcError(
        "shutting_down",
        "haftd is shutting down and starts nothing new; try again when it is running again.",
    )


def untrusted_tool(tool: str, root: str, file: str, *, changed: bool) -> RpcError:
    """Refuse a tool that only an untrusted file of the root defines."""
    from shlex import quote  # rarely needed

    state = "has changed since it was trusted" if changed else "is not trusted"
    return RpcError(
        "untrusted_root",
        f"There is no tool {shown(tool)} as long as `{_cut(file, 200)}`, which defines it, {state}: "
        f"a person must review what it would run, with `haft trust {_cut(quote(root), 200)}`.",
        file=file,
        root=root,
    )


def trust_refused(root: str, why: str) -> RpcError:
    return RpcError("untrusted_root", f"Nothing was trusted: {_end(why)}.", root=root)


def unsupported_source(tool: str, source: str, why: str) -> RpcError:
    return RpcError(
        "unsupported_runtime",
        f"Tool {shown(tool)} has the source {shown(source)}, which cannot be used here: {_end(why)}.",
        tool=tool,
        source=source,
    )


def unsupported_runtime(tool: str, runtime: str, why: str) -> RpcError:
    return RpcError(
        "unsupported_runtime",
        f"Tool {shown(tool)} needs the runtime {shown(runtime)}, which cannot be used here: {_end(why)}.",
        tool=tool,
        runtime=runtime,
    )
