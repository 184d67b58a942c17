"""Parser of a definition's `command` and template strings, checked as far as is possible without
arguments."""

from __future__ import annotations

from typing import Any

from haft_protocol.errors import shown
from haftd.tools.templates import shelltext, template, words

from .definition import Command, Each
from .parameters import invalid_field

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


def read_template(value: object, *path: str) -> str:
    """Return a checked template string. Raises `InvalidField` at `path`, the keys inside the field."""
    if not isinstance(value, str):
        raise invalid_field("it must be a string", *path)
    if "\0" in value:
        raise invalid_field("it contains a NUL byte", *path)
    try:
        template.check(value)
    except template.BadTemplate as error:
        hint = "; put quotes around a word that has {% … %} in it" if "{%" in value else ""
        raise invalid_field(f"its template {shown(value)} is wrong: {error}{hint}", *path) from None
    return value


def _read_word(value: object, *path: str) -> str | Each:
    if isinstance(value, dict):
        if set(value) != {"each"} or not isinstance(value["each"], str):
            raise invalid_field('a table in a command is { each = "expression" }', *path)
        try:
            template.check_expression(value["each"])
        except template.BadTemplate as error:
            raise invalid_field(
                f"its expression {shown(value['each'])} is wrong: {error}", *path
            ) from None
        return Each(value["each"])
    return read_template(value, *path)


def _split(value: str) -> tuple[str, ...]:
    try:
        return tuple(read_template(word) for word in words.split(value))
    except words.BadWords as error:
        raise invalid_field(f"it cannot be split into words: {error}") from None


def read_command(value: object) -> Command:
    """Parse a command: a string, an array of words, or a table. Raises `InvalidField`."""
    match value:
        case str():
            argv: tuple[str | Each, ...] = _split(value)
        case list():
            argv = tuple(_read_word(item, str(at)) for at, item in enumerate(value))
        case dict():
            return _read_command_table(value)
        case _:
            raise invalid_field(
                "it must be a string, an array, or a table of `program`, `args` and `shell`"
            )
    if not argv or argv[0] == "":
        raise invalid_field("it does not name a program")
    return Command(argv)


def _read_command_table(value: dict[str, Any]) -> Command:
    if unknown := sorted(set(value) - {"program", "args", "shell"}):
        raise invalid_field("a command can have `program`, `args` and `shell`", unknown[0])
    program = value.get("program")
    if not isinstance(program, str) or not program.strip():
        raise invalid_field("it must name a program", "program")
    args = value.get("args", [])
    if not isinstance(args, list):
        raise invalid_field("it must be an array", "args")
    tail = tuple(_read_word(item, "args", str(at)) for at, item in enumerate(args))
    shell = value.get("shell", False)
    if shell is False:
        return Command((read_template(program, "program"), *tail))
    if shell is not True and shell not in _SHELLS:
        raise invalid_field(f"it must be true, false, or one of {', '.join(_SHELLS)}", "shell")
    command = Command((read_template(program, "program"), *tail), "sh" if shell is True else shell)
    _check_script(command)
    return command


def _check_script(command: Command) -> None:
    """Check that values in the shell script cannot become script text.

    An `each` word counts as any value; statements and comments have none.
    """
    try:
        templates = [word if isinstance(word, str) else "{{ tool }}" for word in command.words]
        script, spans = words.replace_spans(" ".join(templates))
        for number, span in enumerate(spans):
            is_value = span.startswith("{{")
            if not is_value:
                script = script.replace(f"{words.OPEN}{number}{words.CLOSE}", "")
        shelltext.place(script)
    except (words.BadWords, shelltext.BadScript) as error:
        raise invalid_field(f"its script cannot be used: {error}", "program") from None
