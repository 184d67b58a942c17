"""Templates of definitions (minijinja), rendered for programs without escapes.
Scalars render plainly, lists and tables as JSON, undefined values as `null`; one template is one
argument. Errors never contain values. Globals are `tool` and `context`; functions:
- `split(text)`: words by shell quoting, without expansion.
- `script(text)`: arguments that run a script with bash, else sh; long scripts in parts.
- `which(name, …)`: path of the first program that exists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import minijinja
import msgspec

from haft_protocol.ellipsis import shorten
from haftd.lazy_pattern import lazy_pattern

from .words import CLOSE, OPEN, BadWords, replace_spans, split_words

MAX_ARGUMENT = 131_071
"""Bytes of one argument or variable (MAX_ARG_STRLEN less the NUL)."""

MAX_COMMAND = 2 * 1024 * 1024
"""Bytes of a command text: the limit for all arguments of a process."""

_PART = 100_000
_JOIN = 'IFS=; HAFT_SCRIPT="$*"; unset IFS; set --; eval "unset HAFT_SCRIPT; $HAFT_SCRIPT"'
"""Joins the parts and runs them; keeps the script's first line first."""

_FUEL = 250_000
"""minijinja fuel: steps, plus the length of each constructed text; some ten milliseconds."""

# Without `namespace`: one that contains itself crashes the process when rendered.
_GLOBALS = frozenset(
    {"tool", "context", "split", "script", "which", "range", "dict", "cycler", "joiner"}
)


_MAX_SPAN_LENGTH = 2_000
_MAX_STATEMENTS = 500
_ARGUMENT = lazy_pattern(r"tool\.arguments\.([A-Za-z_][A-Za-z0-9_]*)")
_RAW = lazy_pattern(r"\{%[-+]?\s*raw\b")

_MAX_GROWTH = 64
"""Limit on a value's copies in later values."""

_TEXT = lazy_pattern(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_MAKING = lazy_pattern(r"\{%[-+]?\s*(set|with|for|macro|call)\b")
_STATEMENT = lazy_pattern(r"\{%[-+]?\s*(\w*)")
_NAME = lazy_pattern(r"(?<![\w.|])(?<!\|\s)[^\W\d]\w*(?!\w)")
_WORDS = frozenset(["and", "else", "if", "is", "or"])
"""Keywords that minijinja accepts as targets of `set`."""
_NO_NAMES = _WORDS | {"false", "in", "none", "not", "true"}
_WORD_SET = lazy_pattern(r"(?<![\w.])(and|else|if|is|or)\s*(?:[,)]|=(?!=))")
_IN = lazy_pattern(r"\bin\b")
_REPEATED = lazy_pattern(r"\]\s*\*|\*\s*\[")


class BadTemplate(ValueError):
    """Invalid template; the message has no values."""


class ArgumentRefused(ValueError):
    pass


def decode_text(value: object) -> str:
    match value:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case str():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()


def _environment(finalizer: Callable[[Any], str]) -> minijinja.Environment:
    return minijinja.Environment(
        finalizer=finalizer,
        undefined_behavior="chainable",
        auto_escape_callback=lambda _name: False,
        keep_trailing_newline=True,
        debug=False,
        fuel=_FUEL,
    )


_PLAIN = _environment(decode_text)


def _command_text(function: str, text: object) -> str:
    if not isinstance(text, str):
        raise ArgumentRefused(f"`{function}` takes a string")
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_COMMAND:
        raise ArgumentRefused(
            f"a command text of {size} bytes is too long: the limit is {MAX_COMMAND}"
        )
    return text


def _split(text: object) -> list[str]:
    text = _command_text("split", text)
    try:
        return split_words(text)
    except BadWords as error:
        raise ArgumentRefused(f"the string cannot be split into words: {error}") from None


def _parts(text: str) -> list[str]:
    if text.isascii():
        return [text[at : at + _PART] for at in range(0, len(text), _PART)]
    width = _PART // 4
    return [text[at : at + width] for at in range(0, len(text), width)]


class Scope:
    """Globals of one call: `tool`, `context`, and programs on `path`."""

    def __init__(self, tool: Mapping[str, Any], context: Mapping[str, Any], path: str) -> None:
        self.path = path
        self.arguments: Mapping[str, Any] = tool.get("arguments", {})
        self.variables: dict[str, Any] = {
            "tool": dict(tool),
            "context": dict(context),
            "split": _split,
            "script": self._script,
            "which": self._which,
        }

    def _find(self, name: str) -> str | None:
        for folder in self.path.split(os.pathsep):
            if not folder.startswith("/"):
                continue  # empty entries and `.` mean the working folder: never
            candidate = f"{folder}/{name}"
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
                return candidate
        return None

    def _which(self, *names: str) -> str:
        for name in names:
            if (program := self._find(str(name))) is not None:
                return program
        raise ArgumentRefused(
            f"none of these programs is installed: {', '.join(map(str, names))} (PATH is {self.path!r})"
        )

    def _script(self, text: object) -> list[str]:
        text = _command_text("script", text)
        shell = self._find("bash") or "sh"
        if len(text.encode(errors="surrogatepass")) <= MAX_ARGUMENT:
            # The shell would read a leading `-` or `+` as options.
            return [shell, "-c", f" {text}" if text.startswith(("-", "+")) else text]
        return [shell, "-c", _JOIN, shell, *_parts(text)]


def _message_of(error: minijinja.TemplateError) -> str:
    if error.kind == "OutOfFuel":
        return "it takes too many steps"
    return shorten(error.detail or error.kind or "it cannot be rendered", 200)


def render(source: str, scope: Scope) -> str:
    """Render a template; raises `BadTemplate`, `ArgumentRefused`."""
    if "{" not in source:
        return source
    if source.startswith("{{") and source.endswith("}}"):
        text = value_of(source, scope) if _expression(source) is not None else None
        if text is not None:
            return text
    try:
        return _PLAIN.render_str(source, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_message_of(error)) from None


@lru_cache(maxsize=1024)
def _expression(source: str) -> str | None:
    inner = source.strip()
    if inner.startswith("{{") and replace_spans(inner)[0] == f"{OPEN}0{CLOSE}":
        return inner[2:-2].strip("-+ \n\t")
    return None


@lru_cache(maxsize=1024)
def _argument_name(expression: str) -> str | None:
    match = _ARGUMENT.fullmatch(expression)
    return None if match is None else match[1]


def argument_of(source: str) -> str | None:
    """Return the argument whose value a text is: `{{ tool.arguments.NAME }}`; None for any other text."""
    expression = _expression(source)
    return None if expression is None else _argument_name(expression)


def value_of(source: str, scope: Scope) -> str | None:
    """Render as `render` does; None for a single expression without a value."""
    expression = _expression(source)
    if expression is None:
        return render(source, scope)
    name = _argument_name(expression)
    if name is not None:
        text = scope.arguments.get(name)
        if type(text) is str and text.isascii():
            return text  # as minijinja does, in a tenth of its time
    try:
        value = _PLAIN.eval_expr(expression, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_message_of(error)) from None
    return None if value is None else decode_text(value)


def spread(expression: str, scope: Scope) -> list[str]:
    """Render a list's items; a scalar is one item, an undefined value none."""
    try:
        value = _PLAIN.eval_expr(expression, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_message_of(error)) from None
    if value is None:
        return []
    if isinstance(value, Mapping):
        raise ArgumentRefused(f"`each = {expression!r}` is a table; `each` takes an array")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [decode_text(item) for item in value]
    return [decode_text(value)]


def render_script(source: str, scope: Scope, first: int = 0) -> tuple[str, list[str]]:
    """Render a script with placeholders numbered from `first`; return the script and the values in order."""
    values: list[str] = []

    def keep(value: object) -> str:
        text = decode_text(value)
        for number, earlier in enumerate(values):  # a captured block contains placeholders
            text = text.replace(f"{OPEN}{first + number}{CLOSE}", earlier)
        values.append(text)
        return f"{OPEN}{first + len(values) - 1}{CLOSE}"

    try:
        return _environment(keep).render_str(source, **scope.variables), values
    except minijinja.TemplateError as error:
        raise BadTemplate(_message_of(error)) from None


def check(source: str) -> None:
    """Raise `BadTemplate` for syntax errors and unknown names."""
    if "{" in source:  # before the cache: the value of a variable may be secret
        _check(source)


@lru_cache(maxsize=4096)
def _check(source: str) -> None:
    _refuse_too_deep(source)
    _refuse_growth(source)
    try:
        # Not `_PLAIN`, held by rendering: this may run in a thread.
        checking = minijinja.Environment()
        names = checking.undeclared_variables_in_str(source)
        checking.add_template("it", source)
    except minijinja.TemplateError as error:
        raise BadTemplate(_message_of(error)) from None
    if unknown := sorted(names - _GLOBALS):
        raise BadTemplate(f"it names `{unknown[0]}`; a template can use `tool` and `context`")


def _refuse_too_deep(source: str) -> None:
    """Bound the parser's recursion: 15,000 levels take a second, more overflow the stack."""
    spans = _spans(source) or [source]
    if any(len(span) > _MAX_SPAN_LENGTH and span[:2] != "{#" for span in spans):
        raise BadTemplate(f"one of its expressions is longer than {_MAX_SPAN_LENGTH} characters")
    if sum(span[:2] == "{%" for span in spans) > _MAX_STATEMENTS:
        raise BadTemplate(f"it has more than {_MAX_STATEMENTS} statements")


def _refuse_growth(source: str) -> None:
    """Refuse lists that double: forty cheap steps render for hours without fuel."""
    spans = _spans(source)
    if spans is None:
        if statement := _MAKING.search(source):
            raise BadTemplate(
                f"where `{statement[1]}` is, templates cannot be told from text: do without `raw` "
                "and private-use characters, and close what opens"
            )
        spans = [source]
    growth = 1
    for span in spans:
        code = _TEXT.sub("''", span)
        statement = _STATEMENT.match(code)
        kind = statement[1] if statement else ""
        if kind in ("macro", "call") or (kind == "for" and re.search(r"\brecursive\b", code)):
            raise BadTemplate(f"it may call itself (`{kind}`), which a template must not")
        if _REPEATED.search(code):
            raise BadTemplate("it repeats a list with `*`, which a template must not")
        if kind not in ("set", "with", "for"):
            continue
        target, value = [*(_IN.split(code, 1) if kind == "for" else code.split("=", 1)), ""][:2]
        # The target of `with` is its first word; a word before `,`, `)` or `=` is not an operator.
        if words := _WORDS.intersection(_NAME.findall(target)) or set(_WORD_SET.findall(code)):
            raise BadTemplate(f"`{min(words)}` cannot be set")
        names = sum(name not in _NO_NAMES for name in _NAME.findall(value))
        # Later parts of a `with` may use its earlier parts.
        growth *= 2**names if kind == "with" else max(1, names)
        if growth > _MAX_GROWTH:
            raise BadTemplate(
                f"a value that it sets can contain its previous value more than {_MAX_GROWTH} times; "
                "name fewer values in its `set`, `with` and `for`"
            )


def _spans(source: str) -> list[str] | None:
    """Return the template spans; None if unclear: braces within `raw` open nothing."""
    if _RAW.search(source):
        return None
    try:
        return replace_spans(source)[1]
    except BadWords:
        return None


def check_expression(expression: str) -> None:
    """Raise `BadTemplate` for a syntax error in an `each`."""
    source = "{{ " + expression + " }}"
    try:
        single = replace_spans(source)[0] == f"{OPEN}0{CLOSE}"
    except BadWords as error:
        raise BadTemplate(str(error)) from None
    if not single:
        raise BadTemplate("it is not a single expression")
    check(source)
