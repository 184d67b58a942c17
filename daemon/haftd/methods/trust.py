"""trust/show, trust/grant, trust/revoke, trust/list: trusted project definitions.

Only users trust, over the Unix socket, and the digest shown.
"""

from __future__ import annotations

import time

import trio
from msgspec import UNSET

from haft_protocol.errors import not_authorized, trust_refused
from haft_protocol.methods import Empty, TrustGrantParams, TrustRevokeParams, TrustShowParams
from haft_protocol.trust import (
    TrustedRoot,
    TrustListResult,
    TrustResult,
    TrustRevokeResult,
    TrustShowResult,
)
from haftd.audit import Audit
from haftd.caller import Caller
from haftd.tools.catalogue import Catalogue
from haftd.tools.projects.trust import TrustFault
from haftd.tools.projects.trust_preview import show

from .base import DeferredReply


def trust_show(catalogue: Catalogue, caller: Caller, params: TrustShowParams) -> DeferredReply:
    """Show the commands in the root's files, and the trusted files."""
    seen = catalogue.inspect(params.root)
    own = catalogue.own

    async def shown() -> TrustShowResult:
        files = []
        for file in seen.files:
            files.append(show(file, own, seen.trusted.get(file.name)))
            await trio.lowlevel.checkpoint()
        there = {file.name for file in seen.files}
        return TrustShowResult(
            root=seen.root,
            digest=seen.digest,
            files=tuple(files),
            gone=tuple(sorted(seen.trusted.keys() - there)),
            at=UNSET if seen.at is None else seen.at,
        )

    return DeferredReply(shown)


def trust_grant(
    catalogue: Catalogue, audit: Audit, caller: Caller, params: TrustGrantParams
) -> TrustResult:
    """Trust the files as shown; raises `not_authorized`, or `untrusted_root` after a change."""
    _refuse_tools(caller)
    try:
        digests = catalogue.grant(params.root, params.digest, round(time.time(), 3))
    except TrustFault as fault:
        raise trust_refused(params.root, str(fault)) from None
    root = catalogue.inspect(params.root).root
    audit.record_action("trust/grant", caller, root=root, files=digests)
    return TrustResult(root, tuple(digests))


def trust_revoke(
    catalogue: Catalogue, audit: Audit, caller: Caller, params: TrustRevokeParams
) -> TrustRevokeResult:
    """Revoke all trust in the root; running handles stay."""
    try:
        root, was = catalogue.revoke(params.root)
    except TrustFault as fault:
        raise trust_refused(params.root, str(fault)) from None
    if was:
        audit.record_action("trust/revoke", caller, root=root)
    return TrustRevokeResult(root, was)


def trust_list(catalogue: Catalogue, caller: Caller, params: Empty) -> TrustListResult:
    roots = sorted(catalogue.trusted_roots().items())
    return TrustListResult(
        tuple(TrustedRoot(root, grant.at, tuple(sorted(grant.files))) for root, grant in roots)
    )


def _refuse_tools(caller: Caller) -> None:
    if caller.transport != "unix" or caller.pid is None:
        raise not_authorized(
            "What a root defines is trusted over the Unix socket only: `haft trust` does it."
        )
    if not caller.may("approvals"):
        raise caller.refusal("trust a root")
