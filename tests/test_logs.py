from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from haftd.logs import RateLimitedHandler, Sink, configure, redact

CANARY = "canary-5a1f"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            pass
    root = logging.getLogger()
    root.handlers = [one for one in root.handlers if not isinstance(one, RateLimitedHandler)]
    structlog.reset_defaults()


def lines(read: int) -> list[str]:
    os.set_blocking(read, False)
    return os.read(read, 1 << 20).decode().splitlines()


def test_a_non_terminal_gets_json(pipe: tuple[int, int]) -> None:
    configure("info", None, env={}, fd=pipe[1])
    log = structlog.get_logger()
    log.debug("hidden")
    log.info("started", pid=1)
    (line,) = lines(pipe[0])
    assert json.loads(line) == {
        "event": "started",
        "pid": 1,
        "level": "info",
        "timestamp": json.loads(line)["timestamp"],
    }


@pytest.mark.parametrize(
    ("terminal", "env", "colored"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (False, {}, False)],
)
def test_console_lines_are_colored_on_a_terminal_without_no_color(
    pipe: tuple[int, int], terminal: bool, env: dict[str, str], colored: bool
) -> None:
    read, write = os.openpty() if terminal else pipe
    configure("info", "console", env=env, fd=write)
    structlog.get_logger().info("started")
    text = os.read(read, 1 << 16).decode()
    assert "started" in text and ("\x1b[" in text) is colored
    if terminal:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("style", ["json", "console"])
def test_X16_a_record_is_one_line_with_any_content(pipe: tuple[int, int], style: str) -> None:
    configure("info", "json" if style == "json" else "console", env={}, fd=pipe[1])
    structlog.get_logger().info("a\nb\x1b[31m", value="c\r\nd\u2028e\x9b", other=["\n"])
    (line,) = lines(pipe[0])
    assert "\x1b[31m" not in line
    assert "\x9b" not in line


def test_the_journal_gets_a_priority(pipe: tuple[int, int]) -> None:
    stat = os.fstat(pipe[1])
    env = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
    configure("debug", None, env=env, fd=pipe[1])
    for level in ("debug", "info", "warning", "error", "critical"):
        structlog.get_logger().log(getattr(logging, level.upper()), "x")
    found = lines(pipe[0])
    assert [line[:3] for line in found] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    assert all("timestamp" not in line for line in found)


def test_a_journal_variable_for_another_file_is_ignored(pipe: tuple[int, int]) -> None:
    configure("info", None, env={"JOURNAL_STREAM": "1:2"}, fd=pipe[1])
    structlog.get_logger().info("x")
    assert lines(pipe[0])[0].startswith("{")


@pytest.mark.parametrize("style", ["json", "console"])
def test_W07_and_X17_secrets_are_hidden(pipe: tuple[int, int], style: str) -> None:
    configure("info", "json" if style == "json" else "console", env={}, fd=pipe[1])
    log = structlog.get_logger()
    log.info(
        f"GET with Bearer {CANARY}",
        token=CANARY,
        GITHUB_TOKEN=CANARY,
        header=f"Authorization: bearer {CANARY}, x",
        headers={"Authorization": CANARY, "ok": [f"haft.token.{CANARY}"]},
        env={"DB_PASSWORD": CANARY, "API_KEY": CANARY, "session_cookie": CANARY},
    )
    try:
        raise ValueError(f"Bearer {CANARY}")
    except ValueError:
        log.exception("failed")
    text = "\n".join(lines(pipe[0]))
    assert "[hidden]" in text
    assert CANARY not in text


@given(
    st.recursive(
        st.just(CANARY) | st.integers(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["a_token", "PASSWORD"]), inner)
        ),
        max_leaves=10,
    )
)
def test_a_secret_key_hides_its_subtree(value: object) -> None:
    assert CANARY not in json.dumps(redact({"my_secret": value}))


def test_a_deeply_nested_secret_is_hidden() -> None:
    event = {"a": {"b": [{"c": {"my_token": CANARY}}]}}
    assert CANARY not in json.dumps(redact(event)) and CANARY not in json.dumps(
        redact([[[[event]]]])
    )


def test_a_full_pipe_drops_lines_and_counts_them(pipe: tuple[int, int]) -> None:
    read, write = pipe
    sink = Sink(write)
    for number in range(5000):
        sink.msg(f"{number:05} " + "x" * 100)
    assert sink.dropped > 1000
    dropped = sink.dropped
    got = lines(read)
    assert got[0].startswith("00000 ")
    sink.msg("after")
    assert lines(read)[-2:] == [f"{dropped} log lines were dropped", "after"]
    assert sink.dropped == 0


def test_a_torn_line_does_not_swallow_the_next(pipe: tuple[int, int]) -> None:
    read, write = pipe
    sink = Sink(write)
    while not sink.dropped:
        sink.msg("y" * 20_000)
    assert lines(read)[-1].startswith("yyy")
    sink.msg("whole")
    assert lines(read) == ["", "1 log lines were dropped", "whole"]


def test_L10_an_unwritable_log_is_no_fault() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(full)
    sink.msg("x")
    sink.msg("y")
    os.close(full)
    assert sink.dropped == 2


def test_a_closed_reader_is_no_fault(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(read)
    sink = Sink(write)
    sink.msg("x")
    assert sink.dropped == 1


def test_invalid_utf8_is_still_a_line(pipe: tuple[int, int]) -> None:
    Sink(pipe[1]).msg("\udcff")
    assert lines(pipe[0]) == ["\\udcff"]


def test_U10_a_flooding_library_gets_a_line_a_second(pipe: tuple[int, int]) -> None:
    configure("info", None, env={}, fd=pipe[1])
    now = 0.0
    handler = RateLimitedHandler(structlog.get_logger(), clock=lambda: now)
    logger = logging.Logger("trio.serve_listeners")
    logger.addHandler(handler)
    for _ in range(100):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            logger.exception("accept failed, trying again in 0.1 s")
        now += 0.03
    found = [json.loads(line) for line in lines(pipe[0])]
    assert len(found) == 3
    assert found[0]["error"] == "OSError(24, 'Too many open files')"
    assert sum(one["left_out"] for one in found) > 60
    assert "Traceback" not in json.dumps(found)


def test_jsonrpcserver_never_prints_our_errors() -> None:
    script = (
        "import logging\n"
        "from haftd.logs import configure\n"
        "import haftd.rpc.jsonrpcserver\n"
        "configure('debug', 'json', env={})\n"
        "logging.getLogger('jsonrpcserver.async_dispatcher').error('secret detail')\n"
        "logging.getLogger('other').warning('heard')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert "secret detail" not in done.stderr
    assert "heard" in done.stderr
