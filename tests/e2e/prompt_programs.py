"""Programs that ask in every way, and note when they read. A program is called with a file for
its notes and writes `R <ns>` (the monotonic clock) right before a read and `W` after it. Each
asks `one? `, `two? `, `three? `, and prints `got <answer>` to each, after 0 to 30 ms of work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


class Notes:
    """The notes of a program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reads_since(self) -> int | None:
        """Return the start of the pending read, in nanoseconds, 0 without a clock; None while
        not reading."""
        text = self.path.read_text() if self.path.exists() else ""
        last = text.rstrip("\n").rpartition("\n")[2].split()
        return int(last[1]) if last[:1] == ["R"] else None


C_PROGRAM = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static FILE *notes;
static char got[256];

static void note_read(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    fprintf(notes, "R %lld\n", t.tv_sec * 1000000000LL + t.tv_nsec);
    fflush(notes);
}

static void set(int lflag_off, struct termios *old) {
    struct termios t;
    tcgetattr(0, &t);
    *old = t;
    t.c_lflag &= ~lflag_off;
    tcsetattr(0, TCSANOW, &t);
}

static void take(void) {  /* all of a line: what is typed may come in two reads */
    size_t n = 0;
    do {
        ssize_t more = read(0, got + n, sizeof got - 1 - n);
        if (more > 0) n += more;
    } while (!n || !strchr("\r\n", got[n - 1]));
    got[n - 1] = 0;
}

static void ask(const char *way) {
    struct termios old;
    struct pollfd p = {0, POLLIN, 0};
    tcgetattr(0, &old);
    if (!strcmp(way, "fgets")) {
        note_read();
        if (!fgets(got, sizeof got, stdin)) exit(1);
        got[strcspn(got, "\n")] = 0;
    } else if (!strcmp(way, "scanf")) {
        note_read();
        if (scanf("%255s", got) != 1) exit(1);
    } else if (!strcmp(way, "getchar")) {
        int c, n = 0;
        note_read();
        while ((c = getchar()) != '\n' && c != EOF) got[n++] = c;
        got[n] = 0;
    } else if (!strcmp(way, "raw")) {
        set(ICANON | ECHO, &old);
        note_read();
        take();
    } else if (!strcmp(way, "secret")) {
        set(ECHO, &old);
        note_read();
        take();
    } else if (!strcmp(way, "poll")) {
        set(ICANON | ECHO, &old);
        note_read();
        poll(&p, 1, -1);
        take();
    } else if (!strcmp(way, "select")) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(0, &set);
        note_read();
        select(1, &set, 0, 0, 0);
        take();
    } else if (!strcmp(way, "epoll")) {
        struct epoll_event e = {EPOLLIN, {0}};
        int fd = epoll_create1(0);
        epoll_ctl(fd, EPOLL_CTL_ADD, 0, &e);
        note_read();
        epoll_wait(fd, &e, 1, -1);
        close(fd);
        take();
    } else if (!strcmp(way, "short polls")) {  /* an event loop that wakes up all the time */
        set(ICANON | ECHO, &old);
        note_read();
        while (poll(&p, 1, 50) == 0);
        take();
    } else if (!strcmp(way, "halfdelay")) {
        struct termios t;
        set(ICANON | ECHO, &old);
        tcgetattr(0, &t);
        t.c_cc[VMIN] = 0;
        t.c_cc[VTIME] = 1;
        tcsetattr(0, TCSANOW, &t);
        note_read();
        take();
    }
    fprintf(notes, "W\n");
    fflush(notes);
    tcsetattr(0, TCSANOW, &old);
}

int main(int argc, char **argv) {
    const char *names[] = {"one", "two", "three"};
    notes = fopen(argv[1], "a");
    srand(getpid());
    for (int n = 0; n < 3; n++) {
        printf("%s? ", names[n]);
        fflush(stdout);
        ask(argv[2]);
        usleep(rand() % 30000);
        printf("\ngot %s\n", got);
    }
    return 0;
}
"""

C_WAYS = (
    "fgets", "scanf", "getchar", "raw", "secret", "poll", "select", "epoll",
    "short polls", "halfdelay",
)  # fmt: skip


def compiled(folder: Path, source: str = C_PROGRAM) -> Path | None:
    """Compile a program; None where there is no compiler."""
    cc = shutil.which("cc")
    if cc is None:
        return None
    (folder / "program.c").write_text(source)
    program = folder / "program"
    subprocess.run((cc, "-O1", "-w", "-o", program, folder / "program.c", "-lpthread"), check=True)
    return program


PYTHON_INPUT = """
import random, sys, time
notes = open(sys.argv[1], "a", buffering=1)
for name in "one", "two", "three":
    print(name, end="? ", flush=True)
    print("R", time.monotonic_ns(), file=notes)
    got = sys.stdin.readline().strip()
    print("W", file=notes)
    time.sleep(random.random() * 0.03)
    print(f"\\ngot {got}")
"""

PYTHON_SELECTORS = """
import os, random, select, socket, sys, time, tty
notes = open(sys.argv[1], "a", buffering=1)
tty.setcbreak(0)
a, b = socket.socketpair()       # as asyncio has, to wake itself
loop = select.epoll()
loop.register(a, 1); loop.register(0, 1)
for name in "one", "two", "three":
    print(name, end="? ", flush=True)
    print("R", time.monotonic_ns(), file=notes)
    got = b""
    while not got.endswith((b"\\r", b"\\n")):
        loop.poll(float(sys.argv[2]))
        if select.select([0], [], [], 0)[0]: got += os.read(0, 100)
    print("W", file=notes)
    time.sleep(random.random() * 0.03)
    print(f"\\ngot {got.decode().strip()}")
"""

BASH_READ = """
for name in one two three; do
  printf '%s? ' $name
  echo R 0 >> "$1"
  read -r got
  echo W >> "$1"
  sleep 0.0$((RANDOM % 3))
  printf '\\ngot %s\\n' "$got"
done
"""

PERL = """
$| = 1; open(my $notes, '>>', $ARGV[0]); $notes->autoflush(1);
use IO::Handle; use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC usleep);
for my $name ('one', 'two', 'three') {
  print "$name? ";
  printf $notes "R %d\\n", clock_gettime(CLOCK_MONOTONIC) * 1e9;
  my $got = <STDIN>; chomp $got;
  print $notes "W\\n";
  usleep(int(rand(30000)));
  print "\\ngot $got\\n";
}
"""

NODE_HEAD = """
const fs = require('fs');
const file = process.argv[process.argv.length - 1];
const reads = () => fs.appendFileSync(file, `R ${process.hrtime.bigint()}\\n`);
const read = () => fs.appendFileSync(file, 'W\\n');
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
"""

NODE_QUESTION = (
    NODE_HEAD
    + """
const readline = require('readline/promises');
(async () => {
  const rl = readline.createInterface({input: process.stdin, output: process.stdout});
  for (const name of ['one', 'two', 'three']) {
    const asked = rl.question(name + '? ');
    reads();
    const got = await asked;
    read();
    await sleep(Math.random() * 30);     // the keyboard is listened to all the while
    console.log('\\ngot ' + got);
  }
  rl.close();
})();
"""
)

NODE_KEYS = (
    NODE_HEAD
    + """
process.stdin.setRawMode(true);
let got = '', names = ['two', 'three'];
process.stdin.on('data', (keys) => {
  got += keys;
  if (!/[\\r\\n]/.test(got)) return;
  read();
  process.stdin.pause();
  const all = got.trim(); got = '';
  setTimeout(() => {
    console.log('\\ngot ' + all);
    if (!names.length) process.exit();
    process.stdout.write(names.shift() + '? ');
    process.stdin.resume();
    reads();
  }, Math.random() * 30);
});
process.stdout.write('one? ');
reads();
"""
)

NODE_TIMERS = (
    NODE_KEYS
    + """
setInterval(() => {}, 80);               // a spinner that is not shown
"""
)

TURNS = """
import os, random, sys, termios, time, tty
notes = open(sys.argv[1], "w", buffering=1)
if sys.argv[2] == "raw": tty.setcbreak(0)
for turn in range(100000):
    print(turn, end="? ", flush=True)
    print("R", time.monotonic_ns(), file=notes)
    got = os.read(0, 100)
    print("W", file=notes)
    end = time.monotonic() + random.choice((0, 0.001, 0.005, 0.03)) * random.random()
    if random.random() < 0.5: time.sleep(max(0, end - time.monotonic()))
    while time.monotonic() < end: pass
    print(f"\\ngot {got.decode().strip()}")
"""
"""Asks again and again, 0 to 30 ms after each answer; with `raw` for single keys."""

_PY = (sys.executable, "-I", "-S", "-c")

ASKING: dict[str, tuple[str, ...]] = {
    "python's readline": (*_PY, PYTHON_INPUT, "NOTES"),
    "a python loop": (*_PY, PYTHON_SELECTORS, "NOTES", "-1"),
    "a python loop with a timer": (*_PY, PYTHON_SELECTORS, "NOTES", "0.1"),
    "bash's read": ("bash", "-c", BASH_READ, "bash", "NOTES"),
    "perl": ("perl", "-e", PERL, "NOTES"),
    "node's question": ("node", "-e", NODE_QUESTION, "NOTES"),
    "node's keys": ("node", "-e", NODE_KEYS, "NOTES"),
    "node's keys with a timer": ("node", "-e", NODE_TIMERS, "NOTES"),
}
"""The arguments of each; NOTES is the file."""
