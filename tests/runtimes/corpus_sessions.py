"""The sessions of the corpus: programs and a user's keys. Each step is typed once the program
has been still for a while. The recording ends with the last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resize:
    """The terminal gets another size."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class Session:
    """A recording's script."""

    name: str
    argv: tuple[str, ...]
    steps: tuple[str | Resize, ...] = ()
    setup: str = ":"
    rows: int = 24
    cols: int = 80


_BASH = ("bash", "--norc", "--noprofile", "-i")
_REPO = r"""
git init -q -b main .; git config user.name Demo; git config user.email demo@example.org
for n in $(seq 1 30); do echo "line $n"; done > file; git add file; git commit -q -m 'The first'
git switch -q -c side; echo side > side; git add side; git commit -q -m 'On the side'
git switch -q main; echo main > main; git add main; git commit -q -m 'On main'
git merge -q --no-edit side
sed -i 's/line 3$/line three/; s/line 27/line twenty-seven/' file
"""
_TEXT = r"""
for n in $(seq 1 200); do echo "$n: the quick brown fox jumps over the lazy dog"; done > text
"""
_PASTE = "\x1b[200~def f(n):\n    if n < 2:\n        return 1\n    return n * f(n - 1)\n\n\x1b[201~"


def _printf(name: str, text: str, rows: int = 24, cols: int = 80) -> Session:
    """Return a script's output with escapes, as a shell's `printf` command."""
    return Session(name, ("sh", "-c", f"printf '{text}'; exec sleep 5"), rows=rows, cols=cols)


def _python(name: str, script: str, *steps: str) -> Session:
    return Session(name, ("python3", "-I", "-c", script), steps)


SESSIONS: tuple[Session, ...] = (
    Session(
        "vim_edit",
        ("vim", "-u", "NONE", "-N", "-i", "NONE", "-n", "text"),
        (
            "ihello ",
            "\x1b",
            "yyp",
            ":set number\r",
            "/fox\r",
            "ddO",
            "new line\tand tab",
            "\x1b",
            "G",
        ),
        _TEXT,
    ),
    Session(
        "vim_split",
        ("vim", "-u", "NONE", "-N", "-i", "NONE", "-n", "-d", "text", "other"),
        ("jjj", "\x17\x17", ":syntax on\r", ":set hlsearch\r", "/dog\r"),
        _TEXT + "sed 's/quick/slow/; 5d' text > other",
    ),
    Session("less_paging", ("less", "text"), (" ", " ", "/77\r", "n", "G", "b", "10g"), _TEXT),
    Session("less_quit", _BASH, ("seq 3; less text\r", " ", "q", "echo back\r"), _TEXT),
    Session("man_less", _BASH, ("man -P less ls\r", " ", "/sort\r", "n")),
    Session("top", _BASH, ("sleep 100 &\r", "top -d 90 -p $!\r", " ", "z", "x", "1")),
    Session("git_add_p", ("git", "add", "-p"), ("y\r", "?\r"), _REPO),
    Session(
        "git_log_graph",
        _BASH,
        (
            "git -c color.ui=always --no-pager log --graph --stat\r",
            "git log --graph --oneline --all\r",
        ),
        _REPO,
    ),
    Session(
        "python_paste", ("python3", "-q", "-E"), (_PASTE, "\r", "f(20)\r", "help()\r", "len\r")
    ),
    Session(
        "node_repl",
        ("node",),
        ("[1, {a: 'b'}, null, undefined, /x/]\r", "Arr", "\t", "\t", "ay.isArray([])\r", ".help\r"),
    ),
    Session(
        "gdb",
        ("gdb", "-q", "-nx", "/bin/sleep"),
        (
            "set pagination off\r",
            "break nanosleep\r",
            "info line\r",
            "print 6*7\r",
            "print/x 255\r",
        ),
    ),
    Session(
        "gdb_tui", ("gdb", "-q", "-nx", "/bin/true"), ("layout asm\r", "layout regs\r", "print 1\r")
    ),
    Session(
        "sqlite3",
        ("sqlite3", "-interactive"),
        (
            "create table t(a, b);\r",
            "insert into t values (1, 'one'), (2, 'zwei'), (3, '漢字');\r",
            ".mode box\r",
            "select * from t;\r",
            "select broken\r",
            ";\r",
        ),
    ),
    Session(
        "bash_history",
        _BASH,
        (
            "echo one two three\r",
            "ls te",
            "\t",
            "\r",
            "\x12one",
            "\x1b[D\x1b[D\x7fX",
            "\r",
            "echo " + "long " * 30,
            "\x01# \x05end",
            "\x1bb\x1bd",
            "\x03",
            "\x0c",
            "ls\t\t",
        ),
        "touch text1 text2 tempest; mkdir temple",
    ),
    Session(
        "nano",
        ("nano", "-I", "text"),
        ("\x1b[B\x1b[B", "inserted ", "\x0b", "\x15", "\x17fox\r", "\x1b[6~", "\x18"),
        _TEXT,
    ),
    _python(
        "progress_bar",
        "import sys, time\n"
        "for n in range(101):\n"
        "    print(f'\\rwork [{\"#\" * (n // 4):25}] {n:3}%', end='', flush=True)\n"
        "    time.sleep(0.002)\n"
        "print('\\ndone'); time.sleep(5)",
    ),
    _python(
        "progress_lines",
        "import sys, time\n"
        "for n in range(41):\n"
        "    for task in range(4):\n"
        "        done = min(40, n * (task + 1))\n"
        "        print(f'\\x1b[2Klayer {task}: \\x1b[32m{\"=\" * done}>\\x1b[0m {done}')\n"
        "    print('\\x1b[4A', end='', flush=True)\n"
        "    time.sleep(0.002)\n"
        "print('\\x1b[4B\\x1b[Jall pulled'); time.sleep(5)",
    ),
    _python(
        "wide_table",
        "rows = [('漢字', 'kanji'), ('한국어', 'hangul'), ('e\\u0301a\\u0308', 'combining'),\n"
        "        ('ｆｕｌｌ', 'fullwidth'), ('😀🎉', 'emoji'), ('naïve', 'latin'), ('אבג', 'hebrew')]\n"
        "print('┌' + '─' * 12 + '┬' + '─' * 12 + '┐')\n"
        "for left, right in rows:\n"
        "    print(f'│ {left}\\x1b[14G│ {right}\\x1b[27G│')\n"
        "print('└' + '─' * 12 + '┴' + '─' * 12 + '┘')\n"
        "print('漢' * 45)\n"
        "print('x' * 79 + '漢字')\n"
        "import time; time.sleep(5)",
    ),
    _python(
        "emoji_joined",
        "for text in ('👨\\u200d👩\\u200d👧', '🇩🇪', '👍🏽', '❤\\ufe0f', '1\\ufe0f\\u20e3', '☕', '🏴\\u200d☠\\ufe0f'):\n"
        "    print(f'{text}|\\x1b[10Gend')\n"
        "import time; time.sleep(5)",
    ),
    _printf(
        "tab_stops",
        r"a\tb\tc\td\r\n\033[3g\033[5G\033H\033[13G\033H\033[40G\033H\r"
        r"1\t2\t3\t4\t5\r\n\033[13G\033[g\r1\t2\t3\r\nxyz\033[Z\033[Zback\r\n\033[2Itwo\r\n",
    ),
    _printf(
        "wrapped_lines",
        "7" * 100
        + r"\r\n"
        + "x" * 80
        + r"\r\n"
        + "y" * 81
        + r"\r\n\033[?7l"
        + "z" * 90
        + r"END\r\n\033[?7h"
        + "w" * 79
        + r"\033[Aup\033[B\r\n"
        + "v" * 80
        + r"\b\bB\r\n",
    ),
    _printf(
        "scroll_region",
        "".join(rf"row {n}\r\n" for n in range(1, 23))
        + r"\033[5;15r\033[5;1H\033M\033Minserted above\033[15;1H\n\nbelow\033[8;1H\033[2L"
        r"two lines in\033[12;1H\033[M\033[2S\033[T\033[?6h\033[1;1Horigin\033[?6l\033[r\033[24;1Hend",
    ),
    _printf(
        "edit_cells",
        r"\033#8\033[3;5H\033[4@\033[4;5H\033[4P\033[5;5H\033[4X\033[6;5H\033[1K\033[7;5H\033[K"
        r"\033[8;5H\033[4hins\033[4l\033[10;1Hab\033[5b\033[12;10H\033[1J\033[22;10H\033[J"
        r"\033[15;3Hback\b\b\b\bX\033[16;1H\033(0lqqkx~\033(B\033[17;1H\016q\017q",
    ),
    _printf(
        "alternate_screen",
        r"before\r\n$ edit\r\n\033[?1049h\033[H\033[2Jin the editor\033[10;10Hhere\033[?1049l"
        r"after\r\n\033[?47h\033[3;3Hold way\033[?47l\033[?1049h\033[2J\033[5;5Hstays",
    ),
    _printf("window_title", r"\033]0;the title\007\033]2;é ≤ 漢\033\\\\shown\r\n\033]1;icon\007"),
    _printf(
        "colours",
        "".join(rf"\033[{n}m{n} \033[0m" for n in (*range(1, 10), *range(30, 48), *range(90, 108)))
        + r"\r\n\033[38;5;208m256\033[48;2;10;20;30mrgb\033[0m\r\n\033[44m\033[K\033[0m\r\n\033[7m\033[2K",
    ),
    Session(
        "resize_vim",
        ("vim", "-u", "NONE", "-N", "-i", "NONE", "-n", "text"),
        ("20j", Resize(30, 100), ":set number\r", Resize(12, 40), "5j"),
        _TEXT,
    ),
    Session(
        "resize_less", ("less", "text"), (" ", Resize(15, 50), " ", Resize(28, 120), "/99\r"), _TEXT
    ),
    Session(
        "resize_wider",
        _BASH,
        ("seq 5\r", "echo " + "word " * 25 + "\r", Resize(24, 120), "echo wide\r"),
    ),
    Session(
        "columns",
        _BASH,
        ("ls --color=always -C\r", "ls --color=always -1 | cat -A | head -5\r", "stty size\r"),
        "mkdir folder; touch a b c archive.tar; ln -s a link; chmod +x c; touch -d 2026-01-01 *",
    ),
    Session(
        "whiptail",
        (
            *("whiptail", "--title", "Choose", "--menu", "What now?", "15", "50", "5"),
            *("one", "the first", "two", "the second", "three", "the third"),
        ),
        ("\x1b[B", "\x1b[B", "\t"),
    ),
    Session("dialog_form", ("dialog", "--yesno", "Really?", "8", "40"), ("\t",)),
    Session("watch", ("watch", "-t", "-n", "60", "-c", "seq 5; printf '\\033[31mred\\033[0m'")),
    Session(
        "less_colours",
        _BASH,
        ("grep -n --color=always fox text | less -R\r", " ", "/lazy\r"),
        _TEXT,
    ),
    Session("bc", ("bc", "-q"), ("2^200\r", "scale=20; 1/7\r", "\x1b[A\r")),
    Session(
        "pdb",
        ("python3", "-m", "pdb", "script.py"),
        ("n\r", "p a\r", "l\r", "c\r"),
        "printf 'a = 1\\nb = a + 1\\nprint(a, b)\\n' > script.py",
    ),
    Session(
        "ssh_keygen",
        ("ssh-keygen", "-t", "ed25519", "-f", "key", "-C", "demo"),
        ("secret\r", "secret\r"),
    ),
    Session(
        "job_control",
        _BASH,
        ("sleep 50\r", "\x1a", "jobs\r", "bg\r", "kill %1\r", "\r", "cat\r", "typed\r", "\x03"),
    ),
)
