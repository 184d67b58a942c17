"""A Neovim as a child process, driven over its msgpack API as a user interface drives it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

PLUGIN = Path(__file__).parents[2] / "clients" / "nvim"


class EditorError(Exception):
    """An error that Neovim has returned for a request."""


class Editor:
    """Starts Neovim with the plugin and no other configuration.

    ```
    editor.lua("return vim.fn.line('$')")
    editor.keys("ihello<Esc>")
    ```
    """

    def __init__(self, program: str, env: dict[str, str], home: Path, cwd: Path) -> None:
        for folder in ("config", "data", "state", "cache"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        import msgpack  # of the extra `clients`

        self._pack = msgpack.packb
        # Buffers, windows and tab pages arrive as extension types; the tests pass numbers.
        self._received = msgpack.Unpacker(ext_hook=lambda _code, data: data, strict_map_key=False)
        self._next = 0
        self.notifications: list[tuple[str, list[Any]]] = []
        environment = {
            **{name: value for name, value in env.items() if name not in ("NVIM", "VIMINIT")},
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "NVIM_LOG_FILE": str(home / "nvim.log"),
        }
        self.process = subprocess.Popen(
            [
                *(program, "--embed", "--headless", "-u", "NONE", "-i", "NONE"),
                *("--cmd", f"set rtp+={PLUGIN}", "-c", "runtime! plugin/haft.lua"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ)

    def call(self, method: str, *params: Any, timeout: float = 30) -> Any:
        """Call a function of the API; raise `EditorError` with Neovim's message."""
        self._next += 1
        assert self.process.stdin is not None
        self.process.stdin.write(self._pack([0, self._next, method, list(params)]))
        self.process.stdin.flush()
        end = time.monotonic() + timeout
        while True:
            message = self._receive(end)
            if message[0] == 2:
                self.notifications.append((message[1], message[2]))
            elif message[0] == 1 and message[1] == self._next:
                if message[2] is not None:
                    raise EditorError(message[2][1])
                return message[3]

    def _receive(self, end: float) -> list[Any]:
        while True:
            for message in self._received:
                decoded: list[Any] = message
                return decoded
            if not self._selector.select(max(end - time.monotonic(), 0)):
                raise TimeoutError("Neovim does not answer")
            assert self.process.stdout is not None
            data = self.process.stdout.read()
            if not data:
                raise EditorError(f"Neovim has ended with status {self.process.wait()}")
            self._received.feed(data)

    def lua(self, code: str, *args: Any) -> Any:
        """Run Lua code in the editor, and return its result."""
        return self.call("nvim_exec_lua", code, list(args))

    def command(self, text: str) -> None:
        """Run an Ex command."""
        self.call("nvim_command", text)

    def keys(self, keys: str) -> None:
        """Type keys, as in `i hello<Esc>`."""
        self.call("nvim_input", keys)

    def text(self) -> str:
        """Return the text of the current buffer without the empty lines at its end."""
        lines: list[str] = self.lua(
            "return vim.api.nvim_buf_get_lines(0, 0, -1, false)",
        )
        return "\n".join(lines).rstrip()

    def wait(self, expression: str, timeout: float = 20) -> Any:
        """Return the first value of a Lua expression that is neither nil, false nor empty."""
        code = (
            "local value; vim.wait(...,"
            f" function() value = {expression};"
            ' return value and value ~= "" end, 10) return value'
        )
        value = self.lua(code, int(timeout * 1000))
        if not value:
            raise AssertionError(
                f"not within {timeout} s: {expression}; the buffer:\n{self.text()}"
            )
        return value

    def wait_for_text(self, text: str, timeout: float = 20) -> str:
        """Return the current buffer's text as soon as `text` is in it."""
        quoted = msgspec.json.encode(text).decode()
        self.wait(
            "table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')"
            f":find({quoted}, 1, true)",
            timeout,
        )
        return self.text()

    def kill(self) -> None:
        """Kill the editor as a crash would."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self._selector.close()
