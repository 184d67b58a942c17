"""Parsed definition of a tool (docs/definitions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import jsonschema_rs
import msgspec
from msgspec.structs import force_setattr

from haft_protocol.methods import Annotations
from haftd.notice_settings import NoticeSettings

from .access import AccessPolicy
from .runtime_names import MEDIATED, explain_unserved_runtime, list_served_names

BUILTIN = frozenset({"ask_user", "describe_tools"})
"""The daemon's own tools with a definition; `await` has none."""

Action = Literal["spawn", "fetch", "apply", "abort"]
ACTIONS: tuple[Action, ...] = ("spawn", "fetch", "apply", "abort")
RunMode = Literal["ask", "unattended", "edit", "skip"]
StatedMode = RunMode | Literal["sandboxed"]
"""Mode as stated: `sandboxed` is `unattended` for a confined tool, else `ask`."""


class Each(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{ each = "expression" }`: one argument per item of the list."""

    each: str


class Command(msgspec.Struct, frozen=True):
    """Command template."""

    words: tuple[str | Each, ...]
    """Without `shell`: a template for each argument, an `Each` for many."""
    shell: str | None = None
    """Shell that runs the words as one script, with variables in place of values."""

    @property
    def names_module(self) -> bool:
        """True if the program is named like a WebAssembly module."""
        return self.shell is None and str(self.words[0]).endswith(".wasm")


class VerbForm(msgspec.Struct, frozen=True):
    """Start tool as shown to models."""

    summary: str = ""
    description: str = ""
    """Shown by `describe_tools`."""
    parameters: Mapping[str, str] | None = None
    """Short descriptions by name."""
    required: tuple[str, ...] = ()
    """Names of required parameters."""
    first_line: str = ""
    """Description of the parameter `command`, a line to type after the start."""


class QuestionPolicy(msgspec.Struct, frozen=True):
    """Fixed answer or target of a tool's question."""

    target: Literal["assistant", "user"] | dict[str, Any] | None = None
    answer: Any = msgspec.UNSET
    timeout_s: float | None = None


# Patterns with lookaround backtrack: a tenth of the usual limit.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)


def _refuse_to_retrieve(uri: str) -> Any:
    raise ValueError(f"a schema must not refer to {uri}")


class SchemaError(ValueError):
    """Invalid JSON Schema: path of the keyword, and reason."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a JSON Schema without fetching references; raises `SchemaError`."""
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


class Tool(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """Definition of one tool. `rows`, `cols`, `runtime`, `cwd` and the values of `env` and `limits`
    may be templates."""

    name: str
    file: str
    line: int | None = None
    root: str | None = None
    """The root that defines the tool, and its working folder; None for a tool of the user, which runs in the caller's root."""
    summary: str = ""
    description: str = ""
    examples: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=lambda: dict(NO_PARAMETERS))
    details: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Long texts about parameters by path."""
    has_parameters: bool = False
    """False where the definition has no parameters."""
    must_describe: bool = False
    """The program must be asked for the parameters before a list or call."""
    may_describe: bool = False
    """The program may describe the parameters of a complete definition."""
    laid_over: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Changes to parameters described by program or server."""
    older: bool = False
    """Defined by `[conversation.tools.<name>]`, the file format of another program: templates have
    that format's context as well."""
    absent: str = ""
    """Reason why the MCP server does not offer the tool."""
    entry: str = ""
    """The program's name for the tool, if different."""
    stateful: bool = False
    one_shot: bool = False
    """The surface offers a call without an action, to the end."""
    actions: tuple[Action, ...] = ()
    source: str = "local"
    runtime: str = "stdio"
    command: Command | None = None
    output: Literal["raw", "outcome", "events"] = "outcome"
    env: Mapping[str, str | bool] = msgspec.field(default_factory=dict)
    """Value to set; True passes the caller's variable even if secret, False removes it."""
    cwd: str = "."
    rows: int | str = 24
    cols: int | str = 80
    limits: Mapping[str, float | str] = msgspec.field(default_factory=dict)
    """Bytes, seconds and counts."""
    may: frozenset[str] = frozenset()
    """The processes' permitted actions in a person's name: `handles`, `approvals`, `questions`."""
    enable: Literal["on", "off", "explicit"] = "on"
    on_turn_end: Literal["abort", "await", "keep", "inquire"] | None = None
    on_disconnect: Literal["keep", "abort"] = "keep"
    verbs: VerbForm | None = None
    annotations: Annotations | None = None
    """Hints for hosts that ask for permission."""
    notify: NoticeSettings = msgspec.field(default_factory=NoticeSettings)
    size_threshold: int | None = None
    questions: Mapping[str, QuestionPolicy] = msgspec.field(default_factory=dict)
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    access: Mapping[str, Any] | None = None
    """Rules as written."""
    unsafe: bool = False
    """Without enforcement."""
    policy: AccessPolicy | None = None
    """Rules in force."""
    run: StatedMode | Mapping[str, StatedMode] | None = None
    result: RunMode | None = None
    style: Mapping[str, Any] = msgspec.field(default_factory=dict)
    kept: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Fields of older definitions without a meaning here, verbatim."""
    validator: jsonschema_rs.Validator = cast(jsonschema_rs.Validator, None)
    """That of the parameters, also after `replace`."""

    def __post_init__(self) -> None:
        force_setattr(self, "validator", compile_schema(self.parameters))

    @property
    def is_self_describing(self) -> bool:
        """True if the program is asked to describe the tool."""
        return self.must_describe or self.may_describe

    @property
    def is_builtin(self) -> bool:
        return self.source == "builtin" or self.source.startswith("builtin.")

    @property
    def is_confined(self) -> bool:
        """True if a sandbox enforces the tool's rules for files and network."""
        if self.unsafe or self.source != "local":
            return False
        if self.runtime in (MEDIATED, "wasm"):
            return True
        policy = self.policy
        return policy is not None and policy.fs is not None and policy.net is not None

    @property
    def is_module(self) -> bool:
        """True if the program is a WebAssembly module, also as a mediated tool's process."""
        return self.runtime == "wasm" or (
            self.runtime == MEDIATED and self.command is not None and self.command.names_module
        )

    @property
    def unserved(self) -> str:
        """Return the reason why this daemon cannot run the tool, or an empty string."""
        if self.is_builtin and self.name in BUILTIN:
            return ""
        if self.is_builtin:
            return f"haftd has no tool of that name; its own are {', '.join(sorted(BUILTIN))}"
        if self.source != "local":
            return self.absent
        if self.is_module and "wasm" not in list_served_names():
            return explain_unserved_runtime("wasm")
        if "{" not in self.runtime and self.runtime not in list_served_names():
            return explain_unserved_runtime(self.runtime)
        return ""
