"""`haft hosts`: the daemons of several machines, asked concurrently."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import chain
from queue import SimpleQueue
from threading import Thread

import msgspec
from msgspec import UNSET, UnsetType

from haft_protocol.states import Stopped

from ...addresses import Address, parse_address
from ...client import Haft
from ...connection import open_connection
from ...errors import HaftError, InvalidAddress, NotRunning, Unreachable
from .. import show
from ..host_list import host_list, hosts_file
from ..options import whole
from ..statuses import Status

EPILOG = """\
Without ADDRESS it asks this machine, the machine of --host or HAFT_HOST, and the machines in the file `hosts` in the folder of
haft's configuration (~/.config/haft/hosts): one address on a line, `#` begins a comment. An invalid line is
reported, and the other machines are asked. NEEDS counts the handles that
wait for a person: for an answer, a decision, a line, a secret or a key. No daemon is started.

Each machine's line is shown as soon as its daemon answers. Exit status 0 when all of them have answered, 1 when some
have not, 3 when none has.

examples:
  haft hosts
  haft hosts ssh://me@box ssh://other
  haft hosts --json | jq -r '.hosts[] | select(.needs > 0) | .host'
"""

_TIMEOUT_MS = 10_000
_STATE = len("unreachable")
_VERSION = len("VERSION")
_HANDLES = len("HANDLES")


class HostReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    host: str
    state: str
    version: str | UnsetType = UNSET
    handles: int | UnsetType = UNSET
    """Handles that have not stopped."""
    needs: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "addresses", nargs="*", metavar="ADDRESS", help="the machines (default: those in the file)"
    )
    parser.add_argument(
        "--timeout-ms",
        type=whole(1),
        metavar="MS",
        help=f"give up on a machine after this many milliseconds ({_TIMEOUT_MS:,})",
    )


def run(options: argparse.Namespace) -> int:
    named = getattr(options, "addresses", None)
    addresses, faulty = _addresses(named, options.address)
    timeout = getattr(options, "timeout_ms", _TIMEOUT_MS) / 1000
    names = [*addresses, *(report.host for report in faulty)]
    width = max(len("HOST"), *(len(show.plain(name)) for name in names))
    if not options.json:
        show.write(_row(width, "HOST", "STATE", "VERSION", "HANDLES", "NEEDS"))
    reports: dict[str, HostReport] = {}
    answers = _ask_all(addresses, lambda text, address: ask(text, address, timeout))
    for report in chain(faulty, answers):
        reports[report.host] = report
        if not options.json:
            show.write(_line(width, report))
    if options.json:
        listed = [reports[name] for name in names]
        show.document(msgspec.json.encode({"hosts": listed}))
    answered = sum(report.state == "running" for report in reports.values())
    if answered == len(reports):
        return Status.DONE
    return Status.FAILED if answered else Status.NO_DAEMON


def _addresses(
    named: list[str] | None, chosen: str | None
) -> tuple[dict[str, Address], list[HostReport]]:
    """Return the machines to ask, and a report of each invalid line of the file.

    Raises `InvalidAddress` for an invalid address on the command line or in HAFT_HOST.
    """
    if named:
        return {text: parse_address(text, "ADDRESS") for text in named}, []
    addresses: dict[str, Address] = {}
    faulty: list[HostReport] = []
    for source, text in host_list(chosen, os.environ):
        if isinstance(source, str):
            addresses[text] = parse_address(text, source)
            continue
        try:
            addresses[text] = parse_address(text, "it")
        except InvalidAddress as fault:
            # The line may have a password.
            place = f"{hosts_file(os.environ)}:{source}"
            faulty.append(HostReport(host=place, state="no address", error=str(fault)))
    return addresses, faulty


def ask(text: str, address: Address, timeout: float) -> HostReport:
    """Return the report of one machine, after twice the timeout at most."""
    try:
        connected = open_connection(address, timeout=timeout)
        with Haft(connected, name="haft hosts", patience=timeout, read_only=True) as haft:
            infos = haft.handles(session="*")
            version = haft.server.server.version
    except NotRunning as fault:
        state = "unreachable" if isinstance(fault, Unreachable) else "no daemon"
        return HostReport(host=text, state=state, error=str(fault))
    except HaftError as fault:
        return HostReport(host=text, state="failed", error=str(fault))
    live = [info.state for info in infos if not isinstance(info.state, Stopped)]
    needs = sum(state.needs != "nothing" for state in live)
    return HostReport(host=text, state="running", version=version, handles=len(live), needs=needs)


def _ask_all(
    addresses: dict[str, Address], ask_one: Callable[[str, Address], HostReport]
) -> Iterator[HostReport]:
    """Yield the reports as they arrive."""
    arrived: SimpleQueue[HostReport | BaseException] = SimpleQueue()

    def put(text: str, address: Address) -> None:
        try:
            arrived.put(ask_one(text, address))
        except BaseException as fault:  # raised again in the main thread
            arrived.put(fault)

    for text, address in addresses.items():
        # A daemon thread: an interrupted command waits for no machine.
        Thread(target=put, args=(text, address), daemon=True).start()
    for _ in addresses:
        report = arrived.get()
        if isinstance(report, BaseException):
            raise report
        yield report


def _line(width: int, report: HostReport) -> str:
    if report.state != "running":
        name = show.plain(report.host)
        return f"{name:{width}}  {report.state:{_STATE}}  {show.plain(str(report.error), 600)}\n"
    return _row(
        width,
        show.plain(report.host),
        report.state,
        show.plain(str(report.version)),
        str(report.handles),
        str(report.needs or "-"),
    )


def _row(width: int, host: str, state: str, version: str, handles: str, needs: str) -> str:
    return (
        f"{host:{width}}  {state:{_STATE}}  {version:{_VERSION}}  {handles:{_HANDLES}}  {needs}\n"
    )
