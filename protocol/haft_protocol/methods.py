"""Every method of the wire, once: its params, its result, one line of what it does.

Rules: the table is flat and holds all of them; the types stand with their nouns (`handles`, `tools`,
`sessions`, `inquiries`, `approvals`, `pushes`, `trust`, what the daemon says of itself in `reports`) and are
offered here, too. The daemon decodes with these very types, the clients build them, the OpenRPC
document is generated from them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .approvals import (
    ApprovalsDecideParams,
    ApprovalsListParams,
    ApprovalsListResult,
)
from .handles import (
    AbortParams,
    ApplyParams,
    AwaitParams,
    AwaitResult,
    FetchParams,
    FoundLine,
    HandleInfo,
    HandlesListParams,
    HandlesListResult,
    ReadingParams,
    SearchParams,
    SearchResult,
    SpawnParams,
    TimelineParams,
    TimelineResult,
    View,
    Wait,
)
from .inquiries import (
    AskpassParams,
    AskpassResult,
    InquiriesAnswerParams,
    InquiriesListParams,
    InquiriesListResult,
)
from .params import (
    ID_FORM,
    Empty,
    Params,
)
from .pushes import (
    SubscribeParams,
    SubscribeResult,
    UnsubscribeParams,
)
from .reports import (
    InitializeResult,
    LimitsResult,
    OpenQuestion,
    PingResult,
    Problem,
    ReloadResult,
    ServerInfo,
    SessionInfo,
    SessionListResult,
    StatusResult,
    WebSocketInfo,
)
from .sessions import (
    Client,
    ClientCapabilities,
    InitializeParams,
    Inquired,
    SessionCloseParams,
    SessionCloseResult,
    ShutdownParams,
    TurnDecision,
    TurnEndParams,
    TurnEndResult,
    TurnPolicy,
    TurnResult,
)
from .states import (
    HandleState,
)
from .tools import (
    Annotations,
    CalledAwait,
    CalledList,
    CalledPending,
    CalledRunning,
    CalledState,
    CalledStopped,
    CalledText,
    CalledWaiting,
    DrainParams,
    NoticesResult,
    ParameterInfo,
    Provider,
    Style,
    Surface,
    ToolDescription,
    ToolInfo,
    ToolsCallParams,
    ToolsDescribeParams,
    ToolsDescribeResult,
    ToolsListParams,
    ToolsListResult,
    called,
)
from .trust import (
    TrustGrantParams,
    TrustListResult,
    TrustResult,
    TrustRevokeParams,
    TrustRevokeResult,
    TrustShowParams,
    TrustShowResult,
)

__all__ = [
    "ID_FORM",
    "METHODS",
    "AbortParams",
    "Annotations",
    "ApplyParams",
    "ApprovalsDecideParams",
    "ApprovalsListParams",
    "ApprovalsListResult",
    "AskpassParams",
    "AskpassResult",
    "AwaitParams",
    "AwaitResult",
    "CalledAwait",
    "CalledList",
    "CalledPending",
    "CalledRunning",
    "CalledState",
    "CalledStopped",
    "CalledText",
    "CalledWaiting",
    "Client",
    "ClientCapabilities",
    "DrainParams",
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
    "OpenQuestion",
    "ParameterInfo",
    "Params",
    "PingResult",
    "Problem",
    "Provider",
    "ReadingParams",
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
    "Surface",
    "TimelineParams",
    "TimelineResult",
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
    "called",
]


class Method(msgspec.Struct, frozen=True):
    """One method: its wire name, the types of its params and result, and one line about it. The result
    is one of several where it is a tuple of types."""

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
        Method(
            "output/timeline",
            TimelineParams,
            TimelineResult,
            "Return when the bytes of a handle's output were printed.",
        ),
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
            (CalledState, CalledAwait, CalledList, CalledText),
            "Call a tool as an assistant does: a verb by `action`, else a run to the end.",
        ),
        Method(
            "notifications/drain",
            DrainParams,
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
