"""Table of all methods: name, params, result and summary.

The daemon decodes with these types, clients build them, and the OpenRPC document is generated from
them.
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
    StdinFrom,
    TimelineParams,
    TimelineResult,
    View,
    Wait,
)
from .inquiries import (
    AskpassParams,
    AskpassResult,
    InquiriesAnswerParams,
    InquiriesAskParams,
    InquiriesAskResult,
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
    "InquiriesAskParams",
    "InquiriesAskResult",
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
    "StdinFrom",
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
    """One method: wire name, types of params and result, a one-line summary. A tuple of types lists
    alternative results."""

    name: str
    params: type[Any]
    result: Any
    summary: str
    reads_only: bool = False
    """True if the method changes nothing for others: a read-only connection may call it."""


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "initialize",
            InitializeParams,
            InitializeResult,
            "Introduce the client; the result has the daemon's limits.",
            reads_only=True,
        ),
        Method(
            "ping",
            Empty,
            PingResult,
            "Check that the daemon answers.",
            reads_only=True,
        ),
        Method(
            "spawn", SpawnParams, HandleState, "Start a tool under an id of the caller's choice."
        ),
        Method(
            "fetch",
            FetchParams,
            HandleState,
            "Read a handle's state and output.",
            reads_only=True,
        ),
        Method(
            "apply", ApplyParams, HandleState, "Give a handle input, or an answer to its question."
        ),
        Method("abort", AbortParams, HandleState, "End a handle and everything it started."),
        Method(
            "await",
            AwaitParams,
            AwaitResult,
            "Wait for handles to stop.",
            reads_only=True,
        ),
        Method(
            "handles/list",
            HandlesListParams,
            HandlesListResult,
            "List handles with their processes.",
            reads_only=True,
        ),
        Method(
            "output/search",
            SearchParams,
            SearchResult,
            "Find lines in the output of handles.",
            reads_only=True,
        ),
        Method(
            "output/timeline",
            TimelineParams,
            TimelineResult,
            "Return when the bytes of a handle's output were printed.",
            reads_only=True,
        ),
        Method(
            "session/list",
            Empty,
            SessionListResult,
            "List the sessions.",
            reads_only=True,
        ),
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
            "End a turn, and the handles that must not outlast it.",
        ),
        Method(
            "tools/call",
            ToolsCallParams,
            (CalledState, CalledAwait, CalledList, CalledText),
            "Call a tool as an assistant does: a verb by `action`, else a complete run.",
        ),
        Method(
            "notifications/drain",
            DrainParams,
            NoticesResult,
            "Take the notices that the next tools/call would carry.",
        ),
        Method(
            "subscribe",
            SubscribeParams,
            SubscribeResult,
            "Receive states, output, screens or notices as they occur.",
            reads_only=True,
        ),
        Method(
            "unsubscribe",
            UnsubscribeParams,
            Empty,
            "End a subscription.",
            reads_only=True,
        ),
        Method(
            "tools/list",
            ToolsListParams,
            ToolsListResult,
            "List the tools with their schemas.",
            reads_only=True,
        ),
        Method(
            "tools/describe",
            ToolsDescribeParams,
            ToolsDescribeResult,
            "Describe tools in full, with examples and each parameter.",
            reads_only=True,
        ),
        Method("tools/reload", Empty, ReloadResult, "Reload the tool definitions."),
        Method(
            "trust/show",
            TrustShowParams,
            TrustShowResult,
            "Show the commands in the definitions of a root.",
            reads_only=True,
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
            "Revoke the trust in a root.",
        ),
        Method(
            "trust/list",
            Empty,
            TrustListResult,
            "List the roots whose definitions are trusted.",
            reads_only=True,
        ),
        Method(
            "inquiries/ask",
            InquiriesAskParams,
            InquiriesAskResult,
            "Ask a question of the client's own, and wait for the answer.",
        ),
        Method(
            "inquiries/list",
            InquiriesListParams,
            InquiriesListResult,
            "List the open questions of tools.",
            reads_only=True,
        ),
        Method("inquiries/answer", InquiriesAnswerParams, Empty, "Answer a tool's question."),
        Method(
            "approvals/list",
            ApprovalsListParams,
            ApprovalsListResult,
            "List the actions that await a person's approval.",
            reads_only=True,
        ),
        Method(
            "approvals/decide",
            ApprovalsDecideParams,
            Empty,
            "Allow, deny, skip or edit an action that awaits approval.",
        ),
        Method(
            "askpass",
            AskpassParams,
            AskpassResult,
            "Ask the handle's driver for a secret; for the helper `haft-askpass` only.",
        ),
        Method(
            "daemon/status",
            Empty,
            StatusResult,
            "Report the daemon's figures and problems.",
            reads_only=True,
        ),
        Method("daemon/reload", Empty, ReloadResult, "Reload configuration and definitions."),
        Method("daemon/shutdown", ShutdownParams, Empty, "Stop the daemon and all its handles."),
        Method(
            "rpc.discover",
            Empty,
            dict[str, Any],
            "Return this protocol as an OpenRPC document.",
            reads_only=True,
        ),
    )
}
