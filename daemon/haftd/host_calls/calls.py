"""Methods of host calls: decoded, decided on, done, bounded in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
import structlog
import trio

from haft_protocol.errors import shown

from . import files, http, search
from .decisions import HostAccess, require_command
from .files import Files
from .http import Http
from .messages import HostCallError, Request, encode_error, encode_result
from .redaction import Redaction

log = structlog.get_logger("haftd.host_calls")

_FILES_S = 30.0
"""Longest wait for the file system: a dead network share answers after minutes or never."""
_MAX_THREADS = 16
_threads = trio.CapacityLimiter(_MAX_THREADS)
"""Bounds all tools' threads together: a hanging file system takes no thread from the daemon's other
tasks."""

P = TypeVar("P", bound=msgspec.Struct)


class Run(msgspec.Struct, forbid_unknown_fields=True):
    """Program with its arguments."""

    program: str
    args: list[str] = []
    cwd: str = "."
    """Path below the root."""
    stdin: str = ""
    timeout_s: float = 60.0


class RunResult(msgspec.Struct, omit_defaults=True):
    """End of a program."""

    stdout: str
    stderr: str
    """Last bytes of standard error."""
    code: int | None = None
    signal: str | None = None


Runner = Callable[[Run, tuple[str, ...], str], Awaitable[RunResult]]
"""Runs a permitted program: params, names of permitted variables, absolute folder."""


class HostCalls:
    """Host calls of one process. `close` after the last one has been answered or cancelled."""

    def __init__(self, access: HostAccess, run: Runner) -> None:
        self._access = access
        self._run = run
        self._files = Files(access)
        self._redaction = Redaction(access.private)
        self._http = Http(access, self._redaction)
        own = self._files
        self._methods: dict[str, Callable[[bytes], Awaitable[Any]]] = {
            "fs.read": self._run_in_thread(files.Read, own.read),
            "fs.write": self._run_in_thread(files.Write, own.write),
            "fs.exists": self._run_in_thread(files.Place, own.exists),
            "fs.list_dir": self._run_in_thread(files.Place, own.list_dir),
            "fs.metadata": self._run_in_thread(files.Metadata, own.metadata),
            "fs.delete": self._run_in_thread(files.Place, own.delete),
            "fs.rename": self._run_in_thread(files.Rename, own.rename),
            "fs.grep": self._grep,
            "http.get": lambda raw: self._http.get(_decode_params(raw, http.Get)),
            "http.post": lambda raw: self._http.post(_decode_params(raw, http.Post)),
            "process.run": self._run_program,
        }

    @property
    def methods(self) -> Sequence[str]:
        """Names of the methods."""
        return tuple(self._methods)

    def open(self) -> None:
        """Pin the root. Raises OSError."""
        self._files.open()

    def close(self) -> None:
        self._files.close()

    async def answer(self, request: Request) -> bytes:
        """Return the reply to a request; never raises."""
        try:
            return encode_result(request.id, await self._call(request))
        except HostCallError as error:
            # A refused redirect is quoted, and may hold a value that the server put there.
            message = self._redaction.redact_text(error.message)
            return encode_error(request.id, HostCallError(error.kind, message))
        except Exception:
            log.exception("a host call failed", method=request.method)
            failed = HostCallError("failed", "haftd failed; its log has the reason.")
            return encode_error(request.id, failed)

    async def _call(self, request: Request) -> Any:
        method = self._methods.get(request.method)
        if method is None:
            raise HostCallError(
                "unknown_method",
                f"There is no method {shown(request.method)}; the methods are {', '.join(self._methods)}.",
            )
        return await method(bytes(request.params))

    def _run_in_thread(
        self, kind: type[P], work: Callable[[P], Any]
    ) -> Callable[[bytes], Awaitable[Any]]:
        async def call(raw: bytes) -> Any:
            params = _decode_params(raw, kind)
            return await self._use_files(lambda: work(params))

        return call

    async def _grep(self, raw: bytes) -> Any:
        params = _decode_params(raw, search.Grep)
        over = False

        def is_over() -> bool:
            return over

        try:
            return await self._use_files(search.Search(self._files, params, is_over).run)
        finally:
            over = True

    async def _use_files(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work`, done in a thread, which goes on after a timeout or cancellation."""

        def guarded() -> Any:
            with self._files.use():
                return work()

        with trio.move_on_after(_FILES_S):
            return await trio.to_thread.run_sync(guarded, abandon_on_cancel=True, limiter=_threads)
        raise HostCallError("timeout", f"The file system did not answer within {_FILES_S:g} s.")

    async def _run_program(self, raw: bytes) -> RunResult:
        params = _decode_params(raw, Run)
        if "\0" in "".join((params.program, *params.args)):
            raise HostCallError("invalid", "An argument has a NUL byte.")
        variables = require_command(self._access, params.program, params.args)
        folder = await self._use_files(lambda: self._files.working_folder(params.cwd))
        result = await self._run(params, variables, folder)
        self._redaction.use(name for name in variables if name in self._access.private)
        result.stdout = self._redaction.redact_text(result.stdout)
        result.stderr = self._redaction.redact_text(result.stderr)
        return result


def _decode_params(raw: bytes, kind: type[P]) -> P:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HostCallError("invalid", f"The params are invalid: {error}.") from None
