"""Params and results of the methods on tools (docs/protocol.md, "Calling tools")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .errors import invalid_arguments, limit_exceeded
from .handles import AwaitResult, HandlesListResult
from .inquiries import Inquiry
from .json_text import MAX_VALUES, TooManyValues, decode_text
from .params import ArgumentsOrText, Params
from .reports import Problem
from .states import HandleState, Notice, Pending, Running, Stopped, Waiting

__all__ = [
    "Annotations",
    "CalledAwait",
    "CalledList",
    "CalledPending",
    "CalledRunning",
    "CalledState",
    "CalledStopped",
    "CalledText",
    "CalledWaiting",
    "DrainParams",
    "NoticesResult",
    "ParameterInfo",
    "Provider",
    "Style",
    "Surface",
    "ToolDescription",
    "ToolInfo",
    "ToolsCallParams",
    "ToolsDescribeParams",
    "ToolsDescribeResult",
    "ToolsListParams",
    "ToolsListResult",
    "called",
]

Provider = Literal["generic", "openai", "anthropic", "google", "ollama", "mcp"]

Style = Literal["oneof", "flat"]

Surface = Literal["actions", "verbs"]
"""Form in which models see handles: an `action` of each tool, or a tool for each verb."""


class ToolsCallParams(Params, frozen=True, kw_only=True):
    """Call a tool as an assistant does. With `action` among the arguments the call is that verb on
    a handle, else the tool runs to its end. The side that answers questions gets `context`, the
    tool its object `vars`; `env` is as for spawn. With the surface `verbs` the tool is one that
    `tools/list` gives for that surface; with the format `text` the reply is text for a model."""

    tool: str
    arguments: ArgumentsOrText = msgspec.field(default_factory=dict)
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    context: Any = None
    env: dict[str, str | None] | UnsetType = UNSET
    surface: Surface = "actions"
    format: Literal["json", "text"] = "json"

    def __post_init__(self) -> None:
        text: object = self.arguments
        if not isinstance(text, dict):
            arguments = _read_arguments(self.tool, text if isinstance(text, str) else "")
            msgspec.structs.force_setattr(self, "arguments", arguments)


def _read_arguments(tool: str, text: str) -> dict[str, Any]:
    """Decode the JSON text of arguments; an empty text and `null` stand for none.

    Raises `RpcError` (invalid_arguments, limit_exceeded).
    """
    if not text.strip():
        return {}
    try:
        arguments = decode_text(text)
    except TooManyValues:
        message = "`arguments` has too many names and values; put them into a file"
        raise limit_exceeded("max_values", MAX_VALUES, message) from None
    except ValueError as error:
        why = f"it is a string that is not JSON ({error}); give an object, or its JSON as a string"
        raise invalid_arguments(tool, [{"path": "arguments", "message": why}]) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        why = "it is the JSON text of something else; give an object, or its JSON as a string"
        raise invalid_arguments(tool, [{"path": "arguments", "message": why}])
    return arguments


class DrainParams(Params, frozen=True, kw_only=True):
    """Take the session's notices, with `markdown` also as text."""

    format: Literal["json", "markdown"] = "json"


class NoticesResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session's unseen notices, oldest first, each returned once. `text` is their Markdown."""

    notifications: tuple[Notice, ...]
    text: str | UnsetType = UNSET


class ToolsListParams(Params, frozen=True, kw_only=True):
    """List the tools with their schemas in a provider's dialect. The surface `verbs` has a tool to
    start each definition and five for all handles, and ignores `style`."""

    provider: Provider = "generic"
    style: Style | UnsetType = UNSET
    surface: Surface = "actions"


class Annotations(msgspec.Struct, frozen=True):
    """A tool's effects, in MCP's terms: `destructive` and `idempotent` count where `read_only` is
    false; `open_world`: the tool reaches beyond this machine's data."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool for a client; `parameters` is a JSON Schema in the requested provider's dialect."""

    name: str
    description: str
    parameters: dict[str, Any]
    stateful: bool
    actions: tuple[str, ...]
    source: str
    runtime: str
    tool: str | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET


class ToolsListResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tools, by name, and the problems of tools that are not listed for the provider."""

    tools: tuple[ToolInfo, ...]
    problems: tuple[Problem, ...] = ()


class ToolsDescribeParams(Params, frozen=True, kw_only=True):
    """Describe tools in full."""

    tools: Annotated[tuple[str, ...], Meta(min_length=1, max_length=256)]


class ParameterInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One parameter of a tool; a nested one is named by its path, as `a.b` or `list[].b`."""

    name: str
    type: str
    required: bool = False
    description: str = ""
    default: Any = UNSET


class ToolDescription(msgspec.Struct, frozen=True):
    """The whole description of a tool's definition."""

    name: str
    summary: str
    description: str
    examples: str
    stateful: bool
    actions: tuple[str, ...]
    parameters: tuple[ParameterInfo, ...]
    access: tuple[str, ...] | UnsetType = UNSET


class ToolsDescribeResult(msgspec.Struct, frozen=True):
    """The descriptions, in the order of the request."""

    tools: tuple[ToolDescription, ...]


class CalledPending(Pending, frozen=True, kw_only=True, omit_defaults=True, tag="pending"):
    """A pending handle's state with notices."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledRunning(Running, frozen=True, kw_only=True, omit_defaults=True, tag="running"):
    """A running handle's state with notices."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledWaiting(Waiting, frozen=True, kw_only=True, omit_defaults=True, tag="waiting"):
    """A waiting handle's state with notices."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledStopped(Stopped, frozen=True, kw_only=True, omit_defaults=True, tag="stopped"):
    """A stopped handle's state with notices."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledAwait(AwaitResult, frozen=True, kw_only=True, omit_defaults=True):
    """The result of `await`, called as a tool."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledList(HandlesListResult, frozen=True, kw_only=True):
    """The result of `handle_list`."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply as text for a model, with notices. `failed`: the tool itself has failed. `inquiry`:
    the handle's question, if no client, program or model is asked; `states`: the handles in the
    text, without output."""

    text: str
    call_id: str
    failed: bool = False
    states: tuple[HandleState, ...] = ()
    inquiry: Inquiry | UnsetType = UNSET


CalledState = CalledPending | CalledRunning | CalledWaiting | CalledStopped

_CALLED: dict[type, Callable[..., CalledState | CalledAwait | CalledList]] = {
    Pending: CalledPending,
    Running: CalledRunning,
    Waiting: CalledWaiting,
    Stopped: CalledStopped,
    AwaitResult: CalledAwait,
    HandlesListResult: CalledList,
}


def called(
    reply: HandleState | AwaitResult | HandlesListResult,
    call_id: str,
    notifications: tuple[Notice, ...],
) -> CalledState | CalledAwait | CalledList:
    """Return the reply of a verb with the notices attached."""
    fields = {name: getattr(reply, name) for name in reply.__struct_fields__}
    return _CALLED[type(reply)](**fields, call_id=call_id, notifications=notifications)
