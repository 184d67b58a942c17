"""Find the one-line faults that a source can have, and draw some of all of them.

Rules: pure, and the same for the same sources and seed. A line is drawn first, each line of the product with
the same chance, then one of its faults, so that a dense line counts once. Docstrings, type annotations, imports,
`__all__`, `__slots__`, `frozen` and `slots` have no faults: no test can see those.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "+",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A fault's name, which holds while the line does, wherever in its scope the line stands."""

    file: str
    scope: str
    """The innermost function or class; empty outside of any."""
    line: str
    was: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: the text between two byte offsets of a file becomes another."""

    file: Path
    line: int
    start: int
    stop: int
    text: str
    was: str

    def shown(self, root: Path) -> str:
        """Return the fault in one line; `root` is the folder that its path is below."""
        return f"{self.file.relative_to(root)}:{self.line}: {self.was!r} -> {self.text!r}"

    def applied(self, source: bytes) -> bytes:
        """Return the source with this fault."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def key(self, root: Path) -> Key:
        """Return the fault's name; `root` is the folder that its path is below."""
        source = self.file.read_bytes()
        line = source.decode().splitlines()[self.line - 1].strip()
        scope = scope_at(source, self.line)
        return Key(str(self.file.relative_to(root)), scope, line, self.was, self.text)


def draw(files: Iterable[Path], count: int, seed: int) -> list[Mutant]:
    """Draw faults of as many different lines; `files` are read in the order of their names."""
    by_line: dict[tuple[Path, int], list[Mutant]] = defaultdict(list)
    sources = {file: file.read_bytes() for file in sorted(files)}
    for file, source in sources.items():
        for fault in faults_of(file, source):
            by_line[file, fault.line].append(fault)
    chance = random.Random(seed)
    lines = sorted(by_line)
    chance.shuffle(lines)
    drawn: list[Mutant] = []
    for line in lines:
        fault = chance.choice(by_line[line])
        if len(drawn) < count and _compiles(fault.applied(sources[fault.file])):
            drawn.append(fault)
    return drawn


def scope_at(source: bytes, line: int, *, of_call: bool = False) -> str:
    """Return the qualified name of the innermost function or class around a line; empty outside of any.

    `of_call` looks for functions alone, as the map of calls has them.

    >>> source = b"class Spool:\\n  size = 1\\n  def read(self):\\n    return 1"
    >>> scope_at(source, 4), scope_at(source, 2), scope_at(source, 2, of_call=True)
    ('Spool.read', 'Spool', '')
    """
    found = ""
    queue: list[tuple[ast.AST, str]] = [(ast.parse(source), "")]
    while queue:
        node, prefix = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix = f"{prefix}.{node.name}".lstrip(".")
            first, last = node.body[0].lineno, node.end_lineno or node.lineno
            # A default or a decorator is evaluated outside, but only calls of the function show the value.
            is_sought = not (of_call and isinstance(node, ast.ClassDef))
            if is_sought and min(node.lineno, first) <= line <= last:
                found = max(found, prefix, key=len)
        queue.extend((child, prefix) for child in ast.iter_child_nodes(node))
    return found


def faults_of(file: Path, source: bytes) -> list[Mutant]:
    """Return every fault of a source, in the order of its lines."""
    reader = _Source(source)
    found = []
    for node, text in _changes(reader):
        start, stop = reader.span(node)
        was = source[start:stop].decode()
        if text != was:
            found.append(Mutant(file, node.lineno, start, stop, text, was))
    return sorted(found, key=lambda one: (one.line, one.start, one.text))


class _Source:
    """A source and its tree; positions are bytes."""

    def __init__(self, source: bytes) -> None:
        self.tree = ast.parse(source)
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Return the source of a node, in parentheses unless a name or a number."""
        start, stop = self.span(node)
        text = self._source[start:stop].decode()
        is_atom = isinstance(node, ast.Name | ast.Constant | ast.Attribute | ast.Subscript)
        return text if is_atom else f"({text})"


def _changes(source: _Source) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    text = source.text
    for node in _judged(source.tree):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                yield node, f"{text(left)} {_COMPARISONS[type(op)]} {text(right)}"
            case ast.BoolOp(op=joined_by, values=values):
                word = " or " if isinstance(joined_by, ast.And) else " and "
                yield node, f"({word.join(map(text, values))})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, text(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                if not _is_text(left) and not _is_text(right):
                    yield node, f"({text(left)} {_OPERATORS[type(sign)]} {text(right)})"
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(number)):
                yield node, str(number + 1)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not isinstance(test, ast.Constant):
                    yield test, f"(not {text(test)})"
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                yield node, "pass"
            case ast.Return(value=ast.expr() as result) if not isinstance(result, ast.Constant):
                yield node, "return None"
            case ast.Break():
                yield node, "continue"
            case ast.Continue():
                yield node, "break"


def _judged(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Walk the nodes whose faults a test can see."""
    queue: list[ast.AST] = [tree]
    while queue:
        node = queue.pop()
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params"):
                continue
            children: Sequence[object] = value if isinstance(value, list) else (value,)
            queue.extend(
                child for child in children if isinstance(child, ast.AST) and not _is_unseen(child)
            )
        if isinstance(node, ast.expr | ast.stmt):
            yield node


def _is_unseen(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg="frozen" | "slots"):
            # mypy refuses an assignment to a frozen value, and slots are a matter of memory.
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
