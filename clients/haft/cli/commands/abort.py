"""`haft abort`: end handles and all their processes.

An ended handle is not a failure; an unknown id is.
"""

from __future__ import annotations

import argparse

import msgspec
from msgspec import MsgspecError, to_builtins

from haft_protocol.states import HandleState, Stopped

from ...client import Haft
from ...errors import RemoteError
from ...requests import drop_unset
from .. import show
from ..options import connect, whole
from ..read_options import call_awaiting_approval, print_state
from ..statuses import Status
from ..words import in_our_words

EPILOG = """\
A handle that has already ended, or is no longer kept, is not an error. With several ids --json has their states in
`handles` and refusals in `errors`.

examples:
  haft abort server
  haft abort server tunnel
  haft abort server --grace-ms 0                    kill immediately, without TERM
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="handles, as `haft ps` names them")
    parser.add_argument(
        "--grace-ms", type=whole(), metavar="N", help="milliseconds between TERM and KILL (2,000)"
    )


def run(options: argparse.Namespace) -> int:
    """End the handles; a tool that fails when aborted is not a failure."""
    grace = getattr(options, "grace_ms", None)
    names = list(dict.fromkeys(options.ids))
    calls = [drop_unset(id=name, grace_ms=grace) for name in names]
    with connect(options) as haft:
        if len(calls) == 1:
            _end_one(haft, options, calls[0])
            return 0
        numbers = [haft.start("abort", **fields) for fields in calls]
        ends = [_end_of(haft, number) for number in numbers]
        if options.json:
            show.document(_document(ends))
        for end in ends:
            if not options.json and isinstance(end, Stopped) and show.text_of(to_builtins(end)):
                show.head(end.id)
            _show(haft, options, end)
    refused = any(isinstance(end, RemoteError) for end in ends)
    return Status.REFUSED if refused else Status.DONE


class _Earlier:
    def __init__(self, state: HandleState) -> None:
        self.state = state


class _Dropped:
    """Ended handle without a kept result."""

    def __init__(self, id: str) -> None:
        self.id = id


_End = HandleState | _Earlier | _Dropped | RemoteError


def _end_one(haft: Haft, options: argparse.Namespace, fields: dict[str, object]) -> None:
    try:
        print_state(haft, options, call_awaiting_approval(haft, options, "abort", fields))
    except RemoteError as refused:
        end = _sorted(refused)
        if isinstance(end, RemoteError):
            raise
        if options.json:
            show.document(
                _document([end]) if isinstance(end, _Dropped) else msgspec.json.encode(end.state)
            )
        _show(haft, options, end)


def _end_of(haft: Haft, number: int) -> _End:
    try:
        state: HandleState = haft.finish(number)
    except RemoteError as refused:
        return _sorted(refused)
    return state


def _sorted(refused: RemoteError) -> _Earlier | _Dropped | RemoteError:
    data = refused.data if isinstance(refused.data, dict) else {}
    if refused.kind == "handle_not_found" and data.get("expired") is True:
        return _Dropped(str(data.get("id")))
    if refused.kind == "handle_stopped":
        try:
            return _Earlier(msgspec.convert(refused.data["state"], HandleState))
        except (KeyError, TypeError, MsgspecError):
            pass
    return refused


def _show(haft: Haft, options: argparse.Namespace, end: _End) -> None:
    if isinstance(end, RemoteError):
        show.line(f"haft abort: {show.plain(in_our_words(end.message), 1000)}", "red")
    elif options.json:
        return
    elif isinstance(end, _Dropped):
        show.line(f"{show.plain(end.id)}: had ended already, and is no longer kept", "dim")
    elif isinstance(end, _Earlier):
        show.line(f"{show.state_line(msgspec.to_builtins(end.state))}, had ended already", "dim")
    else:
        print_state(haft, options, msgspec.json.encode(end))


def _document(ends: list[_End]) -> bytes:
    states = [end.state if isinstance(end, _Earlier) else end for end in ends]
    return msgspec.json.encode(
        {
            "handles": [end for end in states if not isinstance(end, RemoteError | _Dropped)],
            "errors": [
                {"code": end.code, "kind": end.kind, "message": end.message, "data": end.data}
                for end in states
                if isinstance(end, RemoteError)
            ],
        }
    )
