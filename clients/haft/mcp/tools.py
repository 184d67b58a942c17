"""`tools/list` and `tools/call`: the daemon's tools for a host.

A tool's question goes to the host's user by a form, else the reply explains how to answer. The
daemon's refusal is a result with `isError`, which a model can correct; only an unknown tool is an
error.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from haft_protocol.mcp import INVALID_PARAMS

from ..errors import HaftError, RemoteError
from .messages import CallParams, ElicitResult, Fault, ListParams, read_params
from .roots import Place, find_place, folder_of
from .steps import CallDaemon, CallHost, Host, Step, Steps

LIST_TTL_MS = 60_000
MAX_WAIT_S = 50.0
WAIT_S = 10.0
ROOTS_TIMEOUT_S = 2.0
"""Time for a host's reply to `roots/list`: some declare roots and never reply."""
MAX_ROUNDS = 8
"""Forms that one legacy call shows at most."""
MAX_REPEATS = 2
"""Repetitions of a question after invalid answers."""

_FIRST_WITH_MODE = "2025-11-25"
_LIST = msgspec.json.Decoder(ListParams)
_CALL = msgspec.json.Decoder(CallParams)


class Options(msgspec.Struct, frozen=True):
    root: str | None = None
    session: str | None = None
    surface: Literal["verbs", "actions"] = "verbs"
    asks_roots: bool = True
    """False where several hosts, each with its roots, share one server."""


class _Called(msgspec.Struct, frozen=True):
    text: str
    call_id: str
    failed: bool = False
    inquiry: Raw = Raw(b"")
    states: tuple[dict[str, Any], ...] = ()


class _Tool(msgspec.Struct, frozen=True):
    name: str
    description: str
    parameters: Raw
    stateful: bool
    annotations: dict[str, bool] | UnsetType = UNSET


class _Listed(msgspec.Struct, frozen=True):
    tools: tuple[_Tool, ...]


class _Root(msgspec.Struct, frozen=True):
    uri: str


class _Roots(msgspec.Struct, frozen=True):
    roots: tuple[_Root, ...] = ()


_CALLED = msgspec.json.Decoder(_Called)
_LISTED = msgspec.json.Decoder(_Listed)
_ELICITED = msgspec.json.Decoder(ElicitResult)
_ROOTS = msgspec.json.Decoder(_Roots)

_Reply = Generator[Step, Raw, _Called]


class Tools:
    def __init__(self, options: Options, env: Mapping[str, str], cwd: str | None) -> None:
        self._options = options
        self._env = env
        self._cwd = cwd
        self._place: Place | None = None
        self._key: bytes | None = None

    def list(self, host: Host, params: Raw) -> Steps:
        listing: ListParams = read_params(params, _LIST)
        if listing.cursor not in (UNSET, None):
            raise Fault(INVALID_PARAMS, "There is one page only, so no cursor is known.")
        place = yield from self.place(host)
        listed = yield from self._listed(place)
        result: dict[str, Any] = {"tools": [_shown(tool) for tool in listed.tools]}
        if host.is_modern:
            result |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private"}
        return result

    def call(self, host: Host, params: Raw) -> Steps:
        call: CallParams = read_params(params, _CALL)
        place = yield from self.place(host)
        if place.root is None:
            return _text(place.refusal, is_error=True)
        try:
            return (yield from self._call(host, place, call))
        except RemoteError as refused:
            if refused.kind == "tool_not_found":
                raise Fault(INVALID_PARAMS, refused.message) from None
            return _text(refused.message, is_error=True)
        except HaftError as fault:
            return _text(f"{fault}. Call again; handle_list shows what runs.", is_error=True)

    def place(self, host: Host) -> Generator[Step, Raw, Place]:
        """Find root and session; request a legacy host's roots once, if needed."""
        if self._place is None:
            named = self._options.root or self._env.get("CLAUDE_PROJECT_DIR")
            can_ask = self._options.asks_roots and not host.is_modern
            if not named and can_ask and isinstance(host.capabilities.roots, dict):
                try:
                    self._take_roots(
                        (yield CallHost("roots/list", {}, ROOTS_TIMEOUT_S, self._take_roots))
                    )
                except RemoteError:
                    pass
        # Another task may have found the place meanwhile.
        if self._place is None:
            self._place = self._find_place(None)
        return self._place

    def _take_roots(self, result: Raw) -> None:
        """Make a legacy host's first root the place of this and later calls."""
        try:
            roots = _ROOTS.decode(result).roots
        except msgspec.MsgspecError:
            return
        if roots and (offered := folder_of(roots[0].uri)) is not None:
            self._place = self._find_place(offered)

    def _find_place(self, offered: str | None) -> Place:
        return find_place(
            self._env,
            root=self._options.root,
            session=self._options.session,
            offered=offered,
            cwd=self._cwd,
        )

    def _call(self, host: Host, place: Place, params: CallParams) -> Steps:
        host.subject = f"{params.name}:"
        answers = refusals = 0
        # Some hosts send an answer before the question.
        early = {} if isinstance(params.responses, UnsetType) else dict(params.responses)
        if isinstance(params.state, UnsetType):
            reply = yield from self._tools_call(place, params.name, params.arguments)
        else:
            reply, is_asked, refusals = yield from self._resume(place, params, params.state)
            if not is_asked:
                return _content(reply)
        while reply.inquiry and host.capabilities.takes_forms and answers < MAX_ROUNDS:
            # Loaded on demand, for a tool's question.
            from haft_protocol.inquiries import Inquiry

            from .questions import build_elicitation, may_elicit
            from .request_state import InvalidState

            inquiry = msgspec.json.decode(reply.inquiry, type=Inquiry)
            if not may_elicit(inquiry) or isinstance(inquiry.handle, UnsetType):
                break
            refusals = refusals + 1 if isinstance(inquiry.refused, str) else 0
            if refusals > MAX_REPEATS:
                return _text(
                    f"[the host's answers were refused {refusals} times, the last one with: "
                    f"{inquiry.refused}]\n{reply.text}"
                )
            early_result = early.pop(inquiry.question.id, None)
            if (
                early_result is not None
                and early_result.action == "accept"
                and params.state is UNSET
            ):
                reply = yield from self._answered(place, params, inquiry, early_result)
                continue
            form = build_elicitation(inquiry, has_mode=host.version >= _FIRST_WITH_MODE)
            if host.is_modern:
                try:
                    return self._input_required(place, params, inquiry, form, refusals)
                except InvalidState as fault:
                    return _text(f"{reply.text}\n[no form can be shown: {fault}]")
            answers += 1
            try:
                filled = _ELICITED.decode((yield CallHost("elicitation/create", form)))
            except (RemoteError, msgspec.MsgspecError):
                break  # The text explains how to answer without a form.
            if filled.action != "accept":
                return _text(f"{_unanswered(filled.action)}\n{reply.text}")
            reply = yield from self._answered(place, params, inquiry, filled)
        return _content(reply)

    def _input_required(
        self, place: Place, params: CallParams, inquiry: Any, form: dict[str, Any], refusals: int
    ) -> dict[str, Any]:
        from .request_state import State, sign_state

        state = State(
            time.time(),
            inquiry.handle,
            inquiry.inquiry_id,
            inquiry.question.id,
            refusals,
        )
        return {
            "resultType": "input_required",
            "inputRequests": {
                inquiry.question.id: {"method": "elicitation/create", "params": form}
            },
            "requestState": sign_state(self._signing_key(), state, _bound_to(params, place)),
        }

    def _resume(
        self, place: Place, params: CallParams, signed: str
    ) -> Generator[Step, Raw, tuple[_Called, bool, int]]:
        """Resume a call that has asked; return the reply, True to pass on its question, and the
        count of answers refused before."""
        from .request_state import InvalidState, verify_state

        try:
            state = verify_state(self._signing_key(), signed, _bound_to(params, place))
        except InvalidState as error:
            raise Fault(INVALID_PARAMS, f"`requestState`: {error}.") from None
        responses = {} if isinstance(params.responses, UnsetType) else params.responses
        filled = responses.get(state.question_id)
        inquiry = yield from self._open_inquiry(place, state.inquiry_id, state.question_id)
        if filled is not None and filled.action == "accept" and inquiry is not None:
            reply = yield from self._answered(place, params, inquiry, filled)
            return reply, True, state.refusals
        reply = yield from self._fetch(place, state.handle)
        if filled is None or filled.action == "accept" or inquiry is None:
            return reply, True, 0
        text = f"{_unanswered(filled.action)}\n{reply.text}"
        return msgspec.structs.replace(reply, text=text), False, 0

    def _answered(
        self, place: Place, params: CallParams, inquiry: Any, filled: ElicitResult
    ) -> _Reply:
        """Give the answer and read on; ask again after an invalid one."""
        from .questions import InvalidContent, read_answer

        refused = ""
        try:
            answer = read_answer(inquiry.question, filled.content)
            yield CallDaemon(
                "inquiries/answer",
                {
                    "inquiry_id": inquiry.inquiry_id,
                    "question": inquiry.question.id,
                    "answer": answer,
                    "session": place.session,
                },
            )
        except InvalidContent as wrong:
            refused = str(wrong)
        except RemoteError as error:
            if error.kind != "invalid_answer":
                raise
            refused = error.message
        if not refused:
            return (yield from self._read_on(place, params, inquiry.handle))
        reply = yield from self._fetch(place, inquiry.handle)
        if not reply.inquiry:
            return reply  # Another client has answered.
        inquiry = {**msgspec.json.decode(reply.inquiry), "refused": refused}
        return msgspec.structs.replace(reply, inquiry=Raw(msgspec.json.encode(inquiry)))

    def _read_on(self, place: Place, params: CallParams, handle: str) -> _Reply:
        """Wait for the output after an answer, under the call's own wait."""
        arguments = params.arguments if isinstance(params.arguments, dict) else {}
        wait_s = arguments.get("wait_s")
        if not isinstance(wait_s, int | float) or not 0 <= wait_s <= MAX_WAIT_S:
            wait_s = WAIT_S
        listed = yield from self._listed(place)
        is_held = params.name.startswith("handle_") or any(
            tool.stateful for tool in listed.tools if tool.name == params.name
        )
        if is_held:
            return (yield from self._verb(place, "handle_read", {"id": handle, "wait_s": wait_s}))
        wait = {"ids": [handle], "wait_s": MAX_WAIT_S}
        return (yield from self._verb(place, "handle_wait", wait))

    def _fetch(self, place: Place, handle: str) -> _Reply:
        return self._verb(place, "handle_read", {"id": handle, "until": "now"})

    def _open_inquiry(
        self, place: Place, inquiry_id: str, question: str
    ) -> Generator[Step, Raw, Any]:
        """Return the inquiry while it asks this question, else None."""
        from haft_protocol.inquiries import InquiriesListResult

        listed = msgspec.json.decode(
            (yield CallDaemon("inquiries/list", {"session": place.session})),
            type=InquiriesListResult,
        )
        for inquiry in listed.inquiries:
            if inquiry.inquiry_id == inquiry_id and inquiry.question.id == question:
                return inquiry
        return None

    def _verb(self, place: Place, name: str, arguments: dict[str, Any]) -> _Reply:
        return self._tools_call(place, name, arguments, surface="verbs")

    def _tools_call(
        self,
        place: Place,
        name: str,
        arguments: dict[str, Any] | str | None,
        surface: str | None = None,
    ) -> _Reply:
        params: dict[str, Any] = {
            "tool": name,
            "arguments": arguments,
            "surface": surface or self._options.surface,
            "format": "text",
            "session": place.session,
            "root": place.root,
        }
        return _CALLED.decode((yield CallDaemon("tools/call", params)))

    def _listed(self, place: Place) -> Generator[Step, Raw, _Listed]:
        params: dict[str, Any] = {"provider": "mcp", "surface": self._options.surface}
        if place.root is not None:
            params["root"] = place.root
        return _LISTED.decode((yield CallDaemon("tools/list", params)))

    def _signing_key(self) -> bytes:
        if self._key is None:
            from .request_state import state_key

            self._key = state_key()
        return self._key


def _shown(tool: _Tool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
    }
    if not isinstance(tool.annotations, UnsetType):
        shown["annotations"] = {
            "readOnlyHint": tool.annotations["read_only"],
            # The defaults of the two contradict each other.
            "destructiveHint": not tool.annotations["read_only"]
            and tool.annotations["destructive"],
            "idempotentHint": tool.annotations["idempotent"],
            "openWorldHint": tool.annotations["open_world"],
        }
    return shown


def _content(reply: _Called) -> dict[str, Any]:
    return _text(reply.text, is_error=reply.failed)


def _text(text: str, *, is_error: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return {**result, "isError": True} if is_error else result


def _unanswered(action: str) -> str:
    if action == "decline":
        return "[the user declined to answer; the question stays open]"
    return "[the user gave no answer; the question stays open]"


def _bound_to(params: CallParams, place: Place) -> list[Any]:
    return [params.name, params.arguments, place.session]
