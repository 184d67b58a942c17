"""One call of a server's tool; progress is output, a line each."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import trio
from msgspec import Raw

from haft_protocol.questions import Question
from haftd.tools.definitions.server_tools import ServedTool

from ..base import RuntimeContext, ToolFailed, is_cancellation
from . import elicitation as forms
from .connection import Connection
from .peer import ServerError
from .shapes import (
    Block,
    CallResult,
    Elicitation,
    InputRequest,
    LegacyTask,
    Progress,
    Resource,
    Task,
    UrlsRequired,
    convert,
)

_MAX_ROUNDS = 100
_MAX_TRIES = 20
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses before a call that asked for no input is repeated."""
_POLL_S = 1.0
_MIN_POLL_S = 0.05
_URLS_REQUIRED = -32042
_DONE = ("completed", "failed", "cancelled")


class Exchange:
    """Call of a tool; `silence_s` bounds the time without progress."""

    def __init__(
        self,
        connection: Connection,
        context: RuntimeContext,
        nursery: trio.Nursery,
        mark: str,
        silence_s: float | None,
    ) -> None:
        self.mark = mark
        self._connection = connection
        self._context = context
        self._nursery = nursery
        self._silence_s = float("inf") if silence_s is None else silence_s
        self._scope = trio.CancelScope()
        self._failure: ToolFailed | None = None
        self._open = 0
        self._status = ""

    @property
    def is_asking(self) -> bool:
        return self._open > 0

    def elicit(self, elicitation: Elicitation, reply: Callable[[dict[str, Any]], None]) -> None:
        self._open += 1
        self._nursery.start_soon(self._serve_question, elicitation, reply)

    async def run(
        self, tool: str, listed: ServedTool | None, arguments: Mapping[str, Any]
    ) -> CallResult:
        """Return the call's result; an unanswered question ends the call. Raises `ToolFailed`,
        `Disconnected`."""
        self._restart_clock()
        with self._scope:
            try:
                return await self._run(tool, listed, arguments)
            except ServerError as error:
                raise ToolFailed(f"The server answered with an error: {error.message}") from None
            except msgspec.MsgspecError as error:
                raise ToolFailed(f"The server's answer cannot be read: {error}.") from None
        if self._failure is not None:
            raise self._failure
        raise ToolFailed(
            f"The server gave neither an answer nor progress within {self._silence_s:g} s (`call_s` of "
            "the server in `[mcp]`); it was asked to stop.",
            transient=True,
        )

    async def _run(
        self, tool: str, listed: ServedTool | None, arguments: Mapping[str, Any]
    ) -> CallResult:
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        more: dict[str, Any] = {}
        is_task = (
            not self._connection.is_modern and listed is not None and listed.task == "required"
        )
        if is_task:
            params["task"] = {}
        waits = iter(_PAUSES_S)
        for _ in range(_MAX_ROUNDS):
            try:
                answer = await self._request("tools/call", {**params, **more})
            except ServerError as error:
                if error.code != _URLS_REQUIRED:
                    raise
                await self._open_urls(error)
                continue
            result: CallResult = convert(answer, CallResult)
            if result.result_type == "input_required":
                more = {}
                if isinstance(result.request_state, str):
                    more["requestState"] = result.request_state
                if result.input_requests:
                    more["inputResponses"] = await self._inputs(result.input_requests)
                else:
                    await trio.sleep(next(waits, _PAUSES_S[-1]))
            elif result.result_type == "task":
                return await self._follow(convert(answer, Task))
            elif result.result_type != "complete":
                raise ToolFailed(
                    f"The server answered with a result of the type {result.result_type!r}, which haft "
                    "does not know."
                )
            elif is_task and result.task:
                return await self._follow_legacy(result.task)
            else:
                return result
        raise ToolFailed(
            f"The server asked for the call to be repeated more than {_MAX_ROUNDS} times."
        )

    async def _request(self, method: str, params: dict[str, Any]) -> Raw:
        return await self._connection.request(
            method, params, owner=self, on_progress=self._progressed
        )

    # -- progress

    def _restart_clock(self) -> None:
        """Restart the timeout, which an open question suspends."""
        is_waiting = self._open > 0 or self._silence_s == float("inf")
        self._scope.deadline = float("inf") if is_waiting else trio.current_time() + self._silence_s

    def _progressed(self, progress: Progress) -> None:
        self._restart_clock()
        text = (progress.message or "").strip()
        if not text:
            total = "" if progress.total is None else f" of {progress.total:g}"
            text = f"{progress.progress:g}{total}"
        self._context.emit(f"{text}\n".encode())

    def _emit_status(self, message: str | None) -> None:
        text = (message or "").strip()
        if text and text != self._status:
            self._restart_clock()
            self._status = text
            self._context.emit(f"{text}\n".encode())

    # -- the server's questions

    async def _serve_question(
        self, elicitation: Elicitation, reply: Callable[[dict[str, Any]], None]
    ) -> None:
        self._restart_clock()
        try:
            result = await self._answer(elicitation)
        except ToolFailed as failure:
            reply({"action": "cancel"})
            self._failure = failure
            self._scope.cancel()
            return
        finally:
            self._open -= 1
        self._restart_clock()
        reply(result)
        self._connection.assign()

    async def _inputs(self, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        self._open += 1
        self._restart_clock()
        try:
            for name, request in requests.items():
                if request.method != "elicitation/create":
                    raise ToolFailed(
                        f"The server requests {request.method}, which haft does not offer: neither sampling "
                        "nor roots."
                    )
                answers[name] = await self._answer(convert(request.params, Elicitation))
        finally:
            self._open -= 1
        self._restart_clock()
        return answers

    async def _answer(self, elicitation: Elicitation) -> dict[str, Any]:
        try:
            if elicitation.mode == "url":
                return await self._answer_url(elicitation)
            content: dict[str, Any] = {}
            for step in forms.steps(elicitation):
                values = await self._ask_step(step)
                if values is None:
                    return {"action": "decline"}
                content.update(values)
        except forms.Unaskable as error:
            raise ToolFailed(f"The server's question cannot be asked: {error}.") from None
        return {"action": "accept", "content": content}

    async def _answer_url(self, elicitation: Elicitation) -> dict[str, Any]:
        question = forms.url_question(elicitation)
        agreed = await self._context.ask(question, for_a_person=True).wait()
        return {"action": "accept" if agreed is True else "decline"}

    async def _ask_step(self, step: forms.Step) -> dict[str, Any] | None:
        """Ask until the answer fits; None after a no."""
        question = step.question
        for _ in range(_MAX_TRIES):
            answer = await self._context.ask(question).wait()
            if not step.properties:
                return {} if answer is True else None
            try:
                return step.content(answer)
            except forms.WrongValue as wrong:
                text = f"The previous answer was not valid: {wrong}.\n{step.question.text}"
                question = _reworded(step.question, text)
        raise ToolFailed(f"The question {question.id!r} got no valid answer.")

    async def _open_urls(self, error: ServerError) -> None:
        try:
            elicitations = msgspec.convert(error.data, UrlsRequired).elicitations
        except msgspec.ValidationError:
            raise error from None
        for elicitation in elicitations:
            result = await self._answer(
                Elicitation(elicitation.message, "url", url=elicitation.url)
            )
            if result["action"] != "accept":
                raise ToolFailed("The address that the server asked to open was not opened.")

    # -- tasks

    async def _follow(self, task: Task) -> CallResult:
        try:
            while True:
                self._emit_status(task.status_message)
                if task.status in _DONE:
                    return _finished(task)
                if task.status == "input_required" and task.input_requests:
                    answers = await self._inputs(task.input_requests)
                    await self._connection.request(
                        "tasks/update", {"taskId": task.task_id, "inputResponses": answers}
                    )
                pause = _POLL_S if task.poll_interval_ms is None else task.poll_interval_ms / 1000
                await trio.sleep(max(pause, _MIN_POLL_S))
                answer = await self._connection.request("tasks/get", {"taskId": task.task_id})
                task = convert(answer, Task)
        except BaseException as error:
            if is_cancellation(error):
                self._cancel_task(task.task_id)
            raise

    async def _follow_legacy(self, task: LegacyTask) -> CallResult:
        self._emit_status(task.status_message)
        try:
            answer = await self._request("tasks/result", {"taskId": task.task_id})
        except BaseException as error:
            if is_cancellation(error):
                self._cancel_task(task.task_id)
            raise
        result: CallResult = convert(answer, CallResult)
        return result

    def _cancel_task(self, task_id: str) -> None:
        self._connection.send("tasks/cancel", {"taskId": task_id})


def _finished(task: Task) -> CallResult:
    if task.status == "cancelled":
        raise ToolFailed("The server has cancelled the task.")
    if task.status == "failed":
        why = "" if task.error is None else f": {task.error.message}"
        raise ToolFailed(f"The task has failed{why}.")
    result: CallResult = convert(task.result, CallResult)
    return result


def _reworded(question: Question, text: str) -> Question:
    return msgspec.structs.replace(question, text=text)


SaveFile = Callable[[bytes, str], str | None]
"""Saves data to a file with this suffix; returns the path, None on failure."""


def decode_text(result: CallResult, save: SaveFile) -> str:
    """Return the text of a result. Images, sounds and binary resources become files, each with a
    line of type, size and path; so does structured content, unless a text repeats it or it is
    alone."""
    parts = [part for item in result.content or () for part in _block(item, save)]
    structured = bytes(result.structured_content)
    if structured and structured != b"null":
        texts = [part for part in parts if part.strip()]
        if not texts:
            return structured.decode(errors="replace")
        if not any(_repeats(part, structured) for part in texts):
            parts.append(_saved("structured content", structured, ".json", save))
    return "\n".join(parts)


def _block(item: msgspec.Raw, save: SaveFile) -> Iterator[str]:
    try:
        block: Block = convert(item, Block)
    except msgspec.MsgspecError:
        yield "[a block of the result that cannot be read]"
        return
    match block.type:
        case "text":
            yield block.text
        case "image" | "audio":
            yield _blob(block.mime_type or block.type, block.data, save)
        case "resource_link":
            kind = f" ({block.mime_type})" if block.mime_type else ""
            yield f"[resource {block.name or block.uri}{kind}: {block.uri}]"
        case "resource" if block.resource is not None:
            yield _resource(block.resource, save)
        case other:
            yield f"[a block of the type {other!r}, which haft does not know]"


def _resource(resource: Resource, save: SaveFile) -> str:
    if resource.text is not None:
        return f"[resource {resource.uri}]\n{resource.text}"
    return f"[resource {resource.uri}] {_blob(resource.mime_type or 'data', resource.blob or '', save)}"


def _blob(kind: str, data: str, save: SaveFile) -> str:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind}: its data is not valid base64]"
    return _saved(kind, decoded, mimetypes.guess_extension(kind) or ".bin", save)


def _saved(kind: str, data: bytes, suffix: str, save: SaveFile) -> str:
    path = save(data, suffix)
    where = "it could not be saved" if path is None else path
    return f"[{kind}, {len(data):,} bytes: {where}]"


def _repeats(text: str, structured: bytes) -> bool:
    try:
        whole = msgspec.json.decode(structured)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    values = [whole, *whole.values()] if isinstance(whole, dict) and len(whole) == 1 else [whole]
    try:
        decoded: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        decoded = text
    return any(value in (decoded, text) for value in values)
