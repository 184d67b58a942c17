"""Templates of definitions: minijinja, with values written as tools expect them.

Rules: a scalar is written plainly, a list or table as JSON, what is not there as `null`; nothing is
escaped and nothing is ever split: one template is one argument, whatever is in it. A template knows
`tool` and `context`, and these functions:

- `split(text)`: the words of a text, as a shell would cut it; nothing is expanded.
- `script(text)`: the arguments that run a text by bash, or by sh where there is no bash; a text
  longer than one argument may be is handed over in parts.
- `which(name, …)`: the path of the first of these programs that there is.

No message of this room shows a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import minijinja
import msgspec

from .words import CLOSE, OPEN, BadWords, cut, mark_spans

MAX_ARGUMENT = 131_071
"""The longest single argument or environment value in bytes (MAX_ARG_STRLEN less the NUL)."""

MAX_COMMAND = 2 * 1024 * 1024
"""The longest command text in bytes: all arguments of a process together may not be longer."""

_PART = 100_000
_JOIN = 'IFS=; HAFT_SCRIPT="$*"; unset IFS; set --; eval "unset HAFT_SCRIPT; $HAFT_SCRIPT"'
"""Joins the parts and runs them. The first line of the script stays the first line."""

_FUEL = 250_000
"""Steps, and texts that are made weigh as many as they are long for: some ten milliseconds."""

# `namespace` is none of them: one can be put into itself, and writing that ends the process.
_KNOWN = frozenset(
    {
        "tool",
        "context",
        "split",
        "script",
        "which",
        "range",
        "dict",
        "cycler",
        "joiner",
    }
)


_MAX_SPAN_LENGTH = 2_000
_MAX_STATEMENTS = 500
_RAW = re.compile(r"\{%[-+]?\s*raw\b")

_MAX_GROWTH = 64
"""How often what a template sets may be in what it sets next, all in all."""

_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_MAKING = re.compile(r"\{%[-+]?\s*(set|with|for|macro|call)\b")
_STATEMENT = re.compile(r"\{%[-+]?\s*(\w*)")
_NAME = re.compile(r"(?<![\w.|])(?<!\|\s)[^\W\d]\w*(?!\w)")
_WORDS = frozenset(["and", "else", "if", "is", "or"])
"""Words of expressions that what reads templates lets be set, as if they were names."""
_NO_NAMES = _WORDS | {"false", "in", "none", "not", "true"}
_WORD_SET = re.compile(r"(?<![\w.])(and|else|if|is|or)\s*(?:[,)]|=(?!=))")
_IN = re.compile(r"\bin\b")
_REPEATED = re.compile(r"\]\s*\*|\*\s*\[")


class BadTemplate(ValueError):
    """The template itself is wrong; the message says how, without any value."""


class Refused(ValueError):
    """A function of a template cannot take what it was given; the message says why."""


def text_of(value: object) -> str:
    """A value as a template writes it."""
    match value:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case str():
            return str(value)
        case int() | float():
            return msgspec.json.encode(value).decode()
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


_PLAIN = _environment(text_of)


def _command_text(function: str, text: object) -> str:
    if not isinstance(text, str):
        raise Refused(f"`{function}` takes a text")
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_COMMAND:
        raise Refused(f"a command text of {size} bytes is too long: the limit is {MAX_COMMAND}")
    return text


def _split(text: object) -> list[str]:
    text = _command_text("split", text)
    try:
        return cut(text)
    except BadWords as error:
        raise Refused(f"the text cannot be split into words: {error}") from None


def _parts(text: str) -> list[str]:
    """Cut a text into pieces of less than one argument's length, never inside a character."""
    if text.isascii():
        return [text[at : at + _PART] for at in range(0, len(text), _PART)]
    width = _PART // 4
    return [text[at : at + width] for at in range(0, len(text), width)]


class Scope:
    """What a template sees in one call: `tool`, `context`, and programs as found on `path`."""

    def __init__(self, tool: Mapping[str, Any], context: Mapping[str, Any], path: str) -> None:
        self.path = path
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
                continue  # an empty entry or `.` would be the working folder: never
            candidate = f"{folder}/{name}"
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
                return candidate
        return None

    def _which(self, *names: str) -> str:
        for name in names:
            if (found := self._find(str(name))) is not None:
                return found
        raise Refused(
            f"none of these programs is installed: {', '.join(map(str, names))} (PATH is {self.path!r})"
        )

    def _script(self, text: object) -> list[str]:
        text = _command_text("script", text)
        shell = self._find("bash") or "sh"
        if len(text.encode(errors="surrogatepass")) <= MAX_ARGUMENT:
            # A leading `-` or `+` would be read as options of the shell.
            return [shell, "-c", f" {text}" if text.startswith(("-", "+")) else text]
        return [shell, "-c", _JOIN, shell, *_parts(text)]


def _said(error: minijinja.TemplateError) -> str:
    if error.kind == "OutOfFuel":
        return "it takes too many steps"
    return (error.detail or error.kind or "it cannot be rendered")[:200]


def render(source: str, scope: Scope) -> str:
    """Fill a template in; raises `BadTemplate`, `Refused`."""
    if "{" not in source:
        return source
    try:
        return _PLAIN.render_str(source, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_said(error)) from None


@lru_cache(maxsize=1024)
def _expression(source: str) -> str | None:
    """The expression that is all there is in the source, if it is one."""
    inner = source.strip()
    if inner.startswith("{{") and mark_spans(inner)[0] == f"{OPEN}0{CLOSE}":
        return inner[2:-2].strip("-+ \n\t")
    return None


def value_of(source: str, scope: Scope) -> str | None:
    """Like `render`, but None where the whole source is one expression and what it names is not
    there: for fields whose absence means something of its own."""
    expression = _expression(source)
    if expression is None:
        return render(source, scope)
    try:
        value = _PLAIN.eval_expr(expression, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_said(error)) from None
    return None if value is None else text_of(value)


def spread(expression: str, scope: Scope) -> list[str]:
    """The items of a list, each as text; nothing for what is not there, one for a scalar."""
    try:
        value = _PLAIN.eval_expr(expression, **scope.variables)
    except minijinja.TemplateError as error:
        raise BadTemplate(_said(error)) from None
    if value is None:
        return []
    if isinstance(value, Mapping):
        raise Refused(f"`each = {expression!r}` is a table; it takes a list")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text_of(item) for item in value]
    return [text_of(value)]


def render_script(source: str, scope: Scope, first: int = 0) -> tuple[str, list[str]]:
    """Fill a script in, with marks in place of values; returns it and the values in their order.

    The numbers of the marks begin with `first`. See `shelltext` for what becomes of them.
    """
    values: list[str] = []

    def keep(value: object) -> str:
        text = text_of(value)
        for number, earlier in enumerate(values):  # a captured block holds marks itself
            text = text.replace(f"{OPEN}{first + number}{CLOSE}", earlier)
        values.append(text)
        return f"{OPEN}{first + len(values) - 1}{CLOSE}"

    try:
        return _environment(keep).render_str(source, **scope.variables), values
    except minijinja.TemplateError as error:
        raise BadTemplate(_said(error)) from None


@lru_cache(maxsize=4096)
def check(source: str) -> None:
    """Raise `BadTemplate` when the template cannot be parsed or names what it cannot know."""
    if "{" not in source:
        return
    _refuse_too_deep(source)
    _refuse_growth(source)
    try:
        # Not `_PLAIN`: this may run in a thread, and who fills in holds that one while Python runs.
        checking = minijinja.Environment()
        names = checking.undeclared_variables_in_str(source)
        checking.add_template("it", source)
    except minijinja.TemplateError as error:
        raise BadTemplate(_said(error)) from None
    if unknown := sorted(names - _KNOWN):
        raise BadTemplate(f"it names `{unknown[0]}`; a template knows `tool` and `context`")


def _refuse_too_deep(source: str) -> None:
    """What parses templates goes as deep as an expression, or a row of `elif`, is long: a second of
    work at 15,000 steps, and the end of the process at some more."""
    spans = _spans(source) or [source]
    if any(len(span) > _MAX_SPAN_LENGTH and span[:2] != "{#" for span in spans):
        raise BadTemplate(f"one of its expressions is longer than {_MAX_SPAN_LENGTH} characters")
    if sum(span[:2] == "{%" for span in spans) > _MAX_STATEMENTS:
        raise BadTemplate(f"it has more than {_MAX_STATEMENTS} statements")


def _refuse_growth(source: str) -> None:
    """A list that holds another twice is made in a step, and written in as many as it then has: forty
    such steps hold the loop for hours, and no fuel is counted for them."""
    spans = _spans(source)
    if spans is None:
        if found := _MAKING.search(source):
            raise BadTemplate(
                f"where `{found[1]}` stands it cannot be told what is a template: do without `raw` "
                "and private-use characters, and close what opens"
            )
        spans = [source]
    growth = 1
    for span in spans:
        code = _TEXT.sub("''", span)
        found = _STATEMENT.match(code)
        kind = found[1] if found else ""
        if kind in ("macro", "call") or (kind == "for" and re.search(r"\brecursive\b", code)):
            raise BadTemplate(f"it may call itself (`{kind}`), which a template may not")
        if _REPEATED.search(code):
            raise BadTemplate("it repeats a list by `*`, which a template may not")
        if kind not in ("set", "with", "for"):
            continue
        target, made = [*(_IN.split(code, 1) if kind == "for" else code.split("=", 1)), ""][:2]
        # Of a `with` the target is but its first; a word before `,`, `)` or `=` is no operator.
        if words := _WORDS.intersection(_NAME.findall(target)) or set(_WORD_SET.findall(code)):
            raise BadTemplate(f"`{min(words)}` is no name to set")
        names = sum(name not in _NO_NAMES for name in _NAME.findall(made))
        # Of what one `with` makes, the next part of it may be made.
        growth *= 2**names if kind == "with" else max(1, names)
        if growth > _MAX_GROWTH:
            raise BadTemplate(
                f"what it sets can be in what it sets next more than {_MAX_GROWTH} times; "
                "name fewer values in its `set`, `with` and `for`"
            )


def _spans(source: str) -> list[str] | None:
    """The templates of a source, None where they cannot be told: braces within `raw` open nothing."""
    if _RAW.search(source):
        return None
    try:
        return mark_spans(source)[1]
    except BadWords:
        return None


def check_expression(expression: str) -> None:
    """Raise `BadTemplate` when the expression of an `each` cannot be parsed."""
    source = "{{ " + expression + " }}"
    try:
        single = mark_spans(source)[0] == f"{OPEN}0{CLOSE}"
    except BadWords as error:
        raise BadTemplate(str(error)) from None
    if not single:
        raise BadTemplate("it is no single expression")
    check(source)
