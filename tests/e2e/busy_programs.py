"""Programs that print prompt-like output while they work, in every way of working. A program is
called with a file for its notes (see `asking`) and a way of working. It works, asks `one? `,
works again and asks `two? `; in between it prints question-like lines, mostly without a line
end, and `still at work`."""

from __future__ import annotations

import sys

from tests.e2e.prompt_programs import NODE_HEAD

_PYTHON = r"""
import fcntl, os, random, select, socket, subprocess, sys, tempfile, termios, threading, time, tty
notes = open(sys.argv[1], "a", buffering=1)
LOOKS = ("Continue? [y/N] ", "Password: ", ">>> ", "$ ", "# ", "(gdb) ", "Name? ", "--More--")
cooked = termios.tcgetattr(0)

def compute(s):
    end = time.monotonic() + s
    while time.monotonic() < end: pass

def later(s, act):
    threading.Thread(target=lambda: (time.sleep(s), act()), daemon=True).start()

def pipe_of(s):
    r, w = os.pipe()
    later(s, lambda: os.write(w, b"."))
    return r

def connection(s):
    a, b = socket.socketpair()
    later(s, lambda: b.send(b"."))
    return a

def server(s):
    listens = socket.create_server(("127.0.0.1", 0))
    def serve():
        with listens.accept()[0] as peer: time.sleep(s); peer.send(b".")
    threading.Thread(target=serve, daemon=True).start()
    return socket.create_connection(listens.getsockname())

def lock(s):
    file = tempfile.NamedTemporaryFile()
    held = subprocess.Popen([sys.executable, "-I", "-S", "-c", (
        "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True);"
        "time.sleep(float(sys.argv[2]))"), file.name, str(s)], stdout=subprocess.PIPE)
    held.stdout.readline()
    fcntl.flock(file, fcntl.LOCK_EX)
    held.communicate()

def forked(s):
    if not os.fork(): time.sleep(s); os._exit(0)
    os.wait()

def keyboard_between_steps(s):           # as a display of progress that looks for `q`
    for n in range(int(s / 0.02)):
        print(f"\r{n} (q to stop) ", end="", flush=True)
        time.sleep(0.02)
        select.select([0], [], [], 0)

def keyboard_taken_over(s):
    tty.setcbreak(0)
    keyboard_between_steps(s)

def keyboard_watched_between_steps(s):   # it sleeps by waiting for `q`
    tty.setcbreak(0)
    for n in range(int(s / 0.05)):
        print(f"\r{n} (q to stop) ", end="", flush=True)
        select.select([0], [], [], 0.05)

def keyboard_watched_in_silence(s):
    tty.setcbreak(0)
    for n in range(int(2 * s / 0.08)):
        compute(0.06)
        select.select([0], [], [], 0.02)

def a_loop_with_a_timer(s):              # the keyboard is in its loop, and not asked for
    tty.setcbreak(0)
    loop = select.epoll()
    loop.register(0, 1)
    loop.poll(s)

def a_loop_with_a_child(s):
    tty.setcbreak(0)
    child = subprocess.Popen(["sh", "-c", f"sleep {s}; echo"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE)
    loop = select.epoll()
    loop.register(0, 1); loop.register(child.stdout, 1)
    loop.poll()
    child.communicate()

def build(s):
    for n in range(4):
        print(f"CC part{n}.o", flush=True)
        time.sleep(random.choice((0.005, 0.02, 0.1, s)))

WAYS = {
    "sleep": time.sleep,
    "small sleeps": lambda s: [time.sleep(0.01) for _ in range(int(s * 100))],
    "small sleeps with output": lambda s: [
        (time.sleep(0.02), print(random.choice(LOOKS), end="", flush=True))
        for _ in range(int(s * 50))],
    "build": build,
    "compute": compute,
    "child": lambda s: subprocess.run(["sleep", str(s)]),
    "child that reads a pipe": lambda s: subprocess.run(
        ["sh", "-c", f"sleep {s} | cat"], stdin=subprocess.DEVNULL),
    "fork": forked,
    "pipe": lambda s: os.read(pipe_of(s), 1),
    "socket": lambda s: connection(s).recv(1),
    "network": lambda s: server(s).recv(1),
    "select of nothing": lambda s: select.select([], [], [], s),
    "select of a pipe": lambda s: select.select([pipe_of(9)], [], [], s),
    "thread": lambda s: (t := threading.Thread(target=time.sleep, args=(s,)), t.start(), t.join()),
    "lock": lock,
    "file": lambda s: [os.pread(os.open("/dev/zero", 0), 1 << 20, 0) for _ in range(50)],
    "keyboard between steps": keyboard_between_steps,
    "keyboard taken over": keyboard_taken_over,
    "keyboard watched between steps": keyboard_watched_between_steps,
    "keyboard watched in silence": keyboard_watched_in_silence,
    "a loop with a timer": a_loop_with_a_timer,
    "a loop with a child": a_loop_with_a_child,
}

for name in "one", "two":
    print(random.choice(LOOKS), end="", flush=True)
    WAYS[sys.argv[2]](random.choice((0.005, 0.1, 0.4, 0.7)))
    print("still at work", flush=True)
    print(random.choice(LOOKS), end="", flush=True)
    WAYS[sys.argv[2]](random.choice((0.02, 0.3, 0.5)))
    print("still at work", flush=True)
    termios.tcsetattr(0, termios.TCSANOW, cooked)
    print(name, end="? ", flush=True)
    print("R 0", file=notes)
    sys.stdin.readline()
    print("W", file=notes)
"""

_BASH = r"""
looks=('Continue? [y/N] ' 'Password: ' '>>> ' '$ ' '# ' 'Name? ')
some() { local -n from=$1; REPLY=${from[RANDOM % ${#from[@]}]}; }
times=(0.005 0.1 0.4 0.7)
work() {
  some looks; printf '%s' "$REPLY"
  some times; t=$REPLY
  case $1 in
    sleep) sleep $t ;;
    job) sleep $t & wait ;;
    substitution) x=$(sleep $t; echo x) ;;
    pipe) { sleep $t; echo; } | cat ;;
    fifo) sleep $t > >(cat) ; read -r x < <(sleep $t; echo) ;;
    loop) end=$((${EPOCHREALTIME/./} + 200000)); while ((${EPOCHREALTIME/./} < end)); do :; done ;;
    build) for n in 1 2 3; do echo "CC $n.o"; some times; sleep $REPLY; done ;;
    read) read -rt $t x < <(sleep 9) ;;
  esac
  echo still at work
}
for name in one two; do
  work "$2"; work "$2"
  printf '%s? ' $name
  echo R 0 >> "$1"; read -r x; echo W >> "$1"
done
"""

_NODE = (
    NODE_HEAD.replace("process.argv.length - 1", "process.argv.length - 2")
    + r"""
const {exec, execSync, spawn} = require('child_process');
const crypto = require('crypto');
const readline = require('readline/promises');
const way = process.argv[process.argv.length - 1];
const some = (all) => all[Math.floor(Math.random() * all.length)];
const looks = ['Continue? [y/N] ', 'Password: ', '> ', '$ ', 'Name? '];
const child = (ms) => new Promise((done) => exec(`sleep ${ms / 1000}`, done));
const ways = {
  'sleep': sleep,
  'child': child,
  'child waited for': async (ms) => execSync(`sleep ${ms / 1000}`),
  'compute': async (ms) => { const end = Date.now() + ms; while (Date.now() < end); },
  'steps': async (ms) => {
    for (let n = 0; n < ms / 20; n++) { process.stdout.write(some(looks)); await sleep(20); }
  },
  'long sleep': (ms) => sleep(ms < 100 ? ms : 1700),
  'child with the keyboard': (ms) => new Promise((done) =>
    spawn('sleep', [`${ms / 1000}`], {stdio: 'inherit'}).on('exit', done)),
  'thread': (ms) => new Promise((done) => crypto.pbkdf2('', '', ms * 800, 64, 'sha512', done)),
  'open sleep': sleep,
  'open child': child,
  'open steps': async (ms) => {
    for (let n = 0; n < ms / 20; n++) { process.stdout.write(some(looks)); await sleep(20); }
  },
};
const open = way.startsWith('open');     // the keyboard is listened to all the while
const make = () => readline.createInterface({input: process.stdin, output: process.stdout});
(async () => {
  let rl = open ? make() : null;
  for (const name of ['one', 'two']) {
    for (const ms of [some([5, 100, 400, 700]), some([20, 300, 500])]) {
      process.stdout.write(some(looks));
      await ways[way](ms);
      console.log('still at work');
    }
    if (!open) rl = make();
    const asked = rl.question(name + '? ');
    reads();
    await asked;
    read();
    if (!open) rl.close();
  }
  process.exit();
})();
"""
)

C_WORKER = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *looks[] = {"Continue? [y/N] ", "Password: ", ">>> ", "$ ", "Name? "};

static void *nap(void *us) { usleep((long)us); return 0; }
static void woken(int s) {}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void work(const char *way, long us) {
    long long end = now() + us;
    int ends[2];
    char c;
    if (!strcmp(way, "sleep")) usleep(us);
    else if (!strcmp(way, "compute")) while (now() < end);
    else if (!strcmp(way, "yield")) while (now() < end) sched_yield();
    else if (!strcmp(way, "keyboard")) {
        struct pollfd p = {0, POLLIN, 0};
        while (now() < end) { poll(&p, 1, 0); usleep(3000); }
    } else if (!strcmp(way, "thread")) {
        pthread_t t;
        pthread_create(&t, 0, nap, (void *)us);
        pthread_join(t, 0);
    } else if (!strcmp(way, "child")) {
        if (!fork()) { usleep(us); _exit(0); }
        wait(0);
    } else if (!strcmp(way, "pipe")) {
        pipe(ends);
        if (!fork()) { usleep(us); write(ends[1], ".", 1); _exit(0); }
        read(ends[0], &c, 1);
        wait(0);
    } else if (!strcmp(way, "poll")) {
        pipe(ends);
        struct pollfd p = {ends[0], POLLIN, 0};
        poll(&p, 1, us / 1000);
    } else if (!strcmp(way, "alarm")) {
        signal(SIGALRM, woken);
        ualarm(us, 0);
        pause();
    }
}

int main(int argc, char **argv) {
    const char *names[] = {"one", "two"};
    long times[] = {5000, 100000, 400000, 700000};
    char line[100];
    FILE *notes = fopen(argv[1], "a");
    srand(getpid());
    for (int n = 0; n < 2; n++) {
        for (int m = 0; m < 2; m++) {
            printf("%s", looks[rand() % 5]);
            fflush(stdout);
            work(argv[2], times[rand() % 4]);
            printf("still at work\n");
        }
        printf("%s? ", names[n]);
        fflush(stdout);
        fprintf(notes, "R 0\n");
        fflush(notes);
        if (!fgets(line, sizeof line, stdin)) return 1;
        fprintf(notes, "W\n");
        fflush(notes);
    }
    return 0;
}
"""


def _ways(name: str, argv: tuple[str, ...], *ways: str) -> dict[str, tuple[str, ...]]:
    return {f"{name}: {way}": (*argv, "NOTES", way) for way in ways}


WORKING: dict[str, tuple[str, ...]] = {
    **_ways(
        "python",
        (sys.executable, "-I", "-S", "-c", _PYTHON),
        *("sleep", "small sleeps", "small sleeps with output", "build", "compute", "child"),
        *("child that reads a pipe", "fork", "pipe", "socket", "network", "select of nothing"),
        *("select of a pipe", "thread", "lock", "file", "keyboard between steps"),
        *("keyboard taken over", "keyboard watched between steps", "keyboard watched in silence"),
        *("a loop with a timer", "a loop with a child"),
    ),
    **_ways(
        "bash",
        ("bash", "-c", _BASH, "bash"),
        *("sleep", "job", "substitution", "pipe", "fifo", "loop", "build", "read"),
    ),
    **_ways(
        "node",
        ("node", "-e", _NODE),
        *(
            "sleep",
            "child",
            "child waited for",
            "compute",
            "steps",
            "long sleep",
            "thread",
            "child with the keyboard",
        ),
        *("open sleep", "open child", "open steps"),
    ),
    **_ways(
        "C",
        ("C",),
        *("sleep", "compute", "yield", "keyboard", "thread", "child", "pipe", "poll", "alarm"),
    ),
}
"""The arguments of each; NOTES is the file. C is the compiled `C_WORKER`."""

LEAN = (
    *("python: build", "python: fork", "python: socket", "python: select of a pipe"),
    *("python: keyboard between steps", "python: keyboard taken over"),
    *("python: keyboard watched between steps", "python: a loop with a timer"),
    *("python: a loop with a child", "python: thread"),
    *("bash: sleep", "bash: fifo", "bash: read", "C: keyboard", "C: pipe", "C: alarm"),
    *("node: sleep", "node: long sleep", "node: child with the keyboard", "node: thread"),
    *("node: open sleep", "node: open child"),
)
"""Some of every kind, which take little of a processor."""
