"""`python -m tests.fixed_values`: record the numbers that are decisions: limits, times, switches and defaults.

Rules: the values are those of the imported modules. Recorded are constants of modules and classes, defaults of fields and
of parameters, the options of structs, and the words that each command takes; not those that the system gives, as numbers
of signals, nor JSON Schemas.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any

import msgspec

from haft.cli import COMMANDS
from haft.cli.parsers import command_parser, top_parser

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "fixed_values.txt"
_SOURCES = ("daemon/haftd", "protocol/haft_protocol", "clients/haft")
_OPTIONS = ("array_like", "forbid_unknown_fields", "kw_only", "omit_defaults", "order")
_MAX_TEXT = 30
_CONSTANT = re.compile(r"^(\w+)(?:: [^=\n]+)? = (.*\n(?:[ )\]}].*\n)*)", re.MULTILINE)
_EMPTY = ("{}", "[]")
_GLOBAL = re.compile(r"^ +global (.+)$", re.MULTILINE)
_LITERAL = re.compile(r"""Meta\(|frozenset\(|#.*|"[^"\n]*"|'[^'\n]*'""")
_COMPUTED = re.compile(r"\w\(|[a-z_]\.[a-z]", re.IGNORECASE)
_OF_PYTHON = re.compile(r"__|_is_protocol")
_MARK_OF_SCHEMA = "'description': "
_ANNOTATED = type(Annotated[int, 0])


def fixed_values() -> dict[str, str]:
    """Return the values by dotted name, in the order of names."""
    found: dict[str, str] = {}
    for source in _SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            parts = path.relative_to((ROOT / source).parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            module = import_module(name)
            for key, value in (*_constants(path, module), *_members(module, name, "")):
                if text := _shown(value):
                    found[f"{name}.{key}"] = text
    of_all = dict(_words("", top_parser()))
    found |= {f"haft{word}": text for word, text in of_all.items()}
    for name in COMMANDS:
        words = _words("", command_parser(name))
        found |= {f"haft {name}{word}": text for word, text in words if of_all.get(word) != text}
    return dict(sorted(found.items()))


def read_record() -> dict[str, str]:
    """Return the recorded values by dotted name."""
    lines = RECORDED.read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines)


def _constants(path: Path, module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the constants of a module that neither the system nor code gives."""
    text = path.read_text()
    variables = {name.strip() for names in _GLOBAL.findall(text) for name in names.split(",")}
    for name, value in _CONSTANT.findall(text):
        if (
            value.strip() not in _EMPTY
            and name not in variables
            and name != "TYPE_CHECKING"
            and not _COMPUTED.search(_LITERAL.sub("", value))
        ):
            yield name, getattr(module, name, None)


def _members(owner: Any, module: str, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield the values of a module's or a class's functions and classes."""
    for key, member in vars(owner).items():
        if key == "__init__" and dataclasses.is_dataclass(owner):
            continue
        name = f"{prefix}{key}"
        if isinstance(member, type) and member.__module__ == module:
            yield from _fields(member, name)
            yield from _members(member, module, f"{name}.")
            continue
        function = getattr(member, "__func__", member)
        if callable(function):
            function = inspect.unwrap(function)
        if isinstance(function, FunctionType) and function.__module__ == module:
            yield from ((f"{name}.{parameter}", value) for parameter, value in _defaults(function))
        elif isinstance(owner, type) and not issubclass(owner, Enum) and not _OF_PYTHON.match(key):
            yield name, member


def _words(command: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the words and options of a command, with how each is read; `exclusive` are groups of which one may be given."""
    for action in parser._actions:
        name = " ".join(action.option_strings) or str(action.metavar or action.dest)
        facts: dict[str, object] = {"as": type(action).__name__.strip("_"), "to": action.dest}
        facts |= {
            key: getattr(action, key, None) for key in ("nargs", "const", "default", "choices")
        }
        facts |= {"required": action.required, "type": _reader(action.type)}
        shown = {key: value for key, value in facts.items() if value not in (None, "==SUPPRESS==")}
        yield f"{command} {name}", _text(shown)
    for number, group in enumerate(parser._mutually_exclusive_groups):
        members = [action.option_strings[-1:] or [action.dest] for action in group._group_actions]
        yield f"{command} exclusive {number}", _text((group.required, members))


def _reader(read: object) -> object:
    """Return the name of the function that reads a word, with its bounds."""
    if not isinstance(read, FunctionType):
        return getattr(read, "__name__", None)
    bounds = [cell.cell_contents for cell in read.__closure__ or ()]
    return (read.__qualname__, *(bound for bound in bounds if isinstance(bound, int)))


def _defaults(function: FunctionType) -> Iterator[tuple[str, object]]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    yield from zip(names, defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _fields(found: type, name: str) -> Iterator[tuple[str, object]]:
    own = vars(found).get("__annotations__", {})
    if issubclass(found, msgspec.Struct):
        config, defaults = found.__struct_config__, found.__struct_defaults__
        options = {option: True for option in _OPTIONS if getattr(config, option, False)}
        yield name, options | ({} if config.eq else {"eq": False})
        fields = found.__struct_fields__[-len(defaults) :] if defaults else ()
        for field, default in zip(fields, defaults, strict=True):
            if field in own:
                yield f"{name}.{field}", default
    elif issubclass(found, Enum):
        yield name, {member.name: member.value for member in found}
    elif dataclasses.is_dataclass(found):
        yield from ((f"{name}.{each.name}", each.default) for each in dataclasses.fields(found))


def _shown(value: object) -> str:
    """Return the text of a value that contains a number or a switch, else an empty one."""
    if type(value) not in (int, float, bool, tuple, list, dict, set, frozenset):
        text = repr(value) if type(value) is _ANNOTATED else ""
        return text if "Meta(" in text else ""
    if not any(type(part) in (int, float, bool) for part in _parts(value)):
        return ""
    text = _text(value)
    return "" if _MARK_OF_SCHEMA in text else text


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _text(value: object) -> str:
    """Return a value as text, in the same order each time; long texts within are left out."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {_text(value[key])}" for key in value) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(_text, value))) + "}"
        case tuple() | list():
            return "(" + ", ".join(map(_text, value)) + ")"
        case str() | bytes() if len(value) > _MAX_TEXT:
            return "..."
    return repr(value)


if __name__ == "__main__":
    values = fixed_values()
    RECORDED.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    sys.stderr.write(f"{RECORDED.name}: {len(values)} values\n")
