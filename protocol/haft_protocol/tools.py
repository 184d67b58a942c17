"""What is asked about tools, and what an assistant's call of one is answered.

Rules: those of `params`. A call is answered as the verb is that it comes to, with what rides on it.
Section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .errors import invalid_arguments, limit_exceeded
from .handles import AwaitResult, HandlesListResult
from .inquiries import Inquiry
from .jsontext import MAX_VALUES, TooManyValues, decode_text
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
"""How handles are offered to a model: by an `action` of each tool, or by a tool for each verb."""


class ToolsCallParams(Params, frozen=True, kw_only=True):
    """Call a tool as an assistant does. With `action` among the arguments it is that verb on a handle,
    else the tool runs to its end. `context` is handed to whoever answers the tool's questions; its `vars`,
    an object, to the tool as well; `env` is as for spawn. With the surface `verbs` it is one of the tools that
    `tools/list` gives for that surface; with the format `text` the reply is a text for a model."""

    tool: str
    arguments: ArgumentsOrText = msgspec.field(default_factory=dict)
    call_id: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    context: Any = None
    env: dict[str, str | None] | UnsetType = UNSET
    surface: Surface = "actions"
    format: Literal["json", "text"] = "json"

    def __post_init__(self) -> None:
        given: object = self.arguments
        if not isinstance(given, dict):
            arguments = _read_arguments(self.tool, given if isinstance(given, str) else "")
            msgspec.structs.force_setattr(self, "arguments", arguments)


def _read_arguments(tool: str, given: str) -> dict[str, Any]:
    """Decode the JSON text of arguments; an empty text and `null` stand for none.

    Raises `RpcError` (invalid_arguments, limit_exceeded)."""
    if not given.strip():
        return {}
    try:
        arguments = decode_text(given)
    except TooManyValues:
        what = "`arguments` has too many names and values; put them into a file"
        raise limit_exceeded("max_values", MAX_VALUES, what) from None
    except ValueError as error:
        why = f"it is a text that is not JSON ({error}); give an object, or the JSON text of one"
        raise invalid_arguments(tool, [{"path": "arguments", "message": why}]) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        why = "it is the JSON text of something else; give an object, or the JSON text of one"
        raise invalid_arguments(tool, [{"path": "arguments", "message": why}])
    return arguments


class DrainParams(Params, frozen=True, kw_only=True):
    """Take the notices of the session, with `markdown` also as a text."""

    format: Literal["json", "markdown"] = "json"


class NoticesResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the session has not seen, oldest first; it is handed out once. `text` is the same as
    Markdown."""

    notifications: tuple[Notice, ...]
    text: str | UnsetType = UNSET


class ToolsListParams(Params, frozen=True, kw_only=True):
    """List the tools with their schemas, in the words of a provider. With the surface `verbs` each definition has
    a tool that starts it, and five tools are for all handles; `style` has no meaning then."""

    provider: Provider = "generic"
    style: Style | UnsetType = UNSET
    surface: Surface = "actions"


class Annotations(msgspec.Struct, frozen=True):
    """What a tool may do, as MCP has it: `destructive` and `idempotent` count where it is not `read_only`, and
    `open_world` says that it reaches beyond this machine's own data."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


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
    annotations: Annotations | UnsetType = UNSET


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


class CalledPending(Pending, frozen=True, kw_only=True, omit_defaults=True, tag="pending"):
    """A handle state with what rides on it."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledRunning(Running, frozen=True, kw_only=True, omit_defaults=True, tag="running"):
    """The same."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledWaiting(Waiting, frozen=True, kw_only=True, omit_defaults=True, tag="waiting"):
    """The same."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledStopped(Stopped, frozen=True, kw_only=True, omit_defaults=True, tag="stopped"):
    """The same."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledAwait(AwaitResult, frozen=True, kw_only=True, omit_defaults=True):
    """What `await` gives, called as a tool."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledList(HandlesListResult, frozen=True, kw_only=True):
    """What `handle_list` gives."""

    call_id: str
    notifications: tuple[Notice, ...]


class CalledText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply as text for a model, with the notices in it. `failed`: the tool itself has failed. `inquiry` is a
    question of the handle that no client, program or model is being asked; `states` are the handles that the
    text is about, without their output."""

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
    """What a call is answered: the reply of its verb with what rides on it."""
    fields = {name: getattr(reply, name) for name in reply.__struct_fields__}
    return _CALLED[type(reply)](**fields, call_id=call_id, notifications=notifications)
