"""Validation of a call's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haft_protocol.errors import invalid_arguments
from haftd.schemas import validation
from haftd.tools.definitions.definition import NO_PARAMETERS, Tool


def check(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the coerced arguments; raises `RpcError` (-32003)."""
    if args and tool.parameters == NO_PARAMETERS and not tool.parameters_given:
        at = tool.file if tool.line is None else f"{tool.file}:{tool.line}"
        why = f"the tool takes no arguments; to give it some, add `parameters` to its definition at {at}"
        raise invalid_arguments(
            tool.name,
            [{"path": validation.path_text([name]), "message": why} for name in list(args)[:1]],
        )
    return validation.check(tool.name, args, tool.parameters, tool.validator)
