"""Readers of a definition's fields, and the assembly of a `Tool`.

A reader returns the value, or raises `InvalidField` with the path inside the field and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from haft_protocol.errors import shown
from haft_protocol.methods import Annotations
from haftd.lazy_pattern import lazy_pattern

from .access_fields import read_access, read_sandbox
from .approval_policy import PARAMETERS
from .commands import read_command, read_template
from .definition import (
    ACTIONS,
    Command,
    QuestionPolicy,
    SchemaError,
    Tool,
    VerbForm,
    compile_schema,
)
from .notice_rules import read_notify
from .parameters import InvalidField, invalid_field, read_flag, read_parameters
from .runtime_names import MEDIATED, read_names

NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
RESERVED = frozenset(
    {"await", "handle_send", "handle_read", "handle_wait", "handle_stop", "handle_list"}
)
SHARED = frozenset(
    {
        "enable",
        "run",
        "format",
        "result",
        "cancellation_response",
        "style",
        "on_turn_end",
        "on_disconnect",
        "notify",
    }
)
WHOLE = frozenset({"command"})
"""Fields that a later layer replaces whole."""
FLAT = frozenset({"style"})
"""Tables whose fields a later layer replaces, each whole."""

_ENV_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_VARIABLES = ("HAFT_HANDLE", "HAFT_OUTER", "HAFT_CALL", "HAFT_SOCKET")
_SIZE = lazy_pattern(r"(\d{1,15})\s*(|B|KiB|MiB|GiB|kB|KB|MB|GB)")
_UNITS = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
MAX_TIMEOUT_S = 31_536_000  # a year
_MODES = ("ask", "unattended", "edit", "skip")
_RUN_MODES = (*_MODES, "sandboxed")
_SIZES = frozenset({"memory", "output"})
MAY = ("handles", "approvals", "questions")
"""Permissions of a user's definition for its processes."""
_LIMITS = ("memory", "cpu_s", "wall_s", "processes", "output", "fuel")


def read_size(value: object) -> int:
    """Parse bytes: an integer, or a string such as "64 MiB"; raises `InvalidField`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match_ := _SIZE.fullmatch(value.strip())):
        return int(match_[1]) * _UNITS[match_[2]]
    raise invalid_field(
        f'it is {shown(value)}; a size is a number of bytes, or a string such as "64 MiB"'
    )


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise invalid_field("it must be a string")


def _read_table(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise invalid_field("it must be a table")


def _make_choice_reader(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise invalid_field(f"it is {shown(value)}; it must be one of {', '.join(allowed)}")

    return read


def _read_source(value: object) -> str:
    text = _read_text(value)
    kind, _, rest = text.partition(".")
    if (
        text == "builtin"
        or kind == "local"
        or (kind == "builtin" and rest)
        or (kind == "mcp" and rest)
    ):
        return "local" if kind == "local" else text
    raise invalid_field(
        f"it is {shown(text)}; it must be builtin, local[.<name>] or mcp.<server>[.<tool>]"
    )


def _read_runtime(value: object) -> str:
    text = read_template(value)
    return text if "{" in text else _make_choice_reader(*read_names())(text)


def _read_extent(value: object) -> int | str:
    if isinstance(value, str):
        return read_template(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1000:
        return value
    raise invalid_field(f"it is {shown(value)}; it must be a number from 1 to 1000, or a template")


def _read_env(value: object) -> dict[str, str | bool]:
    env: dict[str, str | bool] = {}
    for name, item in _read_table(value).items():
        if not _ENV_NAME.fullmatch(name) or name in _RESERVED_VARIABLES:
            raise invalid_field("this name cannot be set", name)
        if isinstance(item, bool):
            env[name] = item
        elif isinstance(item, int | float):
            env[name] = str(item)
        else:
            env[name] = read_template(item, name)
    return env


def _read_limits(value: object) -> dict[str, float | str]:
    limits: dict[str, float | str] = {}
    for name, item in _read_table(value).items():
        if name not in _LIMITS:
            raise invalid_field(
                f"there is no such limit; the limits are {', '.join(_LIMITS)}", name
            )
        if isinstance(item, str) and "{" in item:
            limits[name] = read_template(item, name)
            continue
        limits[name] = read_limit(name, item)
    return limits


def read_limit(name: str, value: object) -> float:
    """Parse a limit: positive bytes, seconds or a count; raises `InvalidField`."""
    if name in _SIZES:
        try:
            number: float = read_size(value)
        except InvalidField as error:
            raise invalid_field(error.message, name) from None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    else:
        raise invalid_field(f"it is {shown(value)}; it must be a number", name)
    if not 0 < number < 2**63:
        raise invalid_field(
            f"it is {shown(value)}; it must be more than 0 and less than 2 to the power of 63", name
        )
    if name in ("processes", "fuel") and number != int(number):
        raise invalid_field(f"it is {shown(value)}; it must be a whole number", name)
    return number


def _read_annotations(value: object) -> Annotations:
    annotations: dict[str, bool] = {}
    for name, item in _read_table(value).items():
        if name not in Annotations.__struct_fields__:
            names = ", ".join(Annotations.__struct_fields__)
            raise invalid_field(f"there is no such annotation; the annotations are {names}", name)
        annotations[name] = read_flag(item, name)
    return Annotations(**annotations)


def _read_verbs(value: object) -> VerbForm:
    table = _read_table(value)
    try:
        return msgspec.convert(table, VerbForm)
    except msgspec.ValidationError as error:
        raise invalid_field(
            f"it has summary, description, parameters, required and first_line: {error}"
        ) from None


def _read_may(value: object) -> frozenset[str]:
    if isinstance(value, list) and all(item in MAY for item in value):
        return frozenset(value)
    raise invalid_field(f"it must be an array of {', '.join(MAY)}")


def _read_actions(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or any(item not in ACTIONS for item in value):
        raise invalid_field(f"it must be an array of {', '.join(ACTIONS)}")
    if "spawn" not in value:
        raise invalid_field("it must have spawn: without it the tool cannot be started")
    return tuple(action for action in ACTIONS if action in value)


def _read_enable(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case "on" | "always":
            return "on"
        case "off" | "explicit":
            return str(value)
        case {"state": bool() as state}:
            return "on" if state else "off"
    raise invalid_field("it must be true, false, on, off, explicit, always, or { state = … }")


def _read_run(value: object) -> str | dict[str, str]:
    if isinstance(value, dict):
        for action, mode in value.items():
            if action not in (*ACTIONS, "call", "default") or mode not in _RUN_MODES:
                raise invalid_field(f"it maps actions to one of {', '.join(_RUN_MODES)}", action)
        return value
    return _make_choice_reader(*_RUN_MODES)(value)


def _read_questions(value: object) -> dict[str, QuestionPolicy]:
    policies = {}
    for name, item in _read_table(value).items():
        if not isinstance(item, dict):
            raise invalid_field("it must be a table of `target`, `answer` or `timeout_s`", name)
        target = item.get("target")
        if (
            target is not None
            and target not in ("assistant", "user")
            and not isinstance(target, dict)
        ):
            raise invalid_field(
                "it must be assistant, user, or a table for another target", name, "target"
            )
        answer = item.get("answer")
        if "answer" in item and not isinstance(answer, bool | int | float | str):
            raise invalid_field("an answer is a string, a number, true or false", name, "answer")
        timeout = item.get("timeout_s")
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and 0 <= timeout <= MAX_TIMEOUT_S):
            raise invalid_field(
                f"it must be a number of seconds from 0 to {MAX_TIMEOUT_S}", name, "timeout_s"
            )
        policies[name] = QuestionPolicy(target, item.get("answer", UNSET), timeout)
    return policies


def _read_style(value: object) -> dict[str, Any]:
    style = dict(_read_table(value))
    if "parameters" in style and style["parameters"] not in PARAMETERS:
        try:
            style["parameters"] = read_command(style["parameters"])
        except InvalidField as error:
            names = ", ".join(PARAMETERS)
            message = (
                error.message if error.path else f"it is {names}, or a command: {error.message}"
            )
            raise invalid_field(message, "parameters", *error.path) from None
    return style


def _read_any(value: object) -> Any:
    return value


READERS: dict[str, Callable[[object], Any]] = {
    "source": _read_source,
    "command": read_command,
    "runtime": _read_runtime,
    "summary": _read_text,
    "description": _read_text,
    "examples": _read_text,
    "parameters": read_parameters,
    "stateful": read_flag,
    "one_shot": read_flag,
    "actions": _read_actions,
    "output": _make_choice_reader("raw", "outcome", "events"),
    "on_turn_end": _make_choice_reader("abort", "await", "keep", "inquire"),
    "notify": read_notify,
    "on_disconnect": _make_choice_reader("keep", "abort"),
    "annotations": _read_annotations,
    "verbs": _read_verbs,
    "size_threshold": read_size,
    "env": _read_env,
    "cwd": read_template,
    "rows": _read_extent,
    "cols": _read_extent,
    "limits": _read_limits,
    "may": _read_may,
    "enable": _read_enable,
    "run": _read_run,
    "result": _make_choice_reader(*_MODES),
    "questions": _read_questions,
    "options": _read_table,
    "access": read_access,
    "sandbox": read_sandbox,
    "unsafe": read_flag,
    "style": _read_style,
    "format": _read_any,
    "cancellation_response": _read_any,
}
_KEPT = ("format", "cancellation_response")
_NOT_THE_TOOLS = (*_KEPT, "sandbox")
_OF_PROGRAMS = ("command", "env", "cwd", "rows", "cols", "output")


def assemble(name: str, file: str, line: int | None, read: Mapping[str, Any]) -> Tool:
    """Build a tool; raises `InvalidField` for fields that conflict."""
    values = {key: value for key, value in read.items() if key not in _NOT_THE_TOOLS}
    source = values.get("source", "local")
    if source == "local" and "command" not in values:
        raise invalid_field("a local tool needs a `command`", "command")
    if source.startswith("mcp.") and (more := values.get("limits", {}).keys() - {"wall_s"}):
        raise invalid_field(
            "a call of a server can have only the limit wall_s", "limits", sorted(more)[0]
        )
    command: Command | None = values.get("command")
    if source != "local":
        values.pop("runtime", None)
    elif "runtime" not in values and command and command.names_module:
        values["runtime"] = "wasm"
    _check_module(values)
    stateful = values.get("stateful", "actions" in values)
    if "actions" in values and not stateful:
        raise invalid_field("only a tool with stateful = true has actions", "actions")
    if values.get("one_shot") and not stateful:
        raise invalid_field(
            "only a tool with stateful = true has it: any other runs to its end", "one_shot"
        )
    if values.get("one_shot") and values.get("runtime") == "pty":
        raise invalid_field(
            "a tool on a terminal cannot run to its end: nobody types there", "one_shot"
        )
    if stateful:
        values.setdefault("actions", ACTIONS)
    if values.get("runtime") == MEDIATED and values.setdefault("output", "events") != "events":
        raise invalid_field('a mediated tool (`runtime = "vfs"`) has the output "events"', "output")
    plain = stateful or values.get("runtime", "stdio") not in ("stdio", "wasm")
    values.setdefault("output", "raw" if plain else "outcome")
    if values["output"] != "raw" and values.get("runtime", "stdio") == "pty":
        raise invalid_field("the output of a terminal is always raw", "output")
    if values.get("result", "unattended") != "unattended" and values.get("runtime") == "pty":
        raise invalid_field(
            "the output of a terminal is visible immediately, so its result cannot be reviewed",
            "result",
        )
    values["stateful"] = stateful
    values["has_parameters"] = "parameters" in values
    kept = {key: read[key] for key in _KEPT if key in read}
    try:
        return Tool(name=name, file=file, line=line, kept=kept, **values)
    except SchemaError as error:
        raise invalid_field(
            f"it does not make a schema: {error}", "parameters", *error.path
        ) from None


def _check_module(values: Mapping[str, Any]) -> None:
    """Raise `InvalidField` for a shell script as a WebAssembly module, or fuel elsewhere."""
    if values.get("runtime") != "wasm":
        is_mediated = values.get("runtime") == MEDIATED and values["command"].names_module
        if "fuel" in values.get("limits", {}) and not is_mediated:
            why = 'only a module of WebAssembly (`runtime = "wasm"`) uses fuel; a program has cpu_s'
            raise invalid_field(why, "limits", "fuel")
        return
    command: Command = values["command"]
    if command.shell is not None:
        raise invalid_field("a WebAssembly module is not a shell script", "command")


def find_remarks(tool: Tool, read: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and text of each remark on fields without an effect, and on a tool that cannot be
    called."""
    if tool.source != "local" and "runtime" in read:
        yield ("runtime",), "it is ignored: only local tools have a runtime"
    if tool.source.startswith("mcp."):
        for name in _OF_PROGRAMS:
            if name in read:
                yield (name,), "it is ignored: the server's `[mcp.<name>]` defines how it is run"
        return
    if tool.enable != "off" and (why := tool.unserved):
        yield (
            ("source" if tool.source != "local" else "runtime",),
            f"the tool cannot be called: {why}",
        )
    for name in _find_unfit_defaults(tool.parameters):
        why = (
            f"the parameter `{name}` does not accept its own default, which is therefore never used"
        )
        yield ("parameters", name, "default"), why


def _find_unfit_defaults(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parameters with a default that violates the schema; `null` stands for none."""
    shared = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
    for name, form in parameters.get("properties", {}).items():
        default = form.get("default") if isinstance(form, Mapping) else None
        if default is None:
            continue
        try:
            validator = compile_schema({"properties": {name: form}, **shared})
            fits = validator.is_valid({name: default})
        except ValueError:  # a reference into the rest of the schema
            continue
        if not fits:
            yield name
