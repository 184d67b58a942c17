"""trust/show, trust/grant, trust/revoke, trust/list: trusted project definitions.

Only users trust, and only the digest shown, over the Unix socket, where the kernel identifies the
peer: no assistant enables a repository's tools. Hostile files parse slowly: a preview yields
between files.
"""

from __future__ import annotations

import time

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.approvals import PolicedAction
from haft_protocol.errors import not_authorized, trust_refused
from haft_protocol.methods import Empty, TrustGrantParams, TrustRevokeParams, TrustShowParams
from haft_protocol.trust import (
    DefinedTool,
    DefinitionFile,
    TrustedRoot,
    TrustListResult,
    TrustResult,
    TrustRevokeResult,
    TrustShowResult,
)
from haftd.audit import Audit
from haftd.caller import Caller
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.approval_policy import find_mode
from haftd.tools.definitions.definition import Each, Tool
from haftd.tools.projects.trust import TrustFault

from ..tools.projects.project_tools import (
    UserTools,
    find_available_tools,
    parse_definitions,
    state_of,
)
from ..tools.projects.roots import HashedFile, RefusedFile, decode_text
from ..tools.projects.trust import TrustedFile
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
            "A root's definitions can be trusted over the Unix socket only: use `haft trust`."
        )
    if not caller.may("approvals"):
        raise caller.refusal("trust a root")


_ACTIONS: tuple[PolicedAction, ...] = ("spawn", "call", "fetch", "apply", "abort", "result")


def show(
    file: HashedFile | RefusedFile, own: UserTools, trusted: TrustedFile | None
) -> DefinitionFile:
    """Describe one file; `trusted` is its last trusted state."""
    if isinstance(file, RefusedFile):
        return DefinitionFile(file=file.path, state="refused", why=file.why)
    reading = parse_definitions(file, own)
    _, conflicts = find_available_tools(reading, own)
    tools = []
    for name, fields in reading.raw.items():
        tool = reading.tools.get(name)
        why = next(
            (problem.message for problem in conflicts if problem.key == f"tools.{name}"), None
        )
        if tool is None:
            why = "its definition is wrong, so the tool is not loaded"
        shown = DefinedTool(name=name, says=dict(fields), unused=UNSET if why is None else why)
        tools.append(shown if tool is None else _with_command(shown, tool))
    return DefinitionFile(
        file=file.path,
        state=state_of(file, {} if trusted is None else {file.name: trusted}),
        digest=file.digest,
        text=decode_text(file),
        was=UNSET if trusted is None or trusted.digest == file.digest else trusted.text,
        tools=tuple(tools),
        problems=reading.problems,
    )


def _with_command(shown: DefinedTool, tool: Tool) -> DefinedTool:
    words: tuple[str | Each, ...] = () if tool.command is None else tool.command.words
    shell = None if tool.command is None else tool.command.shell
    modes = {action: find_mode(tool, action) for action in _ACTIONS}
    return msgspec.structs.replace(
        shown,
        runs=tuple(f"{{each = {w.each}}}" if isinstance(w, Each) else w for w in words),
        shell=UNSET if shell is None else shell,
        asks={action: mode for action, mode in modes.items() if mode != "unattended"},
        describes_itself=tool.is_self_describing,
    )
