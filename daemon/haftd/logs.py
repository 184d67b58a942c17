"""Log: structured lines on stderr that never block the daemon.

Terminals get readable lines, the journal a `<N>` priority, other streams JSON. Secrets are
redacted. A line that would block is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import re
import select
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal

import structlog

from haftd.lazy_pattern import lazy_pattern

from .config.options import LogLevel

Log = structlog.typing.FilteringBoundLogger

_PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_MAX_LINE = 32_768
"""Bytes; the rest of a line is cut."""
_PIPE_BUF = 4096  # a writable pipe takes this much without blocking

_SECRET_KEY = lazy_pattern(
    r"(token|secret|passw(or)?d|passphrase|authorization|api_?key|credential|cookie)s?$", re.I
)
_SECRET_TEXT = lazy_pattern(r"(Bearer\s+|haft\.token\.)[^\s,;\"']+", re.I)
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HIDDEN = "[hidden]"

Event = MutableMapping[str, Any]


class Sink:
    """Non-blocking line writer to a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._has_partial_line = False
        self.dropped = 0

    def msg(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")[:_MAX_LINE] + b"\n"
        if self.dropped:
            data = b"%d log lines were dropped\n" % self.dropped + data
        if self._has_partial_line:
            data = b"\n" + data
        view, lost = memoryview(data), self.dropped
        try:
            while view:
                if not any(flags & select.POLLOUT for _, flags in self._poll.poll(0)):
                    break
                view = view[os.write(self._fd, view[:_PIPE_BUF]) :]
        except OSError:
            pass
        written = len(data) - len(view)
        if written:
            self._has_partial_line = bool(view)
            self.dropped -= lost
        self.dropped += bool(view)

    log = debug = info = warning = warn = error = critical = exception = fatal = msg


def redact(value: Any, depth: int = 4) -> Any:
    """Hide values of secret-looking keys, tokens in texts, and tables and lists below `depth` levels."""
    if isinstance(value, str):
        return _SECRET_TEXT.sub(lambda m: m[1] + _HIDDEN, value)
    if depth and isinstance(value, Mapping):
        return {
            k: _HIDDEN if _SECRET_KEY.search(str(k)) else redact(v, depth - 1)
            for k, v in value.items()
        }
    if depth and isinstance(value, list | tuple):
        return [redact(v, depth - 1) for v in value]
    return _HIDDEN if isinstance(value, Mapping | list | tuple) else value


def _redact(_logger: object, _method: str, event: Event) -> Event:
    hidden: Event = redact(event)
    return hidden


def _escape_control(_logger: object, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if isinstance(value, str) and _CONTROL.search(value):
            event[key] = _CONTROL.sub(lambda m: ascii(m[0])[1:-1], value)
    return event


def _add_priority(render: structlog.typing.Processor) -> structlog.typing.Processor:
    def prefixed(logger: Any, method: str, event: Event) -> str:
        priority = _PRIORITY.get(str(event.get("level")), 6)
        return f"<{priority}>{render(logger, method, event)!s}"

    return prefixed


class RateLimitedHandler(logging.Handler):
    """Handler of `logging`: one line per second and logger, with a count of the rest.

    Out of descriptors, trio logs ten tracebacks a second.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._clock = clock
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log the message and the exception's repr, without traceback."""
        now = self._clock()
        if now - self._last.get(record.name, float("-inf")) < 1.0:
            self._left_out[record.name] = self._left_out.get(record.name, 0) + 1
            return
        self._last[record.name] = now
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        self._log.log(
            record.levelno,
            "library",
            logger=record.name,
            message=message,
            error=repr(error) if error else None,
            left_out=self._left_out.pop(record.name, 0),
        )


def _is_journal(fd: int, env: Mapping[str, str]) -> bool:
    try:
        stat = os.fstat(fd)
    except OSError:
        return False
    return env.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"


def configure(
    level: LogLevel,
    style: Literal["console", "json"] | None,
    *,
    env: Mapping[str, str],
    fd: int = 2,
) -> Sink:
    """Configure the log and return the sink; without `style`, `fd` decides."""
    sink = Sink(fd)
    journal = _is_journal(fd, env)
    terminal = os.isatty(fd)
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        _redact,
    ]
    if not journal:
        processors.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
    if style == "console" or (style is None and terminal):
        processors.append(_escape_control)
        render: structlog.typing.Processor = structlog.dev.ConsoleRenderer(
            colors=terminal and "NO_COLOR" not in env, sort_keys=False
        )
    else:
        render = structlog.processors.JSONRenderer(ensure_ascii=True, default=repr)
    processors.append(_add_priority(render) if journal else render)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_find_level(level)),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=True,
    )
    _adopt_libraries(structlog.get_logger())
    return sink


def _find_level(level: LogLevel) -> int:
    return int(getattr(logging, level.upper()))


def _adopt_libraries(log: Log) -> None:
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, RateLimitedHandler)]:
        root.removeHandler(handler)
    root.addHandler(RateLimitedHandler(log))
    root.setLevel(logging.WARNING)
