"""Host calls of a mediated tool (`runtime = "vfs"`): files, HTTP and programs, as far as its `access` grants them.

Each call waits for haft's reply, also in a coroutine; calls are made from the main thread. A refused or failed call raises
`HostError`, which fails the tool in haft's words unless the tool handles the error.

>>> from haft.tools import host, tool
>>> @tool
... def count_lines(path: str) -> int:
...     "Count the lines of a file."
...     return host.fs.read(path).count("\\n")
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from .errors import ToolError
from .lines import Lines

__all__ = [
    "Completed",
    "Entry",
    "HostError",
    "Match",
    "Metadata",
    "Response",
    "fs",
    "http",
    "process",
]


class HostError(ToolError):
    """A host call without a result. `kind` is `denied`, `not_found`, `exists`, `too_large`, … (docs/mediated-tools.md).

    >>> HostError("denied", "no rule grants it").kind
    'denied'
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message, transient=kind in ("timeout", "network"))
        self.kind = kind


class Entry(NamedTuple):
    """An entry of a folder; `kind` is `file`, `folder`, `link` or `other`."""

    name: str
    kind: str


class Metadata(NamedTuple):
    """Facts of a file; `modified` is in seconds since the epoch."""

    kind: str
    size: int
    modified: float
    executable: bool


class Match(NamedTuple):
    path: str
    line: int
    text: str


class Response(NamedTuple):
    """A server's response; `url` is the URL after the last redirect, header names are in lower case.

    >>> Response(200, "http://example.com/", {}, b"ok").text
    'ok'
    """

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacements."""
        return self.body.decode(errors="replace")


class Completed(NamedTuple):
    """An ended process: `code`, or the name of the `signal` that killed the process."""

    stdout: str
    stderr: str
    code: int | None = None
    signal: str | None = None


class _Files:
    """Files below the root, by relative paths."""

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> str:
        """Return a file as text, `offset` and `length` in bytes; 4 MiB at most."""
        return str(_call("fs.read", path=path, offset=offset, length=length)["content"])

    def read_bytes(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes; 4 MiB at most."""
        params = {"path": path, "offset": offset, "length": length, "encoding": "base64"}
        return binascii.a2b_base64(_call("fs.read", **params)["content"])

    def write(
        self,
        path: str,
        content: str | bytes,
        *,
        mode: Literal["replace", "create", "append"] = "replace",
        parents: bool = False,
    ) -> bool:
        """Write a file, and return whether the file is new; `parents` makes missing folders."""
        params = {"path": path, "mode": mode, "parents": parents, **_content("content", content)}
        return bool(_call("fs.write", **params)["created"])

    def exists(self, path: str) -> bool:
        return bool(_call("fs.exists", path=path))

    def list_dir(self, path: str = ".") -> list[Entry]:
        """Return the entries of a folder, by name; 10,000 at most."""
        return [Entry(**entry) for entry in _call("fs.list_dir", path=path)["entries"]]

    def metadata(self, path: str, *, follow: bool = True) -> Metadata:
        return Metadata(**_call("fs.metadata", path=path, follow=follow))

    def delete(self, path: str) -> None:
        """Delete a file, a link or an empty folder."""
        _call("fs.delete", path=path)

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        _call("fs.rename", **{"from": source, "to": target, "overwrite": overwrite})

    def grep(
        self,
        pattern: str,
        path: str = ".",
        *,
        name: str = "*",
        ignore_case: bool = False,
        limit: int = 200,
    ) -> list[Match]:
        """Return the lines that match a regular expression (RE2), in files of a `name` as `*.py`."""
        params = {"path": path, "name": name, "ignore_case": ignore_case, "limit": limit}
        return [Match(**match) for match in _call("fs.grep", pattern=pattern, **params)["matches"]]


class _Http:
    """Requests over HTTP; `${NAME}` in the value of a header stands for a granted variable."""

    def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 30.0
    ) -> Response:
        return _response(
            _call("http.get", url=url, headers=dict(headers or {}), timeout_s=timeout_s)
        )

    def post(
        self,
        url: str,
        body: str | bytes = "",
        *,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        """Send a body, or any other `json` than None as the body."""
        content = _content("body", body) if json is None else {"json": json}
        params = {"url": url, "headers": dict(headers or {}), "timeout_s": timeout_s, **content}
        return _response(_call("http.post", **params))


class _Process:
    def run(
        self,
        program: str,
        *args: str,
        cwd: str = ".",
        stdin: str = "",
        timeout_s: float = 60.0,
    ) -> Completed:
        params = {"args": args, "cwd": cwd, "stdin": stdin, "timeout_s": timeout_s}
        return Completed(**_call("process.run", program=program, **params))


fs = _Files()
http = _Http()
process = _Process()


def _content(name: str, content: str | bytes) -> dict[str, str]:
    if isinstance(content, str):
        return {name: content}
    return {name: binascii.b2a_base64(content, newline=False).decode(), "encoding": "base64"}


def _response(reply: Mapping[str, Any]) -> Response:
    body = reply["body"]
    data = binascii.a2b_base64(body) if reply["encoding"] == "base64" else body.encode()
    return Response(reply["status"], reply["url"], reply["headers"], data)


def _call(method: str, **params: Any) -> Any:
    lines = Lines.current
    if lines is None or method not in lines.host_methods:
        raise RuntimeError(f'{method} works in a tool with `runtime = "vfs"` that haft runs')
    reply = lines.request(method, params)
    if reply is None:
        raise HostError("failed", "haft has ended the tool.")
    if "error" in reply:
        error = reply["error"]
        raise HostError(error["data"]["kind"], error["message"])
    return reply["result"]
