"""A tool's definition, read and checked: what the other files of this room work on.

Rules: frozen; nothing here touches a file or a process. What other rooms act on is kept as it was
written: `approving` reads `run`, `result` and `style`, the inquiries `questions`, calls
`size_threshold`, turns `on_turn_end`; `options` and `access` are only handed to the program. Sections 5, 6, 10 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs
import msgspec

from haft_protocol.methods import Annotations
from haftd.notice_settings import NoticeSettings

from .runtime_names import served_names, unserved_runtime

BUILTIN = frozenset({"ask_user", "describe_tools"})
"""The tools that are the daemon's own; `await` is one, too, and no definition speaks of it."""

Action = Literal["spawn", "fetch", "apply", "abort"]
ACTIONS: tuple[Action, ...] = ("spawn", "fetch", "apply", "abort")
RunMode = Literal["ask", "unattended", "edit", "skip"]


class Each(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{ each = "expression" }`: every item of the list is one argument."""

    each: str


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. Without `shell` every word is one template and one argument (an `Each` is many);
    with it the words are one script for that shell, in which each value stands as a variable."""

    words: tuple[str | Each, ...]
    shell: str | None = None


class VerbForm(msgspec.Struct, frozen=True):
    """How the tool that starts a definition is shown on the surface for models: its `summary`, the `parameters`
    that are shown, each with its short description, and those that are `required` there. With `first_line`, the
    description of a parameter `command`, a start can type one line."""

    summary: str = ""
    parameters: Mapping[str, str] | None = None
    required: tuple[str, ...] = ()
    first_line: str = ""


class QuestionPolicy(msgspec.Struct, frozen=True):
    """Who answers a question of the tool: a fixed `answer`, or a `target`; and for how many seconds
    it is asked, where the configuration's bound does not hold."""

    target: Literal["assistant", "user"] | dict[str, Any] | None = None
    answer: Any = msgspec.UNSET
    timeout_s: float | None = None


# A pattern that looks around may take time without end for one value: a tenth of the usual limit.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)


def _refuse_to_retrieve(uri: str) -> Any:
    raise ValueError(f"a schema may not refer to {uri}")


class SchemaError(ValueError):
    """It is no JSON Schema: the path of the word that is wrong, and a sentence."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a JSON Schema; raises `SchemaError`. Nothing is fetched from anywhere."""
    try:
        return jsonschema_rs.validator_for(
            dict(schema), retriever=_refuse_to_retrieve, pattern_options=_PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        path = tuple(map(str, getattr(error, "instance_path", ())))
        raise SchemaError(str(error).partition("\n")[0], path) from None


NO_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Tool:
    """One tool. `parameters` is a JSON Schema; `rows`, `cols`, `runtime`, `cwd` and the values of
    `env` and `limits` may be templates. In `env`, True hands a name of the caller's environment on
    although it is secret, False takes it away. `limits` are bytes, seconds and counts.
    `parameters_given` is false when the definition left them to the tool's own schema."""

    name: str
    file: str
    line: int | None = None
    root: str | None = None
    """The root that defines it, in which it runs; None for the user's own, which run where they are called."""
    summary: str = ""
    description: str = ""
    examples: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(NO_PARAMETERS))
    details: Mapping[str, str] = field(default_factory=dict)
    """The long texts about parameters by path; the schema has the short ones."""
    parameters_given: bool = False
    self_describing: bool = False
    """Its program is to be asked for the parameters before it is listed or called."""
    may_describe: bool = False
    """Its program may know them; the definition stands as it is where it does not."""
    laid_over: Mapping[str, Any] = field(default_factory=dict)
    """What the definition says of parameters that the program, or the server, describes."""
    older: bool = False
    """Its definition has the form of another program's files: its own program reads that one's context."""
    absent: str = ""
    """Why its server does not offer it now; empty for a tool that needs no server, or has it."""
    entry: str = ""
    """The name under which its program knows the tool, where that is another one."""
    stateful: bool = False
    one_shot: bool = False
    """A model is offered the call without an action as well, which runs the tool to its end."""
    actions: tuple[Action, ...] = ()
    source: str = "local"
    runtime: str = "stdio"
    command: Command | None = None
    output: Literal["raw", "outcome", "events"] = "outcome"
    env: Mapping[str, str | bool] = field(default_factory=dict)
    cwd: str = "."
    rows: int | str = 24
    cols: int | str = 80
    limits: Mapping[str, float | str] = field(default_factory=dict)
    may: frozenset[str] = frozenset()
    """What its processes may do for a person: `handles`, `approvals`, `questions`."""
    enable: Literal["on", "off", "explicit"] = "on"
    on_turn_end: Literal["abort", "await", "keep", "inquire"] | None = None
    on_disconnect: Literal["keep", "abort"] = "keep"
    verbs: VerbForm | None = None
    annotations: Annotations | None = None
    """What it may do, as hosts that ask for permission are told; None where the definition says nothing."""
    notify: NoticeSettings = field(default_factory=NoticeSettings)
    size_threshold: int | None = None
    questions: Mapping[str, QuestionPolicy] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    access: Mapping[str, Any] | None = None
    run: RunMode | Mapping[str, RunMode] | None = None
    result: RunMode | None = None
    style: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Fields of older definitions that have no meaning here, as they were written."""
    validator: jsonschema_rs.Validator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "validator", compile_schema(self.parameters))

    @property
    def is_asked(self) -> bool:
        """Whether its program is asked for what the definition does not say."""
        return self.self_describing or self.may_describe

    @property
    def is_builtin(self) -> bool:
        """Whether the daemon itself is the program."""
        return self.source == "builtin" or self.source.startswith("builtin.")

    @property
    def unserved(self) -> str:
        """Why this daemon cannot run the tool; empty when it can."""
        if self.is_builtin and self.name in BUILTIN:
            return ""
        if self.is_builtin:
            return f"haftd has no tool of that name; its own are {', '.join(sorted(BUILTIN))}"
        if self.source != "local":
            return self.absent
        if "{" not in self.runtime and self.runtime not in served_names():
            return unserved_runtime()
        return ""
