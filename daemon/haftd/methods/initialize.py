"""initialize and ping."""

from __future__ import annotations

import os

from msgspec import UNSET

from haft_protocol.constants import PROTOCOL
from haft_protocol.errors import invalid_params
from haft_protocol.methods import (
    Empty,
    InitializeParams,
    InitializeResult,
    LimitsResult,
    PingResult,
    ServerInfo,
)
from haftd.caller import Caller
from haftd.daemon import Facts

from .access import Access


def initialize(
    access: Access, facts: Facts, limits: LimitsResult, caller: Caller, params: InitializeParams
) -> InitializeResult:
    """Register the client's name, capabilities and session. Raises `not_authorized`.

    `read_only` is for good. Another protocol version raises `invalid_params` with both versions and
    the process to end.
    """
    if params.protocol != PROTOCOL:
        version = facts.version
        raise invalid_params(
            f"haftd {version} speaks version {PROTOCOL} of the protocol, and this client {params.protocol}; "
            "`haft stop` ends it and everything that it runs, and the next command starts another",
            field="protocol",
            protocol=PROTOCOL,
            version=version,
            pid=os.getpid(),
        )
    if params.read_only and (params.capabilities.inquiry or params.capabilities.approval):
        raise invalid_params(
            "`read_only` cannot be combined with `capabilities`: a client that changes nothing answers nothing",
            field="read_only",
        )
    access.check_session(caller, params)
    caller.read_only = caller.read_only or params.read_only
    session = access.session_of(caller, params)
    caller.name = params.client.name
    caller.inquiry = params.capabilities.inquiry and not caller.read_only
    may_approve = caller.may("approvals") and not caller.read_only
    caller.approval = params.capabilities.approval and may_approve
    caller.initialized = True
    caller.session = session
    if caller.inquiry or caller.approval:
        access.clients.arrive()
    prove = facts.prove
    return InitializeResult(
        server=ServerInfo("haftd", facts.version),
        protocol=PROTOCOL,
        session=caller.session,
        limits=limits,
        pid=os.getpid(),
        started_at=facts.started_at,
        proof=UNSET if prove is None or params.challenge is UNSET else prove(params.challenge),
        read_only=caller.read_only,
    )


def ping(caller: Caller, params: Empty) -> PingResult:
    return PingResult()
