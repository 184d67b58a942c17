"""Values in a shell script as variables, so that none becomes script text.

References suit the surrounding quotes: `"${V}"` bare, `${V}` in double quotes, `'"${V}"'` in single
quotes. A misparse can split a value or show the reference, never execute the value. Refused: places
where the shell evaluates the expansion (arithmetic, array subscripts, back quotes) or has none
(quoted here-documents). Commands may still evaluate their arguments: `eval`, `sh -c`, `ssh`, `let`,
`[[ … -eq … ]]`.
"""

from __future__ import annotations

import re

from haftd.lazy_pattern import lazy_pattern

from .words import CLOSE, OPEN

_PLACEHOLDER = lazy_pattern(f"{OPEN}(\\d+){CLOSE}")
_HEREDOC = lazy_pattern(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_SUBSCRIPT = lazy_pattern(r"[A-Za-z_]\w*\[\Z")

_REFERENCE = {
    "plain": '"${{{}}}"',
    "double": "${{{}}}",
    "here": "${{{}}}",
    "single": "'\"${{{}}}\"'",
    "ansi": "'\"${{{}}}\"$'",
    "comment": "",
}
_REFUSED = {
    "backquote": "inside back quotes; write $(…) instead",
    "arithmetic": "inside an arithmetic expression, which the shell would evaluate",
    "brace": "inside ${…}; assign it to a variable first",
    "quoted here-document": "inside a here-document with a quoted delimiter, where nothing is expanded",
}


class BadScript(ValueError):
    """Value at an unsafe place, named by the message."""


def place(script: str, name: str = "HAFT_VALUE_{}") -> str:
    """Replace the placeholders (see `words`) by references to the variables `name`."""
    return _Reader(script, name).read("plain")


class _Reader:
    def __init__(self, script: str, name: str) -> None:
        self.text = script
        self.name = name
        self.at = 0
        self.out: list[str] = []
        self.heredocs: list[tuple[str, bool, bool]] = []

    def read(self, mode: str) -> str:
        stack: list[list[str | int]] = [[mode, 0]]  # mode, and count of open brackets
        while self.at < len(self.text):
            here = str(stack[-1][0])
            if placeholder := _PLACEHOLDER.match(self.text, self.at):
                self._take_placeholder(here, placeholder[1])
                self.at = placeholder.end()
            elif not self._step(stack, here):
                self.out.append(self.text[self.at])
                self.at += 1
        return "".join(self.out)

    def _take_placeholder(self, mode: str, number: str) -> None:
        if mode in _REFUSED:
            raise BadScript(f"a template is {_REFUSED[mode]}")
        if mode == "plain" and _SUBSCRIPT.search("".join(self.out[-64:])):
            raise BadScript("a template is in an array subscript, which the shell would evaluate")
        self.out.append(_REFERENCE[mode].format(self.name.format(number)))

    def _take(self, length: int) -> bool:
        self.out.append(self.text[self.at : self.at + length])
        self.at += length
        return True

    def _step(self, stack: list[list[str | int]], mode: str) -> bool:
        """Consume a change of mode; False for an ordinary character."""
        text, at = self.text, self.at
        char = text[at]
        if mode == "single":
            if char == "'":
                stack.pop()
            return False
        if mode == "comment":
            if char == "\n":
                stack.pop()
                return self._step(stack, "plain")
            return False
        if char in "\\$" and _PLACEHOLDER.match(text, at + 1):
            # An escaped value is the value; a dollar before it is a dollar.
            self.out.append("" if char == "\\" else "\\$")
            self.at += 1
            return True
        if char == "\\":
            return self._take(2)
        if mode == "ansi":
            if char == "'":
                stack.pop()
            return False
        if char == "`":
            if mode == "backquote":
                stack.pop()
            else:
                stack.append(["backquote", 0])
            return False
        if mode == "backquote":
            return False
        if char == "$":
            return self._dollar(stack, mode)
        if mode in ("double", "here"):
            if char == '"' and mode == "double":
                stack.pop()
            return False
        return self._unquoted(stack, mode, char)

    def _dollar(self, stack: list[list[str | int]], mode: str) -> bool:
        rest = self.text[self.at + 1 : self.at + 3]
        if rest == "((":
            stack.append(["arithmetic", 2])
            return self._take(3)
        if rest[:1] == "(":
            stack.append(["plain", 1])
            return self._take(2)
        if rest[:1] == "[":
            stack.append(["arithmetic", 1])
            return self._take(2)
        if rest[:1] == "{":
            stack.append(["brace", 1])
            return self._take(2)
        if rest[:1] == "'" and mode in ("plain", "brace"):
            stack.append(["ansi", 0])
            return self._take(2)
        return False

    def _unquoted(self, stack: list[list[str | int]], mode: str, char: str) -> bool:
        text, at = self.text, self.at
        if char == '"':
            stack.append(["double", 0])
            return self._take(1)
        if char == "'" and mode != "arithmetic":
            stack.append(["single", 0])
            return self._take(1)
        level = stack[-1]
        opened = int(level[1])
        if mode == "arithmetic":
            if char in "([":
                level[1] = opened + 1
            elif char in ")]":
                level[1] = opened - 1
                if opened == 1:
                    stack.pop()
            return False
        if mode == "brace":
            if char == "}":
                stack.pop()
            return False
        if char == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
            stack.append(["comment", 0])
            return False
        if text.startswith("((", at):
            stack.append(["arithmetic", 2])
            return self._take(2)
        if char == "(" and opened:
            level[1] = opened + 1
        elif char == ")" and opened:
            level[1] = opened - 1
            if opened == 1:
                stack.pop()
        elif text.startswith("<<<", at):
            return self._take(3)
        elif char == "<" and (heredoc := _HEREDOC.match(text, at)):
            word = heredoc[2]
            bare = re.sub(r"\\(.)|['\"]", r"\1", word)
            self.heredocs.append((bare, heredoc[1] == "-", bare != word))
            return self._take(heredoc.end() - at)
        elif char == "\n" and self.heredocs:
            self._take(1)
            self._bodies()
            return True
        return False

    def _bodies(self) -> None:
        for delimiter, stripped, quoted in self.heredocs:
            begin = self.at
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                if (line.lstrip("\t") if stripped else line) == delimiter:
                    break
                self.at = min(end + 1, len(self.text))
            body = self.text[begin : self.at]
            if quoted and _PLACEHOLDER.search(body):
                raise BadScript(f"a template is {_REFUSED['quoted here-document']}")
            self.out.append(body if quoted else _Reader(body, self.name).read("here"))
            end = self.text.find("\n", self.at)
            self._take((len(self.text) if end < 0 else end) - self.at)
        self.heredocs = []
