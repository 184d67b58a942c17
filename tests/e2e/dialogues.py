"""Programs that ask, each with a prompt, inputs, and a pattern of the inputs' effect. The
pattern after an input ends in the next prompt, so a reply that comes too early does not
match. No program sleeps, or needs a network or user settings."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Input = dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """A program; `asks` and the pattern beside each input match the shown output."""

    argv: tuple[str, ...]
    asks: str
    steps: tuple[tuple[Input, str], ...]
    screen: bool = False
    """What is shown is the screen, not what was printed."""
    make: Callable[[Path], None] = lambda folder: None
    """Prepare its folder."""
    also: tuple[str, ...] = ()
    """Programs that it needs beside the first."""

    def missing(self) -> str | None:
        """The first program that is not there."""
        return next((name for name in (self.argv[0], *self.also) if not shutil.which(name)), None)


def line(text: str) -> Input:
    return {"line": text}


def keys(*names: str) -> Input:
    return {"keys": list(names)}


def _shell(*argv: str) -> Dialogue:
    """A shell, started somehow."""
    prompt = "[#$%] $"
    return Dialogue(
        argv,
        prompt,
        (
            (line("echo $((1000 + 1))"), rf"\n1001\n(.*\n)*.*{prompt}"),
            (line("sleep 0.02; cat /dev/null; echo o''ne"), rf"\none\n(.*\n)*.*{prompt}"),
        ),
    )


PYTHON = (sys.executable, "-I", "-q")
VIM = ("-u", "NONE", "-i", "NONE", "-n", "-N", "--cmd", "set showmode shortmess+=F")


def _a_program(folder: Path) -> None:
    (folder / "program.py").write_text(PDB)


def _numbers(folder: Path) -> None:
    (folder / "numbers").write_text("".join(f"row {n}\n" for n in range(1, 401)))


def _two_files(folder: Path) -> None:
    _numbers(folder)
    (folder / "file").write_text("x")


def _git(folder: Path, *words: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(("git", *identity, *words), cwd=folder, env=env, check=True, capture_output=True)


def _two_hunks(folder: Path) -> None:
    _git(folder, "init", "-q", "-b", "main")
    rows = [f"row {n}\n" for n in range(40)]
    (folder / "file").write_text("".join(rows))
    _git(folder, "add", "file")
    rows[2], rows[37] = "other\n", "another\n"
    (folder / "file").write_text("".join(rows))


def _three_commits(folder: Path) -> None:
    _git(folder, "init", "-q", "-b", "main")
    for name in ("first", "second", "third"):
        (folder / name).write_text(name)
        _git(folder, "add", name)
        _git(folder, "commit", "-q", "-m", name)
    _git(folder, "config", "user.name", "A")
    _git(folder, "config", "user.email", "a@example.org")
    _git(folder, "config", "core.editor", shlex.join(("vim", *VIM)))


PDB = "total = 0\nfor n in range(3):\n    total += n\nprint('total is', total)\n"

EDITING: tuple[tuple[Input, str], ...] = (
    (keys("i"), "INSERT"),
    ({"text": "some words"}, "some words"),
    (keys("Escape"), r"some words((?!INSERT)[\s\S])*\Z"),
    ({"text": ":"}, r":\s*\Z"),
    (line("w"), "written"),
)
"""vim, from an empty file on. The last one is a line below it."""

DIALOGUES: dict[str, Dialogue] = {
    # -- shells, and ways to start a shell
    "bash": _shell("bash", "--norc"),
    "bash without line editing": _shell("bash", "--norc", "--noediting"),
    "dash": _shell("dash", "-i"),
    "zsh": _shell("zsh", "-f"),
    "env": _shell("env", "bash", "--norc"),
    "sh -c": _shell("sh", "-c", "bash --norc; exit 3"),
    "nice": _shell("nice", "bash", "--norc"),
    "timeout": _shell("timeout", "1000", "bash", "--norc"),
    "stdbuf": _shell("stdbuf", "-o0", "bash", "--norc"),
    "setpriv": _shell("setpriv", "--no-new-privs", "bash", "--norc"),
    "strace": _shell("strace", "-f", "-o", "/dev/null", "bash", "--norc"),
    "script": _shell("script", "-q", "-c", "bash --norc", "/dev/null"),
    "python's pty": _shell(*PYTHON, "-c", "import pty; pty.spawn(['bash', '--norc'])"),
    # -- interpreters
    "python": Dialogue(
        PYTHON,
        ">>> $",
        (
            (line("6 * 7"), r"\n42\n>>> $"),
            (line("for n in range(2):"), r"\.\.\. $"),
            (line("    print('n', n)"), r"\.\.\. $"),
            (line(""), r"n 0\nn 1\n>>> $"),
        ),
    ),
    "python asyncio": Dialogue(
        (*PYTHON, "-m", "asyncio"),
        ">>> $",
        (
            (line("6 * 7"), r"\n42\n>>> $"),
            (line("await asyncio.sleep(0.02, 'slept')"), r"\n'slept'\n>>> $"),
        ),
    ),
    "node": Dialogue(
        ("node",),
        "> $",
        ((line("6 * 7"), r"42\n> $"), (line("[1, 2].map(n => n + 99)"), r"\[ 100, 101 \]\n> $")),
    ),
    "sqlite3": Dialogue(
        ("sqlite3", "-interactive"),
        "sqlite> $",
        (
            (line("select 6 * 7;"), r"\n42\nsqlite> $"),
            (line("select 1 +"), r" {3}\.\.\.> $"),
            (line("1;"), r"\n2\nsqlite> $"),
        ),
    ),
    "bc": Dialogue(("bc", "-q"), "^$", ((line("6 * 7"), r"\n42\n$"), (line("2^10"), r"\n1024\n$"))),
    "dc": Dialogue(("dc",), "^$", ((line("6 7*p"), r"\n42\n$"), (line("2 10^p"), r"\n1024\n$"))),
    "lua": Dialogue(
        ("lua",), "> $", ((line("= 6 * 7"), r"\n42\n> $"), (line("for n = 1, 2 do"), r">> $"))
    ),
    "tclsh": Dialogue(
        ("tclsh",),
        "% $",
        ((line("expr 6 * 7"), r"\n42\n+% $"), (line("puts a; puts b"), r"a\n+b\n+% $")),
    ),
    # -- debuggers
    "gdb": Dialogue(
        ("gdb", "-q", "-nx", "-ex", "set style enabled off"),
        r"\(gdb\) $",
        ((line("print 6 * 7"), r"= 42\n\(gdb\) $"), (line("echo one\\n"), r"\none\n\(gdb\) $")),
    ),
    "gdb --args": Dialogue(
        ("gdb", "-q", "-nx", "--args", "cat"),
        r"\(gdb\) $",
        ((line("show args"), r"""is "".\n\(gdb\) $"""),),
    ),
    "pdb": Dialogue(
        (*PYTHON, "-m", "pdb", "program.py"),
        r"\(Pdb\) $",
        (
            (line("break 3"), r"Breakpoint 1[\s\S]*\(Pdb\) $"),
            (line("continue"), r"total \+= n\n\(Pdb\) $"),
            (line("p n"), r"\n0\n\(Pdb\) $"),
        ),
        make=_a_program,
    ),
    "perl -d": Dialogue(
        ("perl", "-de0"),
        r"DB<1> $",
        ((line("print 6 * 7"), r"42\s+DB<2> $"), (line("p 'a' x 3"), r"aaa\s+DB<3> $")),
    ),
    # -- editors
    "vim": Dialogue(("vim", *VIM, "file"), r"~\n", EDITING, screen=True),
    "vi": Dialogue(("vi", *VIM, "file"), r"~\n", EDITING, screen=True),
    "nano": Dialogue(
        ("nano", "--ignorercfiles", "file"),
        "GNU nano",
        (
            ({"text": "some words"}, "some words"),
            (keys("C-o"), "File Name to Write"),
            (keys("Enter"), r"Wrote 1 line"),
        ),
        screen=True,
    ),
    "ed": Dialogue(
        ("ed", "-p", "* ", "numbers"),
        r"\* $",
        ((line("2p"), r"row 2\n\* $"), (line("$="), r"400\n\* $")),
        make=_numbers,
    ),
    # -- pagers
    "less": Dialogue(
        ("less", "numbers"),
        "row 1\n",
        ((keys("Space"), "row 24\n"), (keys("G"), r"row 400\n"), ({"text": "/"}, r"\n/")),
        screen=True,
        make=_numbers,
    ),
    "more": Dialogue(
        ("more", "numbers"),
        r"row 5\n[\s\S]*More",
        ((keys("Space"), r"row 40\n[\s\S]*More"), (keys("Enter"), r"More")),
        make=_numbers,
    ),
    "a pipe into less": Dialogue(
        ("sh", "-c", "cat numbers | less"),
        "row 1\n",
        ((keys("Space"), "row 24\n"), (keys("G"), r"row 400\n")),
        screen=True,
        make=_numbers,
        also=("less",),
    ),
    # -- passwords
    "ssh-keygen": Dialogue(
        ("ssh-keygen", "-t", "ed25519", "-f", "key"),
        r"passphrase\): $",
        (({"line": "one two", "secret": True}, "again: $"), ({"line": "other"}, r"[\s\S]*\): $")),
    ),
    "getpass": Dialogue(
        (*PYTHON, "-c", "import getpass\nfor n in 1, 2: print(len(getpass.getpass(f'{n}: ')))"),
        "1: $",
        (({"line": "abc", "secret": True}, r"3\n2: $"),),
    ),
    "read -s": Dialogue(
        ("bash", "-c", 'for n in 1 2; do read -rsp "$n: " x; echo; echo ${#x}; done'),
        "1: $",
        (({"line": "abc", "secret": True}, r"3\n2: $"),),
    ),
    "openssl": Dialogue(
        ("openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-in", "numbers", "-out", "out"),
        r"password: ?$",
        (({"line": "abc", "secret": True}, r"Verifying.*password: ?$"),),
        make=_numbers,
    ),
    # -- small tools
    "select": Dialogue(
        ("bash", "-c", "PS3='which? '; select x in apple pear; do sleep 0.02; echo got $x; done"),
        r"2\) pear\nwhich\? $",
        ((line("2"), r"got pear\nwhich\? $"), (line("1"), r"got apple\nwhich\? $")),
    ),
    "cat": Dialogue(("cat",), "^$", ((line("one"), r"one\none\n$"), (line("two"), r"two\ntwo\n$"))),
    "tee": Dialogue(("tee", "out"), "^$", ((line("one"), r"one\none\n$"),)),
    "a pipeline": Dialogue(
        ("sh", "-c", "sed -u s/^/x/ </dev/tty | cat"), "^$", ((line("one"), r"one\n(xone\n)?$"),)
    ),
    "rm -i": Dialogue(
        ("rm", "-i", "numbers", "file"),
        r"numbers'\? $",
        ((line("y"), r"file'\? $"),),
        make=_two_files,
    ),
    "xargs -p": Dialogue(
        ("sh", "-c", "printf 'a\\nb\\n' | xargs -p -n1 echo"),
        r"echo a\s?\?\.\.\.$",
        ((line("y"), r"\na\necho b\s?\?\.\.\.$"),),
    ),
    "top": Dialogue(("top",), "PID", ((keys("h"), "Help"), (keys("q"), "PID")), screen=True),
    "dialog": Dialogue(
        ("sh", "-c", "dialog --yesno sure 7 40; dialog --inputbox name 9 40; read x"),
        "sure",
        ((keys("Tab"), "sure"), (keys("Enter"), "name"), ({"text": "Ada"}, "Ada")),
        screen=True,
        also=("dialog",),
    ),
    "whiptail": Dialogue(
        ("sh", "-c", "whiptail --yesno sure 7 40; whiptail --inputbox name 9 40; read x"),
        "sure",
        ((keys("Tab"), "sure"), (keys("Enter"), "name"), ({"text": "Ada"}, "Ada")),
        screen=True,
        also=("whiptail",),
    ),
    # -- git
    "git add -p": Dialogue(
        ("git", "add", "-p"),
        r"Stage this hunk .*\? $",
        ((line("?"), r"help[\s\S]*Stage this hunk .*\? $"), (line("y"), r"another[\s\S]*\? $")),
        make=_two_hunks,
    ),
    "git rebase -i": Dialogue(
        ("git", "rebase", "-i", "--root"),
        "pick .* first",
        (
            ({"text": "jcw"}, "INSERT"),
            ({"text": "reword"}, "\nreword .* second"),
            (keys("Escape"), r"second((?!INSERT)[\s\S])*\Z"),
            (line(":wq"), r"\nsecond\n|\Asecond\n"),
        ),
        screen=True,
        make=_three_commits,
        also=("vim",),
    ),
}
