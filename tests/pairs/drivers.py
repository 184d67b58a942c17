"""Each client behind one interface, driven as a person drives it; a further client is one more class here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from tests.faults.harness import until
from tests.nvim.editor import PLUGIN
from tests.running_daemon import RunningDaemon
from tests.vscode.core import core_command

ROWS, COLS = 24, 80


class Driver(ABC):
    """One client. `kill` is SIGKILL; `shell` or `show` after that start the client anew."""

    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self._daemon = daemon
        self._folder = folder
        folder.mkdir()
        self.is_running = False

    def _environment(self) -> dict[str, str]:
        scripts = Path(sys.executable).parent
        return {**self._daemon.env, "PATH": f"{scripts}:{os.environ['PATH']}"}

    @abstractmethod
    def shell(self, id: str) -> None:
        """Start a shell and show it."""

    @abstractmethod
    def show(self, id: str) -> None:
        """Show a handle that another client has started."""

    @abstractmethod
    def type(self, text: str) -> None:
        """Type into the handle that is shown; `\\r` is the key Return."""

    @abstractmethod
    def shown(self) -> str:
        """Return the text that a person sees."""

    @abstractmethod
    def answer(self, id: str, text: str) -> None:
        """Answer a handle's question."""

    @abstractmethod
    def kill(self) -> None: ...

    def wait(self, text: str) -> None:
        until(lambda: text in self.shown(), f"{text!r} in {type(self).__name__}")


class Piped(Driver):
    """A program that takes actions on its standard input, and answers each with the text it shows."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    def _start(self, id: str) -> None:
        self._id = id
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=self._environment(),
        )
        self.is_running = True

    def reply(self, action: str, id: str, text: str = "") -> object:
        """Return what the program answers: its text, or an object with an `error`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([action, id, text]) + "\n")
        self._process.stdin.flush()
        answer: object = json.loads(self._process.stdout.readline())
        return answer

    def _call(self, action: str, id: str, text: str = "") -> str:
        shown = self.reply(action, id, text)
        assert isinstance(shown, str), shown
        return shown

    def shell(self, id: str) -> None:
        self._start(id)
        self._call("shell", id)

    def show(self, id: str) -> None:
        self._start(id)
        self._call("show", id)

    def type(self, text: str) -> None:
        self._call("type", self._id, text)

    def shown(self) -> str:
        return self._call("shown", self._id)

    def answer(self, id: str, text: str) -> None:
        self._call("answer", id, text)

    def kill(self) -> None:
        self.is_running = False
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class PythonClient(Piped):
    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tests.pairs.python_client", str(self._daemon.socket)]


class VSCode(Piped):
    """The core of the extension behind the editor's own emulator, which answers each query that reaches it."""

    def _command(self) -> list[str]:
        command = core_command()
        assert command is not None, "drivers() leaves it out"
        return command


class InTmux(Driver):
    """A client whose terminal is tmux: an emulator that answers each query that reaches it."""

    def _tmux(self, *args: str) -> str:
        command = ["tmux", "-S", str(self._folder / "tmux"), "-f", "/dev/null", *args]
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment())
        if done.returncode:
            raise AssertionError(f"{args}: {done.stderr}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in super()._environment().items() if name != "TMUX"},
            "TERM": "xterm-256color",
            "SHELL": "/bin/bash",
            "NVIM_LOG_FILE": str(self._folder / "nvim.log"),
        }

    def _open(self, *argv: str) -> None:
        size = ("-x", str(COLS), "-y", str(ROWS))
        self._tmux("new-session", "-d", "-s", "it", *size, "exec " + shlex.join(argv))
        self.is_running = True
        self._pid = int(self._tmux("display-message", "-p", "-t", "it", "#{pane_pid}"))

    def _keys(self, *keys: str, literal: bool = False) -> None:
        self._tmux("send-keys", "-t", "it", *(["-l"] if literal else []), "--", *keys)

    def type(self, text: str) -> None:
        for part in text.splitlines(keepends=True):
            self._keys(part.rstrip("\r"), literal=True)
            if part.endswith("\r"):
                self._keys("Enter")

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "it")

    def kill(self) -> None:
        self.is_running = False
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        os.kill(self._pid, signal.SIGKILL)
        self._tmux("kill-server")


class CommandLine(InTmux):
    def shell(self, id: str) -> None:
        self._open("haft", "shell", id)

    def show(self, id: str) -> None:
        self._open("haft", "attach", id)

    def answer(self, id: str, text: str) -> None:
        command = ["haft", "answer", id, text]
        subprocess.run(command, env=self._environment(), check=True, capture_output=True)


class Neovim(InTmux):
    program = "nvim"

    def _edit(self, *commands: str) -> None:
        plugin = ("--cmd", f"set rtp+={PLUGIN}", "-c", "runtime! plugin/haft.lua")
        more = [word for command in commands for word in ("-c", command)]
        self._open(self.program, "-u", "NONE", "-i", "NONE", *plugin, *more)

    def shell(self, id: str) -> None:
        self._edit(f"Haft shell {id}")
        until(lambda: re.search(r"\A\S*[$#]", self.shown()), "a prompt")

    def show(self, id: str) -> None:
        self._edit(f"edit haft://default/{id}")

    def type(self, text: str) -> None:
        self._keys("C-\\", "C-n", "i")
        super().type(text)

    def answer(self, id: str, text: str) -> None:
        self._keys("C-\\", "C-n")
        super().type(f":Haft answer {id}\r")
        self.wait("Which?")
        super().type(f"{text}\r")


def drivers() -> list[type[Driver]]:
    """Return the clients that can run here."""
    found: list[type[Driver]] = [PythonClient]
    if core_command() is not None:
        found.append(VSCode)
    if shutil.which("tmux"):
        found.append(CommandLine)
        found += [
            type(f"Neovim_{version}", (Neovim,), {"program": program})
            for version, program in neovims()
        ]
    return found


def neovims() -> list[tuple[str, str]]:
    from tests.nvim.conftest import programs

    return list(programs().items())
