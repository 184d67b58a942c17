"""Every method of the wire, once: its params, its result, one line of what it does.

Rules: params are frozen and refuse unknown fields; the daemon decodes with these very types, the
clients build them, the OpenRPC document is generated from them. Sections 4 and 8, and the part
of 5 and 7 that is served.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .approvals import Approval, Decision, Reason, Remember
from .inquiries import Inquiry
from .pushes import PushEvent
from .reports import (
    InitializeResult,
    LimitsResult,
    PingResult,
    Problem,
    ReloadResult,
    ServerInfo,
    SessionInfo,
    SessionListResult,
    StatusResult,
    WebSocketInfo,
)
from .states import HandleState, Notice
from .trust import TrustListResult, TrustResult, TrustRevokeResult, TrustShowResult

__all__ = [
    "ID_FORM",
    "METHODS",
    "AbortParams",
    "ApplyParams",
    "ApprovalsDecideParams",
    "ApprovalsListParams",
    "ApprovalsListResult",
    "AskpassParams",
    "AskpassResult",
    "AwaitParams",
    "AwaitResult",
    "Client",
    "ClientCapabilities",
    "Empty",
    "FetchParams",
    "FoundLine",
    "HandleInfo",
    "HandlesListParams",
    "HandlesListResult",
    "InitializeParams",
    "InitializeResult",
    "Inquired",
    "InquiriesAnswerParams",
    "InquiriesListParams",
    "InquiriesListResult",
    "LimitsResult",
    "Method",
    "NoticesResult",
    "ParameterInfo",
    "Params",
    "PingResult",
    "Problem",
    "Provider",
    "ReloadResult",
    "SearchParams",
    "SearchResult",
    "ServerInfo",
    "SessionCloseParams",
    "SessionCloseResult",
    "SessionInfo",
    "SessionListResult",
    "ShutdownParams",
    "SpawnParams",
    "StatusResult",
    "Style",
    "SubscribeParams",
    "SubscribeResult",
    "ToolDescription",
    "ToolInfo",
    "ToolsCallParams",
    "ToolsDescribeParams",
    "ToolsDescribeResult",
    "ToolsListParams",
    "ToolsListResult",
    "TrustGrantParams",
    "TrustListResult",
    "TrustResult",
    "TrustRevokeParams",
    "TrustRevokeResult",
    "TrustShowParams",
    "TrustShowResult",
    "TurnDecision",
    "TurnEndParams",
    "TurnEndResult",
    "TurnPolicy",
    "TurnResult",
    "UnsubscribeParams",
    "View",
    "Wait",
    "WebSocketInfo",
]

ID_FORM = "[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"
"""What an id may look like, as a regular expression without its ends."""

Id = Annotated[
    str,
    Meta(
        pattern=rf"^{ID_FORM}\Z",
        description="a name of 1 to 64 letters, digits or `_.:-` that begins with a letter or digit",
    ),
]
"""The name of a handle or a session."""

Root = Annotated[
    str,
    Meta(
        pattern=r"^/[^\x00]*\Z",
        max_length=4096,
        description="the absolute path of a folder, at most 4,096 characters",
    ),
]
Milliseconds = Annotated[int, Meta(ge=0, le=86_400_000)]
MaxBytes = Annotated[int, Meta(ge=0, le=268_435_456)]
Offset = Annotated[int, Meta(ge=0)]

Wait = Literal["none", "output", "input", "pattern", "quiet", "stopped"]
Provider = Literal["generic", "openai", "anthropic", "google", "ollama", "mcp"]
Style = Literal["oneof", "flat"]
TurnPolicy = Literal["abort", "await", "keep", "inquire"]
TurnDecision = Literal["wait", "abort", "keep"]
View = Literal["delta", "all", "tail", "screen", "raw", "paint"]
"""`raw`: the bytes themselves, from `cursor` or the read mark on, at most `max_bytes` of them, in base64;
`paint`: those that draw a terminal's present screen on an empty one, in base64."""


class Params(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What every method takes besides its own. Without `session` it is the one that `initialize`
    named on this connection, else `default`."""

    session: Id | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class Empty(Params, frozen=True, kw_only=True):
    """A method without params of its own."""


class _Reading(Params, frozen=True, kw_only=True):
    wait: Wait | UnsetType = UNSET
    timeout_ms: Milliseconds | UnsetType = UNSET
    quiet_ms: Milliseconds = 500
    pattern: Annotated[str, Meta(max_length=4096)] | UnsetType = UNSET
    view: View = "delta"
    max_bytes: MaxBytes = 65_536


class SpawnParams(_Reading, frozen=True, kw_only=True):
    """Start a tool under an id. `env` replaces the daemon's environment; `null` leaves a name out."""

    tool: str
    id: Id
    args: dict[str, Any] = {}
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    env: dict[str, str | None] | UnsetType = UNSET


class FetchParams(_Reading, frozen=True, kw_only=True):
    """Read a handle; `cursor` re-reads from an offset and leaves the read mark alone."""

    id: Id
    cursor: Offset | UnsetType = UNSET
    since_revision: Offset | UnsetType = UNSET


class ApplyParams(FetchParams, frozen=True, kw_only=True):
    """Give a handle input, or the answer it waits for; then read as fetch does."""

    input: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"ApplyParams(id={self.id!r}, …)"


class ToolsCallParams(Params, frozen=True, kw_only=True):
    """Call a tool as an assistant does. With `action` among the arguments it is that verb on a handle,
    else the tool runs to its end. `context` is handed to whoever answers the tool's questions; `env`
    is as for spawn."""

    tool: str
    arguments: dict[str, Any] = {}
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    context: Any = None
    env: dict[str, str | None] | UnsetType = UNSET


class NoticesResult(msgspec.Struct, frozen=True):
    """What the session has not seen, oldest first; it is handed out once."""

    notifications: tuple[Notice, ...]


class SubscribeParams(Params, frozen=True, kw_only=True):
    """Be told what happens, by notifications. Without `handles`, ids in the session, it is of all that
    live and all that are started later."""

    events: Annotated[tuple[PushEvent, ...], Meta(min_length=1, max_length=16)]
    handles: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=4096)] | UnsetType = UNSET


class SubscribeResult(msgspec.Struct, frozen=True):
    """The subscription's name; every notification that is for it carries it."""

    subscription: str


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    """End a subscription of this connection."""

    subscription: Annotated[str, Meta(max_length=64)]


class AbortParams(Params, frozen=True, kw_only=True):
    """End a handle: TERM, the grace, KILL; answered when nothing of it is left."""

    id: Id
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] | UnsetType = UNSET


class AwaitParams(Params, frozen=True, kw_only=True):
    """Wait until all of `all` and one of `any` have stopped."""

    any: tuple[Id, ...] = ()
    all: tuple[Id, ...] = ()
    timeout_secs: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType = UNSET


class AwaitResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of those that have stopped, and of those that have not."""

    completed: tuple[HandleState, ...]
    pending: tuple[HandleState, ...]
    timed_out: bool = False


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who connects, as it calls itself."""

    name: Annotated[str, Meta(max_length=128)]
    version: Annotated[str, Meta(max_length=64)] = ""


class ClientCapabilities(msgspec.Struct, frozen=True):
    """What a client can be asked; what this daemon does not know is passed over."""

    inquiry: bool = False
    approval: bool = False


class InitializeParams(Params, frozen=True, kw_only=True):
    """Say who connects; optional on a Unix socket, required first on a WebSocket."""

    client: Client
    protocol: Literal[1]
    capabilities: ClientCapabilities = ClientCapabilities()


SessionOrAll = Annotated[
    str,
    Meta(
        pattern=rf"^(\*|{ID_FORM})\Z",
        description="the name of a session, or `*` for all",
    ),
]


class HandlesListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List the handles of one session, or of all with `*`."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class HandleInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A handle's state with what an assistant needs to find it again. Times are seconds since the
    epoch, `age_s` seconds since spawn, `cpu_s` and `memory` (bytes, resident) of all its processes."""

    state: HandleState
    command: str
    root: str
    started_at: float
    age_s: float
    bytes: int
    last_output_at: float | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    cpu_s: float | UnsetType = UNSET
    memory: int | UnsetType = UNSET


class HandlesListResult(msgspec.Struct, frozen=True):
    """Each handle is its state object with the fields of `HandleInfo` beside it."""

    handles: tuple[dict[str, Any], ...]


class ToolsListParams(Params, frozen=True, kw_only=True):
    """List the tools with their schemas, in the words of a provider."""

    provider: Provider = "generic"
    style: Style | UnsetType = UNSET


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool as a client sees it; `parameters` is a JSON Schema, in the words of the provider asked
    for."""

    name: str
    description: str
    parameters: dict[str, Any]
    stateful: bool
    actions: tuple[str, ...]
    source: str
    runtime: str
    tool: str | UnsetType = UNSET


class ToolsListResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tools, by name, and those that the provider cannot be given."""

    tools: tuple[ToolInfo, ...]
    problems: tuple[Problem, ...] = ()


class ToolsDescribeParams(Params, frozen=True, kw_only=True):
    """Describe tools in full."""

    tools: Annotated[tuple[str, ...], Meta(min_length=1, max_length=256)]


class ParameterInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One parameter of a tool; one inside another is named by its path, as `a.b` or `list[].b`."""

    name: str
    type: str
    required: bool = False
    description: str = ""
    default: Any = UNSET


class ToolDescription(msgspec.Struct, frozen=True):
    """All that a tool's definition says to whoever calls it."""

    name: str
    summary: str
    description: str
    examples: str
    stateful: bool
    actions: tuple[str, ...]
    parameters: tuple[ParameterInfo, ...]


class ToolsDescribeResult(msgspec.Struct, frozen=True):
    """The descriptions, in the order in which they were asked for."""

    tools: tuple[ToolDescription, ...]


class TrustShowParams(Params, frozen=True, kw_only=True):
    """Show what the files in a root's `.haft/tools/` would run. `root` has to be given."""

    root: Root


class TrustGrantParams(Params, frozen=True, kw_only=True):
    """Trust the files of a root as `trust/show` has shown them. `root` has to be given. Over the Unix
    socket only, and not from what a tool runs."""

    root: Root
    digest: Annotated[str, Meta(max_length=64)]


class TrustRevokeParams(Params, frozen=True, kw_only=True):
    """Trust nothing of a root any more. `root` has to be given."""

    root: Root


class SearchParams(Params, frozen=True, kw_only=True):
    """Find lines in the kept output of handles, running or stopped."""

    pattern: Annotated[str, Meta(min_length=1, max_length=4096)]
    ids: tuple[Id, ...] | UnsetType = UNSET
    max_matches: Annotated[int, Meta(ge=1, le=10_000)] = 200


class FoundLine(msgspec.Struct, frozen=True):
    """A line that matches; `cursor` is the byte offset at which it begins."""

    id: str
    generation: int
    cursor: int
    line: str


class SearchResult(msgspec.Struct, frozen=True):
    """`more`: the limit was met, there may be others."""

    matches: tuple[FoundLine, ...]
    more: bool


class ShutdownParams(Params, frozen=True, kw_only=True):
    """Stop the daemon: `abort` ends every handle within its grace, `refuse` fails when one lives."""

    policy: Literal["abort", "refuse"] = "abort"


class SessionCloseParams(Params, frozen=True, kw_only=True):
    """Close a session; its live handles are aborted."""

    policy: Literal["abort"] = "abort"


class SessionCloseResult(msgspec.Struct, frozen=True):
    """The last states of the session's handles."""

    handles: tuple[HandleState, ...]


class TurnResult(msgspec.Struct, frozen=True):
    """Turns of a session are counted from 1."""

    turn: int


class TurnEndParams(Params, frozen=True, kw_only=True):
    """End a turn: what still runs in the session is aborted, awaited, kept or asked about, as each
    tool says. `target` is who is meant to answer, `context` is handed to whoever does."""

    policy: TurnPolicy | UnsetType = UNSET
    timeout_ms: Milliseconds = 60_000
    target: Literal["caller", "assistant", "user"] = "caller"
    context: Any = None


class Inquired(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided of a handle that was asked about; `stopped` where it has stopped before. `why`
    is there where nobody has decided."""

    id: str
    decided: Literal["wait", "abort", "keep", "stopped"]
    why: str = ""


class TurnEndResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of those that ran when the turn ended; that they are here does not count as read."""

    turn: int
    handles: tuple[HandleState, ...]
    inquired: tuple[Inquired, ...] = ()


class InquiriesListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List what is asked in one session, or in all with `*`, and not answered."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class InquiriesListResult(msgspec.Struct, frozen=True):
    """Each is what a client with the capability `inquiry` is asked."""

    inquiries: tuple[Inquiry, ...]


class InquiriesAnswerParams(Params, frozen=True, kw_only=True):
    """Answer what is asked, for a person. With `question` it is given only while that one is asked:
    a tool asks all of its questions under one `inquiry_id`. With `remember` it is given again to the
    same tool that asks the same."""

    inquiry_id: Annotated[str, Meta(max_length=512)]
    answer: Any
    question: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"InquiriesAnswerParams(inquiry_id={self.inquiry_id!r}, …)"


class ApprovalsListParams(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """List what waits for approval in one session, or in all with `*`."""

    session: SessionOrAll | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class ApprovalsListResult(msgspec.Struct, frozen=True):
    """Each is what a client with the capability `approval` is asked."""

    approvals: tuple[Approval, ...]


class ApprovalsDecideParams(Params, frozen=True, kw_only=True):
    """Decide what waits for approval, for a person. With `edit` it goes on with these `arguments`."""

    approval_id: Annotated[str, Meta(max_length=64)]
    decision: Decision
    arguments: dict[str, Any] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"ApprovalsDecideParams(approval_id={self.approval_id!r}, {self.decision}, …)"


class AskpassParams(Params, frozen=True, kw_only=True):
    """Ask a secret for a program that a tool runs; only the helper `haft-askpass` has use for it."""

    mark: Annotated[str, Meta(max_length=256)]
    prompt: str
    hint: Literal["confirm", "none"] | UnsetType = UNSET


class AskpassResult(msgspec.Struct, frozen=True):
    """What was answered; `null` where nothing was asked."""

    answer: str | bool | None

    def __repr__(self) -> str:
        return "AskpassResult(…)"


class Method(msgspec.Struct, frozen=True):
    """One method: its wire name, the types of its params and result, and one line about it."""

    name: str
    params: type[Any]
    result: Any
    summary: str


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "initialize",
            InitializeParams,
            InitializeResult,
            "Say who connects; answers with the daemon's limits.",
        ),
        Method("ping", Empty, PingResult, "Ask whether the daemon is there."),
        Method(
            "spawn", SpawnParams, HandleState, "Start a tool under an id of the caller's choice."
        ),
        Method("fetch", FetchParams, HandleState, "Read a handle's state and output."),
        Method(
            "apply", ApplyParams, HandleState, "Give a handle input, or an answer to its question."
        ),
        Method("abort", AbortParams, HandleState, "End a handle and everything it started."),
        Method("await", AwaitParams, AwaitResult, "Wait for handles to stop."),
        Method(
            "handles/list",
            HandlesListParams,
            HandlesListResult,
            "List handles with their processes.",
        ),
        Method("output/search", SearchParams, SearchResult, "Find lines in the output of handles."),
        Method("session/list", Empty, SessionListResult, "List the sessions."),
        Method(
            "session/close",
            SessionCloseParams,
            SessionCloseResult,
            "Close a session and abort its handles.",
        ),
        Method("turn/begin", Empty, TurnResult, "Begin a turn of the session."),
        Method(
            "turn/end",
            TurnEndParams,
            TurnEndResult,
            "End a turn, and what is not to outlast it.",
        ),
        Method(
            "tools/call",
            ToolsCallParams,
            dict[str, Any],
            "Call a tool as an assistant does: a verb by `action`, else a run to the end.",
        ),
        Method(
            "notifications/drain",
            Empty,
            NoticesResult,
            "Take the notices that ride on the next tools/call otherwise.",
        ),
        Method(
            "subscribe",
            SubscribeParams,
            SubscribeResult,
            "Be told of states, output, screens or notices as they come.",
        ),
        Method("unsubscribe", UnsubscribeParams, Empty, "End a subscription."),
        Method(
            "tools/list", ToolsListParams, ToolsListResult, "List the tools with their schemas."
        ),
        Method(
            "tools/describe",
            ToolsDescribeParams,
            ToolsDescribeResult,
            "Describe tools in full, with examples and each parameter.",
        ),
        Method("tools/reload", Empty, ReloadResult, "Read the tool definitions again."),
        Method(
            "trust/show",
            TrustShowParams,
            TrustShowResult,
            "Show what the definitions of a root would run.",
        ),
        Method(
            "trust/grant",
            TrustGrantParams,
            TrustResult,
            "Trust the definitions of a root as shown.",
        ),
        Method(
            "trust/revoke",
            TrustRevokeParams,
            TrustRevokeResult,
            "Trust nothing of a root any more.",
        ),
        Method(
            "trust/list", Empty, TrustListResult, "List the roots whose definitions are trusted."
        ),
        Method(
            "inquiries/list",
            InquiriesListParams,
            InquiriesListResult,
            "List what tools ask and nobody has answered.",
        ),
        Method("inquiries/answer", InquiriesAnswerParams, Empty, "Answer what a tool asks."),
        Method(
            "approvals/list",
            ApprovalsListParams,
            ApprovalsListResult,
            "List what waits for a person's word.",
        ),
        Method(
            "approvals/decide",
            ApprovalsDecideParams,
            Empty,
            "Allow, deny, skip or edit what waits for a person's word.",
        ),
        Method(
            "askpass",
            AskpassParams,
            AskpassResult,
            "Ask a secret of whoever drives the handle; called by the helper `haft-askpass` only.",
        ),
        Method("daemon/status", Empty, StatusResult, "The daemon's own figures and problems."),
        Method("daemon/reload", Empty, ReloadResult, "Read configuration and definitions again."),
        Method(
            "daemon/shutdown", ShutdownParams, Empty, "Stop the daemon and everything it holds."
        ),
        Method("rpc.discover", Empty, dict[str, Any], "This protocol as an OpenRPC document."),
    )
}
