"""`haft audit`: show the log of actions on handles, without a daemon.

Malformed lines are counted. Input in pieces, from one client to one handle, is one row.
"""

from __future__ import annotations

import argparse
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from haft_protocol.paths import PathError, audit_log

from ...errors import InvalidAddress
from .. import show
from ..options import UsageError, require_local, session, whole
from ..statuses import Status

EPILOG = """\
Secret input is recorded without its text. Exit status 1 when there are no records.

examples:
  haft audit
  haft audit build -n 20                            the last 20 records of one handle
  haft audit --json | jq '.records[] | select(.event == "abort")'
"""

_HEAD = ("TIME", "CLIENT", "HANDLE", "WHAT")
_MAX_TEXT = 2000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="only of this handle")
    parser.add_argument("-n", "--last", type=whole(), metavar="N", help="only the last N records")


def run(options: argparse.Namespace) -> int:
    """Show the records, oldest first; none of a named handle is a failure."""
    require_local(options, subject="the audit log is a file")
    try:
        path = audit_log(os.environ)
    except PathError as fault:
        raise InvalidAddress(str(fault)) from fault
    broken: list[bytes] = []
    records = list(_chosen(_records(path, broken), getattr(options, "id", None), session(options)))
    last = getattr(options, "last", None)
    if last is not None:
        records = records[len(records) - min(last, len(records)) :]
    if options.json:
        show.document(msgspec.json.encode({"records": records}))
    elif records:
        show.table([_HEAD, *_rows(records)])
    else:
        show.line(f"haft audit: {_no_records(options, path)}", "dim")
    if broken:
        show.line(
            f"haft audit: skipped {show.counted(len(broken), 'line')} without a record",
            "yellow",
        )
    return Status.FAILED if not records and hasattr(options, "id") and last != 0 else Status.DONE


def _no_records(options: argparse.Namespace, path: str) -> str:
    handle, named = getattr(options, "id", None), session(options)
    about = "" if handle is None else f" about {handle!r}"
    within = "" if named is None else f" of session {named!r}"
    return f"nothing is recorded{about}{within} in {path}"


def _records(path: str, broken: list[bytes]) -> Iterator[dict[str, Any]]:
    for name in (f"{path}.1", path):
        for line in _read(name).splitlines():
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken.append(line)


def _read(path: str) -> bytes:
    try:
        # Opening a pipe would wait for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a regular file")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _chosen(
    records: Iterable[dict[str, Any]], handle: str | None, of_session: str | None
) -> Iterator[dict[str, Any]]:
    for record in records:
        if handle is not None and record.get("handle") != handle:
            continue
        if of_session is not None and record.get("session") != of_session:
            continue
        yield record


def _rows(records: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each record; join successive texts of one client to one handle."""
    rest = list(records)
    at = 0
    while at < len(rest):
        record = rest[at]
        at += 1
        text = _text(record)
        if text is not None:
            origin = _origin(record)
            while at < len(rest) and _origin(rest[at]) == origin and len(text) < _MAX_TEXT:
                more = _text(rest[at])
                if more is None:
                    break
                text += more
                at += 1
            record = {**record, "input": text}
        yield (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_number(record.get("at")))),
            _client(record.get("client")),
            _handle(record),
            show.plain(_summary(record), _MAX_TEXT),
        )


def _origin(record: dict[str, Any]) -> tuple[object, ...]:
    return tuple(record.get(key) for key in ("client", "session", "handle", "generation"))


def _text(record: dict[str, Any]) -> str | None:
    """Return the record's input if it is a complete text, which may continue another record's."""
    content = record.get("input")
    if record.get("event") != "apply" or "length" in record or "question" in record:
        return None
    if isinstance(content, dict) and len(content) == 1:
        content = content.get("text")
    return content if isinstance(content, str) else None


def _client(client: object) -> str:
    if not isinstance(client, dict):
        return "-"
    name = show.plain(str(client.get("name") or client.get("transport") or "?"), 60)
    return f"{name} (pid {client['pid']})" if "pid" in client else name


def _handle(record: dict[str, Any]) -> str:
    session, handle = record.get("session"), record.get("handle")
    if handle is None:
        return "-" if session is None else show.plain(str(session))
    return show.plain(f"{session}/{handle} #{record.get('generation', '?')}")


def _summary(record: dict[str, Any]) -> str:
    match record:
        case {"event": "spawn", "command": command}:
            return f"spawn {record.get('tool')}: {command}"
        case {"event": "apply", "question": question}:
            answer = "(withheld)" if record.get("withheld") else repr(record.get("input"))
            return f"answer to {question}: {answer}"
        case {"event": "answer", "question": question}:
            answer = "(withheld)" if record.get("withheld") else repr(record.get("input"))
            by = record.get("by")
            return f"answer to {question}: {answer}" + ("" if by == "client" else f", by {by}")
        case {"event": "apply", "withheld": True}:
            return f"{record.get('kind')} (withheld)"
        case {"event": "apply"}:
            cut = f" … ({record['length']} in all)" if "length" in record else ""
            return _input(record.get("input")) + cut
        case {"event": "approval", "decision": decision, "action": action}:
            kept = f" for the {record['remember']}" if "remember" in record else ""
            reason = f": {record['reason']}" if "reason" in record else ""
            return f"{decision} {action} of {record.get('tool')}{kept}{reason}"
        case {"event": "askpass", "question": question, "prompt": prompt}:
            return f"{question} was answered; its prompt was: {prompt}"
        case {"event": "trust/grant", "root": root, "files": dict(files)}:
            return f"trust {root}: {', '.join(files)}"
        case {"event": "trust/revoke", "root": root}:
            return f"revoke trust in {root}"
        case {"event": "lost", "records": records}:
            return f"{records} records are missing here"
        case {"event": "session/close", "handles": list(handles)} if handles:
            return f"session/close, which ended {', '.join(map(str, handles))}"
    return str(record.get("event"))


def _input(content: object) -> str:
    match content:
        case str():
            return f"text {content!r}"
        case {"keys": list(names)}:
            return f"keys {' '.join(map(str, names))}"
        case {"resize": {"rows": rows, "cols": cols}}:
            return f"resize {rows}x{cols}"
        case {"signal": name}:
            return f"signal {name}"
        case {"eof": True}:
            return "eof"
        case dict() if len(content) == 1:
            ((kind, value),) = content.items()
            return f"{kind} {value!r}"
    return repr(content)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
